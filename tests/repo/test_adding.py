#!/usr/bin/env python3
"""Adding one of each is what the table of .github/CONTRIBUTING.md says: an existing one of its kind is named in the files
of the table's row, and in no other file of the programs or the pages.

usage: test_adding.py ROOT
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PAGE = ".github/CONTRIBUTING.md"

# What names one of the kind, wherever it is named. An example is one that no other part has a use of its own for.
EXAMPLES = {
    "a kernel": r"\bstable\.(?:cu|h)\b|\"stable\"|\bstable_configs\b|\bstable = |^\| `stable`(?: [\dx]+)? \|",
    "a planted fault": r"\bmax_own_lane\b",
    "a dtype": r"\be5m2\b",
    "a cause": r"\balibi_offset\b",
    "a fragment of threads": r"\bwgmma_m64\b",
    "a rule of the watch": r"\bo_not_acc_over_l\b",
    "a panel of tile-view": r"\bdraw_bad_rows\b|panels/bad_rows\.cpp",
    "a quantity of heatmaps": r'"relative error"|\bchoose<Quantity::relative>|^    relative,',
    "a format of reports": r'"json", "for programs"|`json`, for programs',
}
# Not counted: what tests and records of runs say, and the page itself.
LEFT_OUT = ("tests/", "samples/", "kernels/evidence/", ".github/")


def rows():
    """{kind: the files of its row}; an entry that ends with / stands for one file of that folder."""
    table = {}
    for line in (ROOT / PAGE).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 3 and cells[0].startswith("a "):
            table[cells[0]] = re.findall(r"`([\w./]+(?:/|\.\w+))`", cells[1] + " " + cells[2])
    return table


def files_naming(pattern):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh", "*.md", "*.txt", "*.json"],
                           capture_output=True, text=True, check=True).stdout.split()
    return {name for name in names if not name.startswith(LEFT_OUT) and re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)}


def stands_for(entry, path):
    """Whether an entry of a row is the file, or the folder that it is in."""
    return path == entry or (entry.endswith("/") and path.startswith(entry))


class Adding(unittest.TestCase):
    def test_the_table_has_each_kind(self):
        self.assertLessEqual(set(EXAMPLES), set(rows()))

    def test_files_of_the_table_are_there(self):
        for kind, listed in rows().items():
            for entry in listed:
                if "/" in entry and "NAME" not in entry:
                    self.assertTrue((ROOT / entry).exists(), f"{kind}: {entry}")

    def test_an_existing_one_is_named_where_the_table_says(self):
        for kind, pattern in EXAMPLES.items():
            with self.subTest(kind):
                listed, naming = rows()[kind], files_naming(pattern)
                self.assertGreater(len(naming), 0)
                listed = [entry for entry in listed if not entry.startswith(LEFT_OUT)]
                self.assertEqual({path for path in naming if not any(stands_for(entry, path) for entry in listed)}, set())
                for entry in listed:
                    self.assertTrue(any(stands_for(entry, path) for path in naming), f"{entry} does not name it")


if __name__ == "__main__":
    unittest.main()
