#!/usr/bin/env python3
"""The cause that tile-diff names for every fault that the CPU engine plays.

usage: causes_test.py TILE_DIFF TILE_RUN
"""

import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

import small_dump
from tile_diff_case import DIVERGED, TILE_DIFF, TileDiffCase, main

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
EVERYTHING = os.environ.get("TILESCOPE_ALL_SEEDS") == "1"
DATA = pathlib.Path(__file__).parents[1] / "data"
SAMPLES = pathlib.Path(__file__).parents[2] / "samples"

# Fault: causes that are right. Several where the options that show the fault do not tell them apart.
RIGHT = {
    "q_row_zeroed": ["rows_zeroed"],
    "bshd_as_bhsd": ["bshd_as_bhsd"],
    "stale_k_tile": ["other_kv_tile"],
    "head_modulo": ["kv_head_modulo"],
    "v_next_tile": ["other_kv_tile"],
    "p_over_v": ["buffer_aliased"],
    "causal_top_left": ["causal_top_left"],
    "scale_twice": ["scale_twice"],
    "k_slice_missing": ["k_slice_missing"],
    "half_scores": ["half_scores"],
    "k_row_major": ["k_not_transposed"],
    "score_in_lane_0": ["one_lane_only"],
    # Of one tile of rows the whole mask is a shorter word for it.
    "mask_tile_local": ["mask_tile_local", "causal_ignored"],
    "m_starts_at_zero": ["m_starts_at"],
    "max_own_lane": ["m_of_part_of_row"],

    "wrong_lanes": ["m_of_several_rows"],
    "row_state_shared": ["m_of_several_rows"],
    "exp_clamped": ["exp_clamped"],
    "p_bf16": ["undeclared_cast"],
    "p_lane_stride": ["p_lane_stride"],
    "p_tail_kept": ["masked_p_not_zero", "never_written"],
    "max_in_lane_0": ["p_of_partial_max"],
    # The guard of `stable` makes exp(-80) of what is NaN elsewhere: no less than that, or of masked keys alone.
    "inf_minus_inf": ["inf_minus_inf", "exp_clamped", "masked_p_not_zero"],
    "tail_counted": ["tail_counted"],
    "l_not_rescaled": ["l_not_rescaled"],
    "acc_not_rescaled": ["acc_not_rescaled"],
    "nan_times_zero": ["nan_times_zero"],
    "half_accumulator": ["half_accumulator"],
    "double_normalised": ["double_normalised"],
    "not_normalised": ["not_normalised"],
    "epsilon_too_large": ["epsilon_in_denominator"],
    "columns_uncovered": ["columns_uncovered"],
    "rows_uncovered": ["rows_uncovered"],
    "lse_base2": ["lse_in_other_base"],
}


def tile_run(*arguments):
    return subprocess.run([TILE_RUN, *map(str, arguments)], capture_output=True, text=True)


