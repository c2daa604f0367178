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
    "dump/hook/stage.h": "#include <cstdint>",
    "dump/hook.h": '#include "dump/hook/stage.h"\n#include <cuda_fp16.h>',
    "dump/schema.h": '#include "dump/hook/stage.h"\n#include <string>',
    "dump/reader.h": '#include "dump/schema.h"',
    "dump/file/reader.cpp": '#include "dump/reader.h"\n#include <hdf5.h>',
    "dump/capture/capture.cpp": '#include <cuda_runtime.h>\n#include "dump/reader.h"',
    "oracle/judge/compare.h": '#include <Eigen/Core>\n#include "dump/schema.h"',
    "oracle/judge/compare.cpp": '#include "oracle/judge/compare.h"\n#include "oracle/formula/scores.h"',
    "oracle/formula/scores.h": '#include "dump/schema.h"',
    "kernels/attention/scalar.cuh": '#include "dump/hook.h"',
    "viewer/window/window.cpp": '#include <imgui.h>\n#include "oracle/heatmap/pyramid.h"',
    "oracle/heatmap/pyramid.h": '#include "oracle/judge/compare.h"',
    "tests/oracle/compare_test.cpp": '#include "oracle/judge/compare.h"\n#include "kernels/attention/scalar.cuh"',
}

# What is planted: the file, its text, and the pieces of the line that must name it.
PLANTED_INCLUDES = [
    ("dump/schema/schema.cpp", '#include "dump/schema.h"\n#include <cuda_runtime.h>', ["schema reaches CUDA"]),
    ("dump/schema/schema.cpp", '#include "dump/schema.h"\n#include "hdf5.h"', ["schema reaches HDF5"]),
    ("dump/schema/dtype.h", "  #  include <Eigen/Dense>", ["schema reaches Eigen"]),
    ("dump/schema/dtype.h", '#include "dump/hook.h"', ["schema reaches CUDA through dump/hook.h"]),
    ("dump/hook/write.h", '#include "dump/schema.h"', ["hook includes dump/schema.h"]),
    ("dump/hook/sink.h", "#include <H5public.h>", ["hook reaches HDF5"]),
    ("dump/file/writer.cpp", "#include <cuda_fp16.h>", ["file reaches CUDA"]),
    ("dump/recording.h", '#include "dump/reader.h"', ["recording includes dump/reader.h of file"]),
    ("dump/recording/capture_plan.h", "#include <cuda_runtime_api.h>", ["recording reaches CUDA"]),
    ("dump/capture.h", "#include <Eigen/Core>", ["capture reaches Eigen"]),
    ("dump/stray.h", "#include <string>", ["is in no room"]),
    ("oracle/replay/replay.cpp", '#include "kernels/attention/scalar.cuh"', ["replay includes kernels/attention/"]),
    ("oracle/replay/replay.cpp", "#include <hdf5.h>", ["replay reaches HDF5"]),
    ("oracle/judge/work_sharing.cpp", "#include <mpi.h>", ["judge reaches MPI"]),
    ("oracle/replay/replay.h", '#include "dump/hook.h"', ["replay reaches CUDA through dump/hook.h"]),
    ("oracle/formula/scores.h", '#include "oracle/judge/compare.h"', ["formula includes oracle/judge/compare.h of judge"]),
    ("kernels/attention/wmma.cu", '#include "oracle/judge/compare.h"', ["attention includes oracle/judge/compare.h"]),
    ("viewer/tile_view.cpp", '#include "dump/capture/capture.cpp"', ["tile-view includes dump/capture/capture.cpp of capture"]),
    ("viewer/tile_view.cpp", "#include <cuda_gl_interop.h>", ["tile-view reaches CUDA"]),
    ("oracle/judge/tally.h", '#include "tests/oracle/compare_test.cpp"', ["judge includes tests/"]),
    ("oracle/judge/tally.h", '#include "compare.h"', ['"compare.h"', "not a file of the repository"]),
    ("oracle/judge/compare.cpp", '#include <vector>\n#include "oracle/judge/compare.h"',
     ["does not include oracle/judge/compare.h first"]),
    ("oracle/judge/compare.cpp", '#define N 1\n#include "oracle/judge/compare.h"',
     ["does not include oracle/judge/compare.h first"]),
    ("oracle/judge/compare.cpp", "int sum = 0;", ["does not include oracle/judge/compare.h first"]),
    ("dump/file/reader.cpp", "#include <string>", ["does not include dump/reader.h first"]),
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

    def test_the_table_says_what_is(self):
        page = {check_includes.PAGE: check_includes.table()}
        found, _ = self.violations(HEALTHY_TREE | page)
        self.assertIn("gate: includes nothing of run, which its row names; take it out", found)
        found, _ = self.violations(HEALTHY_TREE | {check_includes.PAGE: "| room | may include | may reach |"})
        self.assertTrue(any(line.startswith(check_includes.PAGE) for line in found), found)

    def test_slow_libraries_are_left_to_sources(self):
        tree = HEALTHY_TREE | {check_includes.PAGE: check_includes.table(),
                               "oracle/report/text.h": '#include "oracle/formula/estimate.h"',
                               "oracle/formula/estimate.h": "#include <Eigen/Core>"}
        found, _ = self.violations(tree)
        self.assertIn("oracle/report/text.h: reaches Eigen through oracle/formula/estimate.h; leave that to a source, or declare "
                      "what it names", found)
        self.assertIn("kernels/run/number_range.h: no header of that name reaches CLI11; take it out of SLOW", found)

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

    def test_version_that_is_repeated(self):
        declared = {"CMakeLists.txt": b"project(tilescope VERSION 1.2.3 LANGUAGES CXX)\n", ".github/CHANGELOG.md": b"## 1.2.3, today\n"}
        self.assertEqual(check_files.check_files({**declared, "README.md": b"HDF5 1.2.31 and 11.2.3\n"}), [])
        found = check_files.check_files({**declared, "README.md": b"Tilescope 1.2.3 is\n"})
        self.assertIn("README.md: repeats the version", found[0])
        found = check_files.check_files({**declared, ".github/CHANGELOG.md": b"## 1.2.2, today\n"})
        self.assertIn("does not begin with the version", found[0])


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
