#!/usr/bin/env python3
"""Holds the classes that -DDEBUG_DUMP switches to the same public members with and without it, and the examples in
comments of headers to lines that clang-format did not break.

usage: public_headers_test.py ROOT
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
HEADERS = {"dump/capture.h": "Capture", "dump/flight_recorder.h": "FlightRecorder"}


def public_members(text, name):
    """Names before a parenthesis, constructors and operators left out."""
    body = re.search(rf"^class {name} {{\n public:\n(.*?)(?:^ private:|^}};)", text, re.MULTILINE | re.DOTALL)[1]
    code = re.sub(r"//.*", "", body)
    return {found for found in re.findall(r"^    \S.*?\b(\w+)\(", code, re.MULTILINE)} - {name}


class PublicHeaders(unittest.TestCase):
    def test_members_are_the_same_with_and_without_hooks(self):
        for header, name in HEADERS.items():
            with self.subTest(header=header):
                on, off = (ROOT / header).read_text().split("inline namespace hooks_off {")
                self.assertIn("save", public_members(on, name))
                self.assertEqual(public_members(on, name), public_members(off, name))

    def test_hooks_of_examples_begin_their_lines(self):
        hook = r"TILESCOPE_(?:BLOCK|VALUE|REPLICATED|TILE|ROWS|FRAGMENT)\("
        examples = 0
        for header in sorted((ROOT / "dump").glob("*.h")):
            for line in re.findall(rf"^//     (.*{hook}.*)$", header.read_text(), re.MULTILINE):
                examples += 1
                self.assertRegex(line, rf"^{hook}[^;]*;$", header)
        self.assertGreaterEqual(examples, 5)


if __name__ == "__main__":
    unittest.main()
