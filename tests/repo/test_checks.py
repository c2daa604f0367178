#!/usr/bin/env python3
"""The checks of this folder find what is planted, and nothing where nothing is."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import check_files
import check_includes
import check_links

HEALTHY_TREE = {
    "dump/stage.h": "#include <cstdint>",
    "dump/hook.h": '#include "dump/stage.h"\n#include <cuda_fp16.h>',
    "dump/schema.h": '#include "dump/stage.h"\n#include <string>',
    "dump/file_reader.h": '#include "dump/schema.h"',
    "dump/file_reader.cpp": '#include "dump/file_reader.h"\n#include <hdf5.h>',
    "dump/capture.cpp": '#include <cuda_runtime.h>\n#include "dump/file_reader.h"',
    "oracle/compare.h": '#include <Eigen/Core>\n#include "dump/schema.h"',
    "oracle/compare.cpp": '#include "oracle/compare.h"\n#include "dump/file_reader.h"',
    "kernels/scalar.cuh": '#include "dump/hook.h"',
    "viewer/panels/heatmap.cpp": '#include <imgui.h>\n#include "oracle/compare.h"',
    "tests/oracle/compare_test.cpp": '#include "oracle/compare.h"\n#include "kernels/scalar.cuh"',
}

# What is planted: the file, its text, and the pieces of the line that must name it.
PLANTED_INCLUDES = [
    ("dump/schema.cpp", "#include <cuda_runtime.h>", ["dump reaches CUDA"]),
    ("dump/schema.cpp", '#include "hdf5.h"', ["dump reaches HDF5"]),
    ("dump/dtype.h", "  #  include <Eigen/Dense>", ["dump reaches Eigen"]),
    ("dump/dtype.h", '#include "dump/hook.h"', ["dump reaches CUDA through dump/hook.h"]),
    ("dump/hook_write.h", '#include "dump/schema.h"', ["hook includes dump/schema.h"]),
    ("dump/sink.h", "#include <H5public.h>", ["hook reaches HDF5"]),
    ("dump/file_writer.cpp", "#include <cuda_fp16.h>", ["file reaches CUDA"]),
    ("dump/recording.h", '#include "dump/file_reader.h"', ["dump includes dump/file_reader.h of file"]),
    ("dump/capture_plan.h", "#include <cuda_runtime_api.h>", ["dump reaches CUDA"]),
    ("dump/capture.h", "#include <Eigen/Core>", ["capture reaches Eigen"]),
    ("oracle/replay.cpp", '#include "kernels/scalar.cuh"', ["oracle includes kernels/scalar.cuh"]),
    ("oracle/replay.cpp", "#include <hdf5.h>", ["oracle reaches HDF5"]),
    ("oracle/replay.h", '#include "dump/hook.h"', ["oracle reaches CUDA through dump/hook.h"]),
    ("kernels/wmma.cu", '#include "oracle/compare.h"', ["kernels includes oracle/compare.h"]),
    ("viewer/main.cpp", '#include "dump/capture.cpp"', ["viewer includes dump/capture.cpp of capture"]),
    ("viewer/main.cpp", "#include <cuda_gl_interop.h>", ["viewer reaches CUDA"]),
    ("oracle/tally.h", '#include "tests/oracle/compare_test.cpp"', ["oracle includes tests/"]),
    ("oracle/tally.h", '#include "compare.h"', ['"compare.h"', "not a file of the repository"]),
    ("oracle/compare.cpp", '#include <vector>\n#include "oracle/compare.h"', ["does not include oracle/compare.h first"]),
    ("oracle/compare.cpp", '#define N 1\n#include "oracle/compare.h"', ["does not include oracle/compare.h first"]),
    ("oracle/compare.cpp", "int sum = 0;", ["does not include oracle/compare.h first"]),
]


class IncludesTest(unittest.TestCase):
    def violations(self, tree):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in tree.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text + "\n")
            with contextlib.redirect_stdout(io.StringIO()):
                code = check_includes.main(root)
            return check_includes.find_violations(root), code

    def test_healthy_tree_passes(self):
        self.assertEqual(self.violations(HEALTHY_TREE), ([], 0))

    def test_empty_tree_is_no_pass(self):
        self.assertEqual(self.violations({}), ([], 2))

    def test_planted_includes_are_found(self):
        for path, text, pieces in PLANTED_INCLUDES:
            with self.subTest(path=path, text=text):
                found, code = self.violations(HEALTHY_TREE | {path: text})
                self.assertEqual(code, 1)
                self.assertTrue(any(line.startswith(path) and all(p in line for p in pieces) for line in found),
                                found)


PLANTED_CONTENT = [
    ("dump/a.cpp", b"// /ho" b"me/someone/x\n", "path of one machine"),
    ("samples/a.h5", b"\x89HDF /ro" b"ot/x", "path of one machine"),
    ("README.md", b"TO" b"DO: write\n", "do it or drop it"),
    ("kernels/a.cu", b"// FIX" b"ME\n", "do it or drop it"),
    ("dev", b"\techo\n", "tab"),
    ("dump/a.h", b"int a;\r\n", "CR LF"),
    ("dump/a.h", b"int a;", "newline"),
    ("dump/a.h", b"\n" * 701, "701 lines"),
    ("oracle/table.bin", bytes(1536 * 1024 + 1), "the limit outside the samples"),
]


class FilesTest(unittest.TestCase):
    def test_healthy_files_pass(self):
        files = {"dump/a.h": b"\n" * 700, "samples/a.h5": bytes(2 << 20), "dev": b"mktemp -d XXXX" b"XX\n",
                 "tests/b.cpp": b'open("/tmp/x"); // user@x:/usr/local/cuda\n'}
        self.assertEqual(check_files.check_files(files), [])

    def test_planted_content_is_found(self):
        for path, content, finding in PLANTED_CONTENT:
            with self.subTest(path=path, finding=finding):
                found = check_files.check_files({path: content})
                self.assertEqual(len(found), 1, found)
                self.assertIn(finding, found[0])

    def test_too_much_data_is_found(self):
        files = {"samples/a.h5": bytes(12 << 20), "tests/data/b.h5": bytes(8 << 20), "samples/c": b"\n"}
        self.assertIn("the limit is 20971520", check_files.check_files(files)[-1])


HEALTHY_PAGES = {
    "README.md": "# A `b`: c!\n[first](#a-b-c) [page](dump/A.md#two-1) [code](dump/a.h) [site](https://example.org/#x)\n"
                 "`[in code](nowhere.md)`\n```\n[in a block](nowhere.md)\n```\n",
    "dump/A.md": "# Two\n```sh\n# Three\n```\n## Two\n[back](../README.md) ![picture](a.h)\n",
    "dump/a.h": "",
}
PLANTED_LINKS = [
    ("dump/A.md", "[x](B.md)", "there is no B.md"),
    ("dump/A.md", "[x](../dump)[y](#three)", "dump/A.md has no heading #three"),
    ("dump/A.md", "[x](../README.md#a-b)", "README.md has no heading #a-b"),
    ("dump/A.md", "[x](a.h#two)", "dump/a.h has no heading #two"),
    ("dump/A.md", "[x](../..)", "is not in the repository"),
    ("dump/A.md", "![x](a.png)", "there is no a.png"),
    ("dump/A.md", "[x]: b.md", "there is no b.md"),
    ("oracle/C.md", "text", "does not list oracle/C.md"),
]


class LinksTest(unittest.TestCase):
    def violations(self, pages):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in pages.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            with contextlib.redirect_stdout(io.StringIO()):
                code = check_links.main(root)
            return check_links.find_violations(root), code

    def test_healthy_pages_pass(self):
        self.assertEqual(self.violations(HEALTHY_PAGES), ([], 0))

    def test_no_pages_are_no_pass(self):
        self.assertEqual(self.violations({}), ([], 2))

    def test_planted_links_are_found(self):
        for path, text, finding in PLANTED_LINKS:
            with self.subTest(text=text):
                found, code = self.violations(HEALTHY_PAGES | {path: HEALTHY_PAGES.get(path, "") + text + "\n"})
                self.assertEqual(code, 1)
                self.assertEqual(len(found), 1, found)
                self.assertIn(finding, found[0])


if __name__ == "__main__":
    unittest.main()
