"""Which threads own what is wrong: declared with h5py, told by tile-diff, refused where they cover nothing.

usage: threads_test.py TILE_DIFF
"""

import h5py
import numpy as np

import small_dump
from tile_diff_case import MATCH, TileDiffCase, main

# Accumulators of m16n8k16 as the PTX ISA draws them: (row, column) of c0 to c3 of three lanes.
MMA = {0: [(0, 0), (0, 1), (8, 0), (8, 1)], 5: [(1, 2), (1, 3), (9, 2), (9, 3)], 31: [(7, 6), (7, 7), (15, 6), (15, 7)]}


class Threads(TileDiffCase):
    """The tiles of the small dump are 16 x 16: two accumulators side by side, eight elements a lane."""

    def declare(self, stage="s", **attributes):
        with h5py.File(self.file, "r+") as f:
            f[small_dump.DATASETS[stage]].attrs.update(attributes)

    def spoil(self, places):
        """Adds something to these (row, column) of every tile of s."""
        s = small_dump.stages(small_dump.inputs())["s"]
        for row, col in places:
            s[..., row::16, col::16] += 1 + 0.1 * np.arange(s[..., row::16, col::16].size).reshape(
                s[..., row::16, col::16].shape).astype(np.float32)
        small_dump.write(self.file, {"s": s})

    def test_lanes_of_an_accumulator(self):
        for lane, places in MMA.items():
            with self.subTest(lane):
                self.spoil([(row, col + right) for row, col in places for right in (0, 8)])
                self.declare(fragment="mma_m16n8")
                report = self.judge(self.file)
                self.assertEqual(report["wrong_threads"]["where"], f"every warp, lane {lane}")
                self.assertEqual(report["causes"][0]["name"], "one_lane_group")
                self.assertEqual(report["causes"][0]["parameters"], {"lanes": str(lane)})
                first = report["first_divergence"]
                self.assertEqual((first["row"], first["col"]), places[0])
                self.assertEqual(first["thread"], {"warp": 0, "lane": lane, "register": 0})

    def test_a_fragment_of_ones_own(self):
        """Each lane owns half a row: its eight columns are its registers."""
        self.spoil([(row, col) for row in range(16) for col in (3, 11)])
        owners = [[(2 * row + col // 8, col % 8) for col in range(16)] for row in range(16)]
        with h5py.File(self.file, "r+") as f:
            f["fragments/half_a_row"] = np.array(owners, np.int32)
        self.declare(fragment="half_a_row")
        report = self.judge(self.file)
        self.assertEqual(report["wrong_threads"]["where"], "every warp, all lanes, register 3 of 8")
        self.assertEqual(report["wrong_threads"]["registers"], [3])

    def test_row_values_and_explanations(self):
        small_dump.write(self.file)
        for stage in small_dump.STAGES:
            if stage in "qkv":
                self.declare(stage, fragment="lanes", lanes=2, lane_columns=8)
            else:
                self.declare(stage, fragment="mma_m16n8")
        self.assertEqual(self.judge(self.file)["verdict"], "match")
        owners = {"q,0,2,17,9": (0, 3, 1), "s,0,3,5,20": (0, 22, 0), "m,0,3,13,0,2": (0, 20, 1), "l,0,1,23,0,1": (0, 28, 0),
                  "acc,0,1,22,9": (0, 24, 5), "o,0,1,22,9": (0, 24, 5), "lse,0,1,13,0": (0, 20, 1)}
        for element, (warp, lane, register) in owners.items():
            with self.subTest(element):
                run = self.run_it(self.file, "--explain-tolerance", element)
                self.assertEqual((run.returncode, run.stderr), (MATCH, ""))
                lines = run.stdout.splitlines()
                self.assertEqual(lines[1], f"owned by warp {warp}, lane {lane}, register {register}")
                self.assertLessEqual(len(lines), 30)
                self.assertLessEqual(max(map(len, lines)), 110)

    def test_refused(self):
        cases = [
            ({"fragment": "mma_m8n8k4"}, "declares the fragment mma_m8n8k4, which is none of lanes, mma_m16n8, wgmma_m64"),
            ({"fragment": "wmma_16x16_f32"}, "give its owners in /fragments"),
            ({"fragment": "wgmma_m64"}, "the 64 x 16 that a group owns do not cover the tile of s, 16 x 16"),
            ({"fragment": "lanes"}, "has 0 lanes a row"),
            ({"fragment": "lanes", "lanes": 32}, "the fragment lanes, 1 x 32, does not cover the 1 x 16"),
            ({"fragment": "mma_m16n8", "group_cols": 12}, "the fragment mma_m16n8, 16 x 8, does not cover the 16 x 12"),
            ({"fragment": "mma_m16n8", "groups": 2}, "has 2 groups where the tile of s, 16 x 16, has 1"),
            ({"fragment": "mma_m16n8", "split_groups": 4}, "s has no splits"),
            ({"fragment": "mma_m16n8", "group_rows": 16.0}, "attribute group_rows is not an integer"),
            ({"fragment": 3}, "attribute fragment is not text"),
        ]
        for attributes, words in cases:
            with self.subTest(attributes):
                small_dump.write(self.file)
                self.declare(**attributes)
                self.assert_refused("/tiles/s", words)

    def test_damaged_fragments_are_refused(self):
        for owners, words in [(np.zeros((1, 2, 2), np.int32), "gives two elements to thread 0, register 0"),
                              (np.zeros((2, 2), np.int32), "is not of [rows, columns, 2]"),
                              (np.full((1, 1, 2), 5000), "names thread 5000"),
                              (np.zeros((1, 1, 2), np.float32), "not little-endian int32 or int64")]:
            with self.subTest(words):
                small_dump.write(self.file)
                with h5py.File(self.file, "r+") as f:
                    f["fragments/mine"] = owners
                self.declare(fragment="mine")
                self.assert_refused("/fragments/mine", words)


if __name__ == "__main__":
    main()