class Causes(TileDiffCase):
    def record(self, fault, options, kernel="scalar", name="run.h5"):
        path = self.folder / name
        run = tile_run("record", "--kernel", kernel, "--engine", "cpu", "--fault", fault, *shlex.split(options), "-o", path)
        self.assertEqual(run.returncode, 0, run.stderr)
        return path

    def record_healthy(self):
        run = tile_run("record", "--kernel", "scalar", "--engine", "cpu", "--shape", "1,1,64,64,64", "-o", self.file)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.file

    def test_of_the_samples_are_right(self):
        samples = [sample for sample in sorted(SAMPLES.glob("*.h5")) if sample.stem in RIGHT]
        self.assertGreater(len(samples), 4)
        for sample in samples:
            with self.subTest(sample.stem):
                first = [cause["name"] for cause in self.judge(sample)["causes"] if cause["rank"] == 1]
                self.assertTrue(set(first) & set(RIGHT[sample.stem]), first)

    def test_of_every_fault_are_right(self):
        played = set()
        kernels_in_turn = itertools.cycle(["scalar", "stable"])
        for fault in json.loads(tile_run("list", "--json").stdout)["faults"]:
            if fault["name"] not in RIGHT:
                continue
            kernels = sorted(set(fault["kernels"]) & {"scalar", "stable"})
            turn = next(kernels_in_turn)
            for kernel in kernels if EVERYTHING or turn not in kernels else [turn]:
                with self.subTest(kernel=kernel, fault=fault["name"]):
                    report = self.judge(self.record(fault["name"], fault["shown_by"], kernel))
                    first = [cause["name"] for cause in report["causes"] if cause["rank"] == 1]
                    self.assertTrue(set(first) & set(RIGHT[fault["name"]]), report["causes"])
                    self.assertGreater(report["causes"][0]["explained_after"], 0.99)
                    played.add(fault["name"])
        self.assertEqual(played, set(RIGHT))

    def test_are_right_where_the_shape_has_tails(self):
        for fault in ("p_over_v", "k_row_major"):
            for shape in ("101,128", "101,101", "128,101"):
                for mask in ("", " --causal"):
                    with self.subTest(fault=fault, shape=shape, mask=mask):
                        report = self.judge(self.record(fault, f"--shape 1,2,{shape},64{mask}"))
                        self.assertEqual(report["causes"][0]["name"], RIGHT[fault][0])
                        self.assertGreater(report["causes"][0]["explained_after"], 0.99)

    def test_can_be_left_out(self):
        path = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped")
        self.assertIsNone(self.judge(path, "--no-causes")["causes"])
        self.assertNotIn("cause:", self.run_it(path, "--no-causes").stdout)
        self.assertIn("cause: l_not_rescaled in l", self.run_it(path).stdout)

    def test_replay_is_written(self):
        path = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped")
        replay = self.folder / "replay.h5"
        run = self.run_it(path, "--replay-out", replay)
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        with h5py.File(path) as dumped, h5py.File(replay) as replayed:
            np.testing.assert_allclose(replayed["tiles/l"][...], dumped["tiles/l"][...], rtol=1e-5)
            self.assertFalse((replayed["tiles/l"][...] == dumped["tiles/l"][...]).all())
            np.testing.assert_array_equal(replayed["tiles/acc"][...], dumped["tiles/acc"][...])
        self.assertEqual(self.judge(replay)["causes"][0]["name"], "l_not_rescaled")

    def test_mistake_of_another_recording_is_tried(self):
        first = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped", name="first.h5")
        same = self.record("l_not_rescaled", "--shape 2,1,96,320,64 --seed 7 --input ramped", name="same.h5")
        other = self.record("acc_not_rescaled", "--shape 1,1,64,256,64 --input ramped", name="other.h5")
        beside = self.record("tail_counted", "--shape 1,1,64,250,64", name="beside.h5")
        predicted = self.judge(same, "--no-causes", "--cause-of", first)["predicted"]
        self.assertEqual((predicted["cause"]["name"], predicted["holds"], predicted["left"]), ("l_not_rescaled", True, 0))
        self.assertGreater(predicted["wrong"], 100)
        self.assertIn("another mistake", self.run_it(beside, "--cause-of", first).stdout)
        self.assertIn("nothing of l is wrong here", self.run_it(other, "--cause-of", first).stdout)
        unpredicted = self.judge(first, "--cause-of", self.record_healthy())["predicted"]
        self.assertEqual((unpredicted["cause"], unpredicted["holds"]), (None, False))

    def test_mistake_of_another_recording_is_tried_with_the_heads_of_this_one(self):
        first = self.record("bshd_as_bhsd", "--shape 1,2,64,128,64", name="first.h5")
        same = self.record("bshd_as_bhsd", "--shape 2,4,96,64,64 --seed 3", name="same.h5")
        predicted = self.judge(same, "--no-causes", "--cause-of", first)["predicted"]
        self.assertEqual((predicted["cause"]["name"], predicted["left"]), ("bshd_as_bhsd", 0))

    def test_of_names_can_be_ruled_out(self):
        path = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped")
        names = [cause["name"] for cause in self.judge(path, "--without-cause", "l_not_rescaled")["causes"]]
        self.assertNotIn("l_not_rescaled", names)
        self.assert_one_line(self.run_it(path, "--without-cause", "l_not_scaled"), "l_not_scaled is no cause")

    def test_replay_of_nothing_is_refused(self):
        refused = self.run_it(self.record_healthy(), "--replay-out", self.folder / "replay.h5")
        self.assert_one_line(refused, "no cause was found")
        self.assertFalse((self.folder / "replay.h5").exists())

    def test_offset_that_no_sequence_has(self):
        """Slopes of ALiBi near 0: a little more than 8 too many is more than 2^63 columns."""
        given = small_dump.inputs()
        values = small_dump.stages(given)
        values["s"] += np.float32(8.000001)
        small_dump.write(self.file, values, given, only=["s"])
        with h5py.File(self.file, "r+") as f:
            f["problem"].attrs["alibi"] = "linear"
            f["inputs/alibi_slopes"] = np.full(small_dump.H, 2.0**-60, np.float32)
        for cause in self.judge(self.file)["causes"]:
            self.assertNotEqual(cause["name"], "alibi_offset", cause)

    def test_recordings_are_not_overwritten(self):
        path = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped")
        before = path.read_bytes()
        alias = self.folder / "alias.h5"
        alias.symlink_to(path)
        for options in (["--replay-out", path], ["--replay-out", alias], ["--json", path]):
            self.assert_one_line(self.run_it(path, *options), "is a file that is read")
            self.assertEqual(path.read_bytes(), before)

    def test_two_dumps_of_the_same_run_show_a_race(self):
        path = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped")
        again = self.record("l_not_rescaled", "--shape 1,2,64,256,64 --input ramped", name="again.h5")
        same = self.judge("--against", again, path, "--same-run")
        self.assertEqual((same["verdict"], same["causes"]), ("match", []))
        with h5py.File(again, "r+") as file:
            file["tiles/p"][0, 1, 32:64, 64:128] += 0.25
        raced = self.judge("--against", again, path, "--same-run")
        self.assertEqual(raced["verdict"], "diverged")
        self.assertEqual((raced["causes"][0]["name"], raced["causes"][0]["stage"]), ("racing", "p"))
        self.assertEqual(raced["causes"][0]["tiles_filled"], 1)
        run = self.run_it("--against", again, path, "--same-run")
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn("1 of 16 tiles differ, 1 of them in every element", run.stdout)
        self.assertEqual(self.run_it("--against", again, path).returncode, DIVERGED)
        self.assert_one_line(self.run_it(path, "--same-run"), "--same-run")


