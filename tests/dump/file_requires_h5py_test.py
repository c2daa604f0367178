"""What h5py writes as `requires`: every declaration of FORMAT.md is known by its path, and nothing else is.

usage: file_requires_h5py_test.py FILE_PROBE FORMAT.md
"""

import pathlib
import re
import sys
import unittest

import h5py
import numpy as np

from h5py_case import DumpCase, Folder, ask_probe, probe

PAGE = pathlib.Path(sys.argv.pop(1)).read_text(encoding="utf-8")
LATER = "/tiles/s/kept_in_tf32"
# Rows that say *requires*.
ADDED = (("/problem", "diagonal_offset"), ("/problem", "head_grouping"), ("/tiles/k", "scale"), ("/tiles/p", "descale_v"), ("/problem", "split_starts"), ("/tiles/m", "from_lse"), ("/tiles/p", "of_tile_max"),
         ("/tiles/p", "normalised"), ("/tiles/p", "least_argument"), ("/tiles/p", "flush_below"), ("/tiles/m", "offset"), ("/tiles/m", "start"), ("/problem", "dtype_partial_o"),
         ("/tiles/acc", "normalised"), ("/tiles/q", "scale"), ("/tiles/s", "masked_value"), ("/tiles/s", "cast"))


def tables_of(heading):
    """The cells of each row of the tables below the heading, as the names in backquotes in them."""
    section = re.search(rf"^## {heading}.*?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)[1]
    rows = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    return [[re.findall(r"`([^`]+)`", cell) for cell in re.split(r" ?(?<!\\)\| ?", row)] for row in rows]


def declarations():
    found = {f"/problem/{name}" for names, *_ in tables_of("`/problem`") for name in names}
    found |= {name for names, *_ in tables_of("Tensors") for name in names if name.startswith("/inputs/")}
    found |= {f"/inputs/{name}" for names, kind, *_ in tables_of("`/inputs`") for name in names if "[" not in name}
    datasets = []
    for first, names, *_ in tables_of("Units"):
        if first and first[0].startswith("/"):
            folder = first[0].rpartition("/")[0]
            datasets = [first[0], *(f"{folder}/{name}" for name in first[1:])]
        elif first:
            datasets = []
        found |= {f"{dataset}/{name}" for dataset in datasets for name in names}
    return found | {f"/inputs/lse/{name}" for name in ("log_base", "empty_row", "includes_sink")}


class Requires(DumpCase):
    def write_requiring(self, value):
        self.write(lambda f: f.attrs.create("requires", value))

    def assert_refused(self, *words):
        done = probe("open", self.path)
        complaint = done.stderr.decode()
        self.assertEqual((done.returncode, complaint.count("\n")), (2, 1), complaint)
        for word in (str(self.path), *words):
            self.assertIn(word, complaint)

    def test_every_declaration_of_the_page_is_known(self):
        names = sorted(declarations())
        self.assertGreater(len(names), 70)
        self.assertLessEqual({"/problem/kv_order", "/problem/named_tiles", "/tiles/v/cast", "/outputs/dk/accumulation",
                              "/inputs/q", "/inputs/descale_v", "/inputs/page_table"}, set(names))
        for first in range(0, len(names), 60):
            self.write_requiring(names[first : first + 60])
            ask_probe("open", self.path)

    def test_a_later_declaration_is_refused_however_it_is_written(self):
        known = "/tiles/s/log_base"
        for value in (LATER, [LATER], (known, LATER), np.bytes_(LATER), np.array([known, LATER], "S"),
                      np.array([LATER, known], h5py.string_dtype()), np.array([known, LATER], h5py.string_dtype("ascii"))):
            with self.subTest(repr(value)):
                self.write_requiring(value)
                self.assert_refused(LATER, "update Tilescope")

    def test_nothing_required(self):
        for value in ([], "", h5py.Empty("f8"), h5py.Empty(h5py.string_dtype())):
            with self.subTest(repr(value)):
                self.write_requiring(value)
                ask_probe("open", self.path)

    def test_what_is_no_list_of_text(self):
        for value, words in ((1, "is not text"), ([1.5, 2.5], "is not text"), (True, "is not text"),
                             ([["/problem/mask"], ["/problem/mask"]], "has 2 dimensions")):
            with self.subTest(repr(value)):
                self.write_requiring(value)
                self.assert_refused("attribute requires", words)


class Written(Folder):
    def test_what_every_reader_knows_is_not_listed(self):
        for command in ("write", "write_inputs", "write_backward"):
            self.assertEqual(probe(command, self.path).returncode, 0)
            with h5py.File(self.path) as f:
                self.assertNotIn("requires", f.attrs)
                for dataset, attribute in (added for added in ADDED if added[0] in f):
                    self.assertNotIn(attribute, f[dataset].attrs)

    def test_what_was_added_is_listed_where_it_is_not_the_default(self):
        self.assertEqual(probe("write_added_units", self.path).returncode, 0)
        with h5py.File(self.path) as f:
            self.assertEqual(sorted(f.attrs["requires"]), sorted(f"{dataset}/{name}" for dataset, name in ADDED))
            self.assertEqual({name: f[dataset].attrs[name] for dataset, name in ADDED if dataset == "/tiles/s"},
                             {"masked_value": -1e9, "cast": "f16"})
            self.assertEqual((f["/tiles/q"].attrs["scale"], f["/tiles/k"].attrs["scale"]), (0.125, 0.25))
            self.assertEqual(f["/tiles/p"].attrs["descale_v"], "recorded")
            self.assertEqual(dict(f["/problem"].attrs) | {"diagonal_offset": -7, "split_starts": "1,3", "dtype_partial_o": "bf16"}, dict(f["/problem"].attrs))
            self.assertEqual(f["/tiles/p"].attrs["least_argument"], -80)
            self.assertEqual([f["/tiles/p"].attrs["flush_below"], *(f["/tiles/m"].attrs[name] for name in ("offset", "start"))],
                             [-90, 2.5, -1e30])
        ask_probe("open", self.path)


if __name__ == "__main__":
    unittest.main()
