#!/usr/bin/env python3
"""Hooks that must not compile, and what the compiler has to say of each.

usage: refused_hooks_test.py ROOT CXX
"""

import pathlib
import subprocess
import sys
import unittest

PROGRAM = """
#define DEBUG_DUMP
#include "dump/hook.h"
struct Quantised {{ unsigned char bits; }};
struct Known {{ float value; }};
inline float hook_float(Known known) {{ return known.value; }}
void hooked(const tilescope::Sink& sink) {{
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    {hook}
}}
"""

ACCEPTED = {
    "float": "TILESCOPE_VALUE(s, 0, 0, 0, 1.0f);",
    "a type with a hook_float": "TILESCOPE_VALUE(s, 0, 0, 0, Known());",
    "a whole accumulator": "float c[8] = {}; TILESCOPE_FRAGMENT(s, 0, c, MmaAccumulator{0, 0, 0});",
    "a tile in memory": "static float s[64 * 64]; TILESCOPE_TILE(s, 0, s, 64, 0, 1);",
    "a transposed tile": "static float s[64 * 64]; TILESCOPE_TILE(s, 0, tilescope::transposed(s), 64, 0, 1);",
}
TYPES = "a hook records float, __half, __nv_bfloat16 and types with a hook_float"
DOUBLE = "would round a double: convert it to float in the kernel"
PART = "the accumulator is not whole: pass all values that a lane holds of its tiles"
REFUSED = {
    "double": ("TILESCOPE_VALUE(s, 0, 0, 0, 1.0);", DOUBLE),
    "replicated double": ("TILESCOPE_REPLICATED(m, 0, 0, 0, 1.0);", DOUBLE),
    "tile of double": ("static double s[64 * 64]; TILESCOPE_TILE(s, 0, s, 64, 0, 1);", DOUBLE),
    "transposed tile of double":
        ("static double s[64 * 64]; TILESCOPE_TILE(s, 0, tilescope::transposed(s), 64, 0, 1);", DOUBLE),
    "fragment of double": ("double c[4] = {}; TILESCOPE_FRAGMENT(s, 0, c, Columns{0, 0});", DOUBLE),
    "int": ("TILESCOPE_VALUE(s, 0, 0, 0, 1);", TYPES),
    "bool": ("TILESCOPE_VALUE(s, 0, 0, 0, true);", TYPES),
    "a type without hook_float": ("TILESCOPE_VALUE(s, 0, 0, 0, Quantised());", TYPES),
    "part of an mma.sync accumulator":
        ("float c[6] = {}; TILESCOPE_FRAGMENT(s, 0, c, MmaAccumulator{0, 0, 0});", PART),
    "part of a wgmma accumulator":
        ("float c[2] = {}; TILESCOPE_FRAGMENT(s, 0, c, WgmmaAccumulator{0, 0, 0});", PART),
    "no stage": ("TILESCOPE_VALUE(scores, 0, 0, 0, 1.0f);", "scores"),
}


class RefusedHooks(unittest.TestCase):
    def compile(self, hook):
        return subprocess.run(
            [cxx, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", root, "-"], input=PROGRAM.format(hook=hook),
            capture_output=True, text=True)

    def test_accepted(self):
        for name, hook in ACCEPTED.items():
            with self.subTest(name):
                result = self.compile(hook)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_refused(self):
        for name, (hook, message) in REFUSED.items():
            with self.subTest(name):
                result = self.compile(hook)
                self.assertNotEqual(result.returncode, 0, "compiled")
                self.assertIn(message, result.stderr)


if __name__ == "__main__":
    root, cxx = pathlib.Path(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1])