class Searches(TileDiffCase):
    """What becomes of a search costs no verdict."""

    def test_tile_that_a_length_leaves_empty(self):
        """p and l of one entry with 20 of 48 keys, in tiles of 16: what lies beyond them was once asked for as -12 columns."""
        report = self.judge(DATA / "length_hides_tile.h5")
        self.assertEqual((report["verdict"], report["search"]), ("diverged", {"cut_off": False, "failed": []}))
        suggested = self.run_it(DATA / "length_hides_tile.h5", "--suggest")
        self.assertEqual(suggested.returncode, DIVERGED)
        self.assertNotIn("failed", suggested.stderr)

    def test_rule_of_what_is_not_recorded(self):
        """p is wrong by what stands in the maximum of some rows, which is not recorded: a rule of where was looked for in sites
        of p, which hold no operands, and the search crashed. Of tests/bench/strangers --count 200 --seed 1 --recorded random,
        00030.h5 without l, acc, the outputs and the staged q and k."""
        report = self.judge(DATA / "tail_in_unrecorded_m.h5")
        self.assertEqual((report["first_divergence"]["stage"], report["search"]), ("p", {"cut_off": False, "failed": []}))
        self.assertIn(("m_includes_tail", "m"), [(cause["name"], cause["stage"]) for cause in report["causes"]])

    def test_search_that_crashes(self):
        """The process that searches is ended as a crash ends it: the verdict comes from one that does not search."""
        sample = SAMPLES / "max_own_lane.h5"
        command = [TILE_DIFF, "--search-all", sample, "--json", self.file]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            # Files are tried in processes of their own, which end at once.
            searches = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
            seen, since = "", time.monotonic()
            while not seen or time.monotonic() - since < 0.2:
                self.assertIsNone(run.poll(), "it ended before its search could be")
                if searches.read_text() != seen:
                    seen, since = searches.read_text(), time.monotonic()
                time.sleep(0.01)
            os.kill(int(seen.split()[0]), signal.SIGSEGV)
            text, complaint = run.communicate()
        self.assertEqual((run.returncode, complaint), (DIVERGED, ""))
        self.assertTrue(text.splitlines()[-1].startswith("diverged: m is the first wrong stage"), text)
        report = json.loads(self.file.read_text())
        self.assertEqual((report["verdict"], report["causes"], len(report["search"]["failed"])), ("diverged", None, 1))
        self.assertIn("Segmentation fault", report["search"]["failed"][0])

    def test_mistake_of_what_is_no_recording(self):
        run = self.run_it(SAMPLES / "acc_not_rescaled.h5", "--cause-of", self.folder / "nowhere.h5", "--json", self.file)
        self.assertEqual(run.returncode, DIVERGED)
        self.assertIn("a part of the search failed: ", run.stdout)
        self.assertIn("nowhere.h5", run.stdout)
        self.assertTrue(run.stdout.splitlines()[-1].startswith("diverged: acc is the first wrong stage"))
        report = json.loads(self.file.read_text())
        self.assertEqual((report["verdict"], len(report["search"]["failed"])), ("diverged", 1))
        self.assertIn("acc_not_rescaled", [cause["name"] for cause in report["causes"]])

    def test_all_of_a_search(self):
        usual = self.judge(SAMPLES / "lse_base2.h5")
        self.assertEqual(usual["search"], {"cut_off": False, "failed": []})
        self.assertEqual(self.judge(SAMPLES / "lse_base2.h5", "--search-all"), usual)


if __name__ == "__main__":
    main()
