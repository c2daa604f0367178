#!/usr/bin/env python3
"""Named tiles from the kernel to the report: what tile-run records, tile-diff says and compares.

usage: named_test.py TILE_DIFF TILE_RUN
"""

import json
import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy as np

from tile_diff_case import DIVERGED, MATCH, TileDiffCase, main

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
B, H, SQ, SKV, BLOCK_N = 1, 2, 40, 140, 64
TILES = 3


class Named(TileDiffCase):
    def tile_run(self, subcommand, *arguments):
        return subprocess.run([TILE_RUN, subcommand, "--kernel", "scalar", "--engine", "cpu", "--input", "ramped",
                               "--shape", f"{B},{H},{SQ},{SKV},64", *arguments], capture_output=True, text=True)

    def record(self, stages, name="run.h5", *arguments):
        path = self.folder / name
        run = self.tile_run("record", "--select", f"stage={stages}", "-o", path, *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return path

    def changed(self, path, name, change):
        other = self.folder / name
        shutil.copy(path, other)
        with h5py.File(other, "r+") as file:
            change(file)
        return other

    def test_holds_what_the_kernel_multiplies_with(self):
        with h5py.File(self.record("m,rescale")) as file:
            m = file["tiles/m"][...].astype(float)
            rescale = file["tiles/rescale"]
            self.assertEqual(rescale.shape, (B, H, TILES, SQ))
            self.assertEqual(file["problem"].attrs["named_tiles"], "rescale")
            self.assertEqual((rescale.attrs["rows"], rescale.attrs["cols"]), ("query", "unit"))
            self.assertEqual(file["capture"].attrs["selection"], "stage=m,rescale")
            self.assertEqual(file["capture/rescale"].attrs["elements_unwritten"], 0)
            before = np.concatenate([np.full((B, H, 1, SQ), -np.inf), m[:, :, :-1]], axis=2)
            np.testing.assert_allclose(rescale[...], np.exp(before - m), rtol=1e-5)
            self.assertTrue((rescale[:, :, 1:] < 1).any())

    def test_is_recorded_where_it_is_selected(self):
        path = self.folder / "all.h5"
        self.assertEqual(self.tile_run("record", "-o", path).returncode, 0)
        with h5py.File(path) as file:
            self.assertNotIn("rescale", file["tiles"])
            self.assertNotIn("named_tiles", file["problem"].attrs)
        refused = self.tile_run("record", "--select", "stage=rescal", "-o", path)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("rescale", refused.stderr)

    def test_is_not_judged(self):
        path = self.record("m,rescale")
        whole = self.judge(path)
        self.assertEqual(whole["verdict"], "match")
        self.assertEqual(whole["without_reference"], ["rescale"])
        self.assertIn("not judged, no reference: rescale\n", self.run_it(path).stdout)

        def spoil(file):
            file["tiles/rescale"][...] = np.nan

        self.assertEqual(self.judge(self.changed(path, "nan.h5", spoil))["verdict"], "match")
        self.assert_refused_element(path)

    def assert_refused_element(self, path):
        run = self.run_it(path, "--explain-tolerance", "rescale,0,1,7,0,2")
        self.assert_one_line(run, "rescale is a named tile and has no reference")

    def test_alone_has_no_verdict(self):
        path = self.record("rescale")
        run = self.run_it(path)
        self.assert_one_line(run, path, "only named tiles were captured, and they have no reference")
        self.assertIn("not judged, no reference: rescale\n", run.stdout)
        report = self.judge(path)
        self.assertEqual((report["verdict"], report["without_reference"]), ("unjudged", ["rescale"]))

        same = self.judge("--against", self.record("rescale", "again.h5"), path)
        self.assertEqual(same["verdict"], "match")
        [row] = [stage for stage in same["stages"] if stage["captured"]]
        self.assertEqual((row["name"], row["compared"], row["outside"]), ("rescale", B * H * TILES * SQ, 0))

    def test_difference_is_found(self):
        path = self.record("m,rescale")

        def change(file):
            file["tiles/rescale"][0, 1, 2, 37] += np.float32(0.25)
            file["tiles/rescale"][0, 1, 1, 38] += np.float32(0.125)

        other = self.changed(path, "other.h5", change)
        report = self.judge("--against", other, path)
        first = report["first_divergence"]
        self.assertEqual([first[key] for key in ("stage", "batch", "head", "row", "col", "kv_tile")],
                         ["rescale", 0, 1, 38, 0, 1])
        [row] = [stage for stage in report["stages"] if stage["name"] == "rescale"]
        self.assertEqual((row["outside"], row["unwritten"]), (2, 0))
        self.assertAlmostEqual(row["max_abs"], 0.25, places=5)
        run = self.run_it("--against", other, path)
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn(f"diverged: rescale is the first stage that differs from {other}, at batch 0, head 1, row 38, KV tile 1",
                      run.stdout)
        self.assertEqual(self.run_it("--against", other, path, "--atol", "0.3").returncode, MATCH)
        self.assertEqual(self.run_it("--against", other, path, "--atol", "0.2").returncode, DIVERGED)
        pictures = self.run_it("--against", other, path, "--png", self.folder / "png", "--npy", self.folder / "npy")
        self.assertEqual(pictures.returncode, DIVERGED)
        difference = np.load(self.folder / "npy/difference.npy")
        self.assertEqual(difference.shape, (TILES, SQ))
        self.assertEqual(np.count_nonzero(difference), 2)
        self.assertIn("heatmaps of rescale of batch 0 head 1", pictures.stdout)

    def test_contradicting_declarations(self):
        path = self.record("m,rescale")

        def rename(file):
            file.move("tiles/rescale", "tiles/scale")
            file.move("capture/rescale", "capture/scale")
            file["problem"].attrs["named_tiles"] = "scale"
            file["capture"].attrs["selection"] = "stage=m,scale"

        other = self.changed(path, "other.h5", rename)
        self.assertEqual(self.judge(other)["without_reference"], ["scale"])
        run = self.run_it("--against", other, path)
        self.assert_one_line(run, "other.h5", "declares other named tiles than", "run.h5")
        self.assertEqual(self.judge("--against", self.record("m", "m.h5"), path)["verdict"], "match")

    def test_runs_are_compared(self):
        for check, verdict in ((["repeat", "--runs", "2"], "repeatable"), (["poison"], "independent")):
            run = self.tile_run(*check, "--select", "stage=rescale", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            report = json.loads(run.stdout)
            self.assertEqual(report["verdict"], verdict)
            stages = report["stages"] if "stages" in report else report["runs"][0]["stages"]
            self.assertEqual([(stage["name"], stage["compared"]) for stage in stages],
                             [("rescale", B * H * TILES * SQ), ("o", B * H * SQ * 64), ("lse", B * H * SQ)])

    def test_command_records_it_again(self):
        with h5py.File(self.record("rescale")) as file:
            self.assertIn("--select stage=rescale", file.attrs["command"])

    def test_sink_file_holds_it(self):
        path = self.record("m,rescale", "run.h5", "--sink-memory", "file", "--sink-file", "/dev/shm/named_test.sink")
        self.assertEqual(self.judge(path)["without_reference"], ["rescale"])


if __name__ == "__main__":
    main()
