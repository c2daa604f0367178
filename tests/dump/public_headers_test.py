#!/usr/bin/env python3
"""Holds the classes that -DDEBUG_DUMP switches to the same public members with and without it, hooks to the same parameters,
and compiles the examples in comments of headers, either way.

usage: public_headers_test.py ROOT CXX
"""

import pathlib
import re
import subprocess
import sys
import unittest

CXX = sys.argv.pop(2)
ROOT = pathlib.Path(sys.argv.pop(1))
HEADERS = {"dump/capture.h": "Capture", "dump/flight_recorder.h": "FlightRecorder", "dump/program_capture.h": "ProgramCapture"}
# A kernel's author includes these first: each shows how.
SHOWN = {"dump/hook.h", "dump/capture.h", "dump/flight_recorder.h", "dump/program_hook.h", "dump/program_capture.h"}

# CUDA's words for a compiler of the host, and what the examples leave to the reader.
SURROUNDINGS = """
#include "{header}"
#include "dump/hook.h"
#define __global__
struct half {{ unsigned short bits; }};
inline float hook_float(half value) {{ return value.bits; }}
{declarations}
{kernel}
{statements}
"""
KERNEL = "void attention(const half* q, const half* k, const half* v, half* o TILESCOPE_SINK_PARAM(sink));"
OF_PROGRAMS = """
#include "dump/program_capture.h"
#include "dump/program_hook.h"
extern half *a, *w, *y;
"""
# What the kernel and the host of a declared kernel have in sight.
DECLARED = """
extern int blocks, n, m, n0, m0, rows, cols, ld, thread, threads, row, col, lane;
extern float data[64 * 64], sum;
"""
DECLARED_KERNEL = """
TILESCOPE_PROGRAM(gemm, "stage y = 1.0 output y");
extern int n, k, m;
void gemm_kernel(const half* a, const half* w, half* y TILESCOPE_PROGRAM_SINK_PARAM(sink));
"""
IN_THE_KERNEL = """
extern int batch, head, q_block, kv_tiles, ld, thread, threads, row, col, lane;
extern half k_shared[64 * 64], v_shared[64 * 64];
extern float s[4], row_sum, row_max;
void attention_block(const half* q, const half* k, const half* v, half* o TILESCOPE_CALL_PARAM);
"""
ON_THE_HOST = """
#include "dump/capture.h"
#include "dump/flight_recorder.h"
extern half *q, *k, *v, *o;
extern int steps;
extern void* stream;
"""
GIVEN = {
    "dump/hook.h": "#include <string>\nextern tilescope::Capture capture; extern std::string bytes;",
    "dump/flight_recorder.h": "extern tilescope::Problem problem; extern tilescope::FlightOptions options;",
}


def public_members(text, name):
    """Names before a parenthesis, constructors and operators left out."""
    body = re.search(rf"^class {name} {{\n public:\n(.*?)(?:^ private:|^}};)", text, re.MULTILINE | re.DOTALL)[1]
    code = re.sub(r"//.*", "", body)
    return {found for found in re.findall(r"^    \S.*?\b(\w+)\(", code, re.MULTILINE)} - {name}


def hooks_of(text):
    """Macros with their parameters."""
    return dict(re.findall(r"^#define (TILESCOPE_\w+)(\([^)]*\))?", text, re.MULTILINE))


def examples_in(text):
    """Code in comments: lines four spaces deeper than prose, and empty ones between them."""
    code = r"[ ]*//[/!]?     +\S.*\n"
    for block in re.findall(rf"^(?:{code})(?:(?:[ ]*//[/!]?\n)*{code})*", text, re.MULTILINE):
        yield re.sub(r"^[ ]*//[/!]?(?:     )?", "", block, flags=re.MULTILINE)


