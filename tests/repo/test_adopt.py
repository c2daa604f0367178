#!/usr/bin/env python3
"""The diffs of samples/adopt: only lines are added, at places that say how many, and what they call exists.

usage: test_adopt.py ROOT
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop())
ADOPT = ROOT / "samples" / "adopt"
HUNK = re.compile(r"@@ -\d+,0 \+\d+(?:,(\d+))? @@")


def added(diff):
    """The added lines of a diff. Raises ValueError for any other line."""
    lines, left = [], 0
    for number, line in enumerate(diff.splitlines(), 1):
        if left:
            if not line.startswith("+"):
                raise ValueError(f"line {number} is not added: {line}")
            lines.append(line[1:])
            left -= 1
        elif hunk := HUNK.fullmatch(line):
            left = int(hunk[1] or 1)
        elif not line.startswith(("--- a/", "+++ b/")):
            raise ValueError(f"line {number} is no header of an addition: {line}")
    if left:
        raise ValueError(f"{left} lines are missing at the end")
    return lines


class Adopt(unittest.TestCase):
    def test_only_lines_are_added(self):
        for path in sorted(ADOPT.glob("*.diff")):
            with self.subTest(path.name):
                self.assertTrue(added(path.read_text(encoding="utf-8")))

    def test_another_line_is_refused(self):
        head = "--- a/x\n+++ b/x\n"
        for bad in ("@@ -1 +1 @@\n-a\n+b\n", "@@ -1,0 +2 @@\n a\n", "@@ -1,0 +2,2 @@\n+a\n", "@@ -1,0 +2 @@ f()\n+a\n"):
            with self.assertRaises(ValueError, msg=bad):
                added(head + bad)

    def test_hooks_exist(self):
        hooks = set(re.findall(r"#define (TILESCOPE_\w+)", (ROOT / "dump/hook.h").read_text(encoding="utf-8")))
        layouts = set(re.findall(r"struct (\w+)", (ROOT / "dump/hook/layouts.h").read_text(encoding="utf-8")))
        stores = re.findall(r"^def (\w+)", (ROOT / "dump/python/tilescope/triton.py").read_text(encoding="utf-8"), re.M)
        for path in sorted(ADOPT.glob("*.diff")):
            lines = "\n".join(added(path.read_text(encoding="utf-8")))
            with self.subTest(path.name):
                named = set(re.findall(r"\bTILESCOPE_\w+", lines)) - {"TILESCOPE_DUMP"}
                self.assertLessEqual(named, hooks)
                self.assertLessEqual(set(re.findall(r"\b((?:Mma|Wgmma|Cute)\w+)\{", lines)), layouts)
                self.assertLessEqual(set(re.findall(r"\bts\.(\w+)", lines)), set(stores))

    def test_each_diff_has_a_page_and_a_program(self):
        index = (ADOPT / "README.md").read_text(encoding="utf-8")
        for path in sorted(ADOPT.glob("*.diff")):
            page = path.with_suffix(".md")
            with self.subTest(path.name):
                self.assertIn(f"({page.name})", index)
                text = page.read_text(encoding="utf-8")
                self.assertIn(path.name, text)
                self.assertRegex(text, r"\b[0-9a-f]{40}\b")
                program = path.stem.replace("-", "_")
                self.assertTrue(any((ADOPT / f"{program}{end}").exists() for end in (".cu", ".py")), program)


if __name__ == "__main__":
    unittest.main()
