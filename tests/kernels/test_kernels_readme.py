#!/usr/bin/env python3
"""Holds the tables of kernels/README.md, and that of what hooks cost, against what tile-run lists.

usage: test_kernels_readme.py ROOT TILE_RUN
"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT, TILE_RUN = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
LISTED = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, check=True).stdout)


def rows_of(page, first=r"`\w+`"):
    """Rows of tables whose first cell is that: the name of a kernel or a fault."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in (ROOT / page).read_text().splitlines() if re.match(rf"\| {first} \|", line)]


ROWS = rows_of("kernels/README.md")


class KernelsReadme(unittest.TestCase):
    def test_it_has_every_kernel(self):
        names = {row[0].strip("`") for row in ROWS if len(row) == 3}
        self.assertEqual(names, {kernel["name"] for kernel in LISTED["kernels"]})

    def test_it_has_every_fault_with_its_stage_and_kernels(self):
        rows = {tuple(cell.strip("`") for cell in row[:3]) + (row[4].strip("`"),) for row in ROWS if len(row) == 7}
        self.assertEqual(rows, {(fault["name"], fault["stage"], " ".join(fault["kernels"]), fault["shown_by"])
                                for fault in LISTED["faults"]})

    def test_what_hooks_cost_is_said_of_every_kernel(self):
        costs = [row for row in rows_of("dump/HOOKS.md", r"`\w+` \w+") if len(row) == 11]
        # A kernel may have rows of several configurations.
        said = dict.fromkeys(row[0].split("`")[1] for row in costs)
        self.assertEqual(list(said), [kernel["name"] for kernel in LISTED["kernels"]])


if __name__ == "__main__":
    unittest.main()