def surrounded(header, example):
    """A source with the example: a kernel, or statements of the host, whose launches become calls."""
    if header.startswith("dump/program_"):
        return surrounded_program(header, example)
    if "__global__" in example:
        return SURROUNDINGS.format(header=header, declarations=IN_THE_KERNEL, kernel=example, statements="")
    host = re.sub(r"<<<[^>]*>>>", "", example)
    declarations = ON_THE_HOST + GIVEN.get(header, "")
    return SURROUNDINGS.format(header=header, declarations=declarations, kernel=KERNEL,
                               statements=f"void example() {{\n{host}}}")


def surrounded_program(header, example):
    """The same of a declared kernel. Its launch is left out where the kernel stands before it."""
    if "__global__" in example:
        kernel = re.sub(r"^\w+<<<.*\n", "", example, flags=re.MULTILINE)
        declarations = OF_PROGRAMS + DECLARED + "extern float tile[4];"
        return SURROUNDINGS.format(header=header, declarations=declarations, kernel=kernel, statements="")
    host = re.sub(r"<<<[^>]*>>>", "", example)
    return SURROUNDINGS.format(header=header, declarations=OF_PROGRAMS + DECLARED_KERNEL, kernel="",
                               statements=f"void example() {{\n{host}}}")


def compiled(source, *options):
    return subprocess.run([CXX, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", ROOT, *options, "-"], input=source,
                          capture_output=True, text=True)


class PublicHeaders(unittest.TestCase):
    def test_members_are_the_same_with_and_without_hooks(self):
        for header, name in HEADERS.items():
            with self.subTest(header=header):
                on, off = (ROOT / header).read_text().split("inline namespace hooks_off {")
                self.assertIn("save", public_members(on, name))
                self.assertEqual(public_members(on, name), public_members(off, name))

    def test_hooks_take_the_same_with_and_without_hooks(self):
        parts_of_others = {"dump/hook.h": ["TILESCOPE_HOOKED"],
                           "dump/program_hook.h": [f"TILESCOPE_PROGRAM_{what}" for what in ("STAGE", "NUMBERS", "DECLARED", "NOTE")]}
        for header, parts in parts_of_others.items():
            on, off = (hooks_of(text) for text in (ROOT / header).read_text().split("\n#else\n"))
            for part in parts:
                del on[part]
            self.assertGreater(len(on), 8)
            self.assertEqual(on, off)


class Examples(unittest.TestCase):
    def setUp(self):
        headers = sorted([*(ROOT / "dump").glob("*.h"), *(ROOT / "dump/hook").glob("*.h")])
        self.examples = [(f"dump/{header.name}", example) for header in headers
                         for example in examples_in(header.read_text())]

    def test_hooks_begin_their_lines(self):
        hook = r"TILESCOPE_(?:BLOCK|VALUE|REPLICATED|TILE|ROWS|FRAGMENT)\("
        lines = [line for _, example in self.examples for line in example.splitlines() if re.search(hook, line)]
        self.assertGreaterEqual(len(lines), 5)
        for line in lines:
            self.assertRegex(line, rf"^ *{hook}[^;]*;$")

    def test_they_compile_with_and_without_hooks(self):
        self.assertLessEqual(SHOWN, {header for header, _ in self.examples})
        for header, example in self.examples:
            for options in ([], ["-DDEBUG_DUMP"]):
                with self.subTest(header=header, options=options, example=example):
                    done = compiled(surrounded(header, example), *options)
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_wrong_in_one_is_found(self):
        for header, right, wrong in (("dump/hook.h", "(l, kv_tile", "(sum, kv_tile"), ("dump/capture.h", ".memory", ".where")):
            example = next(example for shown, example in self.examples if shown == header)
            with self.subTest(header=header, wrong=wrong):
                self.assertIn(right, example)
                spoiled = surrounded(header, example.replace(right, wrong))
                self.assertNotEqual(compiled(spoiled, "-DDEBUG_DUMP").returncode, 0)


if __name__ == "__main__":
    unittest.main()
