#!/usr/bin/env python3
"""Installed are the headers that stand in dump/ itself and what they include from hook/, schema/ and recording/, nothing
else; and each of the public ones compiles alone from there, as C++17.

usage: installed_headers_test.py ROOT BUILD SCRATCH CMAKE CXX
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT, BUILD, SCRATCH = (pathlib.Path(argument) for argument in sys.argv[1:4])
CMAKE, CXX = sys.argv[4:6]
PUBLIC = ["array_recording.h", "capture.h", "flight_recorder.h", "hook.h", "poison.h", "program_capture.h", "program_file.h",
          "program_hook.h", "reader.h", "recording.h", "schema.h", "watch.h", "writer.h"]
# What -DDEBUG_DUMP and TILESCOPE_DUMP switch.
SWITCHED = {"capture.h", "flight_recorder.h", "hook.h", "program_capture.h", "program_hook.h"}
ROOMS = {"dump", "dump/hook", "dump/schema", "dump/recording"}


def closure(headers):
    """Files of the repository that the headers include, directly or not, as the compiler sees them."""
    found = set()
    for macro in ("-DDEBUG_DUMP", "-UDEBUG_DUMP"):
        source = "".join(f'#include "dump/{header}"\n' for header in headers)
        listed = subprocess.run([CXX, "-std=c++20", macro, "-MM", "-x", "c++", "-I", ROOT, "-"], input=source,
                                capture_output=True, text=True, check=True).stdout
        found |= {pathlib.Path(name).relative_to(ROOT).as_posix() for name in re.findall(r"\S+\.h\b", listed)}
    return found


class InstalledHeaders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", SCRATCH, "--component", "capture"], check=True, capture_output=True)
        cls.include = SCRATCH / "include" / "tilescope"
        cls.installed = {path.relative_to(cls.include).as_posix() for path in cls.include.rglob("*.*")}

    def test_what_stands_in_dump_is_public(self):
        self.assertEqual(sorted(path.name for path in (ROOT / "dump").glob("*.h")), PUBLIC)

    def test_they_and_what_they_include_are_installed(self):
        self.assertLessEqual(closure(PUBLIC), self.installed)

    def test_nothing_of_another_room_is(self):
        self.assertEqual({path.rpartition("/")[0] for path in self.installed} - ROOMS, set())

    def test_nothing_is_that_nobody_includes(self):
        text = {path: (self.include / path).read_text() for path in self.installed}
        for path in self.installed - {f"dump/{header}" for header in PUBLIC}:
            self.assertTrue(any(f'"{path}"' in other for other in text.values()), path)

    def test_each_public_header_compiles_alone(self):
        for header in PUBLIC:
            for macro in ("-DTILESCOPE_DUMP=1", "-DTILESCOPE_DUMP=0") if header in SWITCHED else ("-DDEBUG_DUMP",):
                with self.subTest(header=header, macro=macro):
                    done = subprocess.run(
                        [CXX, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", macro, "-fsyntax-only",
                         "-x", "c++", "-I", self.include, "-"],
                        input=f'#include "dump/{header}"\n', capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
