#!/usr/bin/env python3
"""Holds the tables of options against what the programs print with --help, that of keys against tile-view's own, and
the example of the pages against the sample that it is taken from.

usage: test_pages.py ROOT TILE_DIFF [TILE_VIEW]
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
PROGRAMS = [pathlib.Path(sys.argv.pop(1)) for _ in sys.argv[1:]]
PAGES = {"tile-diff": "oracle/README.md", "tile-view": "viewer/README.md"}
# The lines that samples/my_attention.cu has, and pages show.
SHOWN = re.compile(r"TILESCOPE_(?:BLOCK|VALUE)\(.*;|tilescope::Capture .*;|capture\..*;")


def rows_of(page, heading):
    """The cells of the table below a heading, without the table's own."""
    section = (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines()
            if line.startswith("| ")]
    return rows[1:]


def commands():
    """Group, key and help of the table that tile-view shows as its help."""
    text = (ROOT / "viewer/state/commands.cpp").read_text()
    groups = dict(re.findall(r'std::string_view (\w+) = "([^"]+)";', text))
    return [(groups[group], key, said)
            for group, key, said in re.findall(r'Command\{\s*group::(\w+), "([^"]+)",\s+"([^"]*)"', text)]


class Options(unittest.TestCase):
    def test_pages_have_every_option(self):
        self.assertTrue(PROGRAMS)
        for program in PROGRAMS:
            with self.subTest(program=program.name):
                printed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
                options = set(re.findall(r"^ +(?:-\w,)?(--[\w-]+)", printed, re.MULTILINE)) - {"--help", "--version"}
                said = {option for row in rows_of(PAGES[program.name], "Options")
                        for option in re.findall(r"--[\w-]+", row[0])}
                self.assertGreater(len(options), 5)
                self.assertEqual(said, options)


class Keys(unittest.TestCase):
    def test_the_page_has_every_key_with_its_help(self):
        rows = []
        for group, key, said in commands():
            if said:
                rows.append([group, key, said])
            else:  # another key of the command before
                rows[-1][1] += " " + key
        self.assertGreater(len(rows), 50)
        self.assertEqual(rows_of("viewer/README.md", "Keys"), rows)


class Example(unittest.TestCase):
    def test_pages_show_lines_that_the_sample_has(self):
        sample = (ROOT / "samples/my_attention.cu").read_text()
        for page in ("README.md", "dump/HOOKS.md", "samples/README.md"):
            block = re.search(r"^```cpp\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)[1]
            lines = [match[0] for line in block.splitlines() if (match := SHOWN.search(line.split("//")[0]))]
            with self.subTest(page=page):
                self.assertGreaterEqual(len(lines), 6)
                self.assertEqual([line for line in lines if line not in sample], [])


if __name__ == "__main__":
    unittest.main()
