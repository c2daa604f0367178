#!/usr/bin/env python3
"""tile-diff on the recordings of a call on several ranks: which rank, step and stage is wrong first, and why.

usage: ranks_test.py TILE_DIFF [unittest arguments]
"""

import json
import pathlib
import shutil

import h5py
import jsonschema
import numpy as np

from ring import Ring, SplitKv
from tile_diff_case import DIVERGED, MATCH, UNJUDGED, TileDiffCase, main

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "oracle/report/report.schema.json").read_text())

# name: layout, ranks, causal, then where it shows first: rank, step, stage
FAULTS = {
    "stale_shard": ("zigzag", 2, True, 1, 1, "k"),
    "wrong_shard": ("zigzag", 3, True, 1, 1, "k"),
    "transfer_incomplete": ("striped", 2, True, 1, 1, "k"),
    "wrong_rows_of_shard": ("zigzag", 2, True, 1, 1, "k"),
    "keys_left_out": ("zigzag", 3, False, 1, None, "o"),
    "keys_taken_twice": ("contiguous", 2, False, 1, 2, "k"),
    "replicated_keys_counted_again": ("contiguous", 2, False, 0, 1, "k"),
    "local_positions": ("contiguous", 2, True, 1, 1, "s"),
    "merge_in_base_two": ("zigzag", 2, True, 1, 1, "merged_o"),
    "merge_without_rescaling": ("zigzag", 3, True, 1, 1, "merged_o"),
    "merge_without_weights": ("contiguous", 3, False, 1, 1, "merged_o"),
    "merge_takes_mean": ("striped", 3, True, 1, 1, "merged_o"),
    "lse_in_bf16": ("zigzag", 2, True, 1, 0, "merged_lse"),
}


class RanksTest(TileDiffCase):
    def report(self, expected, *arguments):
        run = self.run_it(self.folder, *arguments, "--json", "-")
        self.assertEqual(run.returncode, expected, run.stdout + run.stderr)
        report = json.loads(run.stdout)
        jsonschema.validate(report, SCHEMA)
        recordings = report["recordings"]
        self.assertEqual(len(recordings), 1, "shards of one run are one entry")
        return recordings[0]

    def test_healthy_runs_match(self):
        for layout in ("contiguous", "zigzag", "striped"):
            for ranks in (1, 3):
                for causal in (False, True):
                    with self.subTest(layout=layout, ranks=ranks, causal=causal):
                        shutil.rmtree(self.folder)
                        self.folder.mkdir()
                        Ring(self.folder, ranks, layout, causal).record()
                        report = self.report(MATCH)
                        self.assertEqual(report["faults"], [])
                        steps = [part for part in report["parts"] if part["shard"] == "step" and part["step"] > 0]
                        for part in steps:
                            compared = {stage["name"]: stage["compared"] for stage in part["stages"]}
                            self.assertTrue(all(compared[name] > 0 for name in ("k", "v", "merged_o", "merged_lse")), part)

    def test_rows_that_have_seen_nothing_yet_are_marked_as_declared(self):
        for empty_lse in (-np.inf, np.inf):
            with self.subTest(empty_lse=empty_lse):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                ring = Ring(self.folder, 3, "zigzag", empty_lse=empty_lse, own_last=True)
                ring.record()
                with h5py.File(self.folder / "rank0_step0.h5") as f:
                    self.assertEqual(f["tiles/merged_lse"][0, 0, 0], empty_lse)
                    # What the rank owns is no step's input before the last one.
                    self.assertNotEqual(f["problem"].attrs["q_positions"], f["problem"].attrs["kv_positions"])
                for rank in range(3):
                    ring.write_owned(rank)
                self.assertEqual(self.report(MATCH)["faults"], [])

    def test_a_cause_explains_the_stage_that_it_stands_at(self):
        Ring(self.folder, 2, "zigzag", fault="lse_in_bf16").record()
        with h5py.File(self.folder / "rank1_step0.h5", "r+") as f:
            f["tiles/merged_o"][...] *= 1.5  # by itself, and explained by nothing
        first = self.report(DIVERGED)["faults"][0]
        self.assertEqual((first["step"], first["stage"], first["cause"]), (0, "merged_o", None))

    def test_a_cause_that_is_not_searched_is_not_called_unknown(self):
        Ring(self.folder, 2, "contiguous").record()
        for file in self.folder.glob("*_step1.h5"):
            with h5py.File(file, "r+") as f:
                f["tiles/s"][...] *= 2
        self.assertIn("cause: score_constant", self.run_it(self.folder).stdout)
        said = self.run_it(self.folder, "--no-causes").stdout
        self.assertIn("cause: not searched", said)
        self.assertRegex(said, r"(?m)^diverged .* s +not searched ")
        self.assertNotRegex(said, "none is known|unexplained")

    def test_refuses_what_is_of_one_recording(self):
        Ring(self.folder, 2).record()
        for arguments in (("--stage", "s"), ("--row", "3"), ("--tile", "1")):
            self.assert_one_line(self.run_it(self.folder, *arguments), "name one of its recordings")

    def test_names_rank_step_stage_and_cause(self):
        for fault, (layout, ranks, causal, rank, step, stage) in FAULTS.items():
            with self.subTest(fault=fault):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                Ring(self.folder, ranks, layout, causal, fault).record()
                first = self.report(DIVERGED)["faults"][0]
                where = (first["rank"], first["step"] if first["shard"] == "step" else None, first["stage"])
                self.assertEqual(where, (rank, step, stage), first)
                self.assertEqual(first["cause"], fault, first)

    def test_local_positions_may_be_aligned_either_way(self):
        Ring(self.folder, 2, "zigzag", fault="local_positions_of_half").record()
        first = self.report(DIVERGED)["faults"][0]
        self.assertEqual((first["rank"], first["step"], first["stage"], first["cause"]), (1, 1, "s", "local_positions"))

    def test_a_transfer_can_stop_between_heads(self):
        Ring(self.folder, 2, "zigzag", fault="heads_not_sent").record()
        first = self.report(DIVERGED)["faults"][0]
        self.assertEqual((first["rank"], first["step"], first["stage"], first["cause"]), (1, 1, "k", "transfer_incomplete"))
        self.assertIn("keys 0-47 of head 0 are right, keys 0-47 of head 1 are those from position 24 on", first["says"])

    def test_partial_outputs_of_other_ranks_are_merged(self):
        """Split KV, of which each rank merges all, or rank 0 what a tree brings it."""
        for tree in (False, True):
            for fault, at in ((None, None), ("wrong_partial", ("received", 2, "o")), ("lse_in_bf16", ("received", 1, "lse")),
                              ("merge_without_rescaling", ("received", 1, "merged_o")), ("merge_in_base_two", ("received", 1, "merged_o"))):
                with self.subTest(tree=tree, fault=fault):
                    shutil.rmtree(self.folder)
                    self.folder.mkdir()
                    SplitKv(self.folder, tree=tree, fault=fault).record()
                    report = self.report(DIVERGED if fault else MATCH)
                    compared = {stage["name"]: stage["compared"] for stage in report["parts"][1]["stages"]}
                    self.assertTrue(compared["o"] > 0 and compared["lse"] > 0 and compared["merged_o"] > 0, compared)
                    if fault is None:
                        self.assertEqual((report["faults"], report["missing"]), ([], []))
                        continue
                    first = report["faults"][0]
                    self.assertEqual((first["shard"], first["step"], first["stage"]), at, first)
                    self.assertEqual((first["rank"], first["cause"]), (0 if tree else 1, fault), first)
                    if fault == "wrong_partial":
                        keys = "24 keys from position 24 on" if tree else "32 keys from position 0 on"
                        self.assertIn(f"it is what rank {1 if tree else 0}, step 0 has over {keys}", first["says"])

    def test_partial_outputs_of_no_recorded_rank_are_no_match(self):
        SplitKv(self.folder).record()
        for file in self.folder.glob("rank2_*.h5"):
            file.unlink()
        report = self.report(UNJUDGED)
        self.assertIn("rank 2 was not recorded", report["missing"])
        self.assertIn("rank 1, step 2: no rank has computed what it received over these keys", report["missing"])

    def test_outputs_may_be_stored_otherwise_than_partial_ones(self):
        Ring(self.folder, 2, "zigzag").record()
        for file in self.folder.glob("*_final.h5"):
            with h5py.File(file, "r+") as f:
                o = f["outputs/o"][...]
                del f["outputs/o"]
                f["outputs/o"] = o.astype(np.float32)
        self.assertEqual(self.report(MATCH)["faults"], [])

    def test_two_runs_show_a_transfer_that_is_late_now_and_then(self):
        runs = [self.folder / name for name in ("first", "again", "late")]
        for folder in runs:
            folder.mkdir()
            Ring(folder, 2, "contiguous", fault="transfer_incomplete" if folder.name == "late" else None, run="run").record()
        again = self.run_it("--same-run", "--against", runs[0], runs[1])
        self.assertEqual(again.returncode, MATCH, again.stderr)
        late = self.run_it("--same-run", "--against", runs[0], runs[2])
        self.assertEqual(late.returncode, DIVERGED, late.stderr)
        # The outputs at the end differ in more elements, and come from it.
        self.assertIn("diverged: k is the first that differs from run to run, at batch 0, head 0, row 24, column 0", late.stdout)
        self.assertIn("cause: transfer_incomplete in k: what rank 1 read at step 1 differs", late.stdout)
        self.assertRegex(late.stdout, r"diverged  \S*rank1_final.h5  o       inherited")
        self.assert_one_line(self.run_it("--against", runs[0] / "rank0_step0.h5", runs[1]), "compare it with the folder of another run")
        self.assert_one_line(self.run_it("--against", self.folder / "nowhere", runs[1]), "nowhere: is not there")

    def test_every_report_says_where(self):
        Ring(self.folder, 2, "zigzag", fault="stale_shard").record()
        for name in ("text", "html", "junit", "markdown", "sarif"):
            with self.subTest(report=name):
                run = self.run_it(self.folder, "--report", f"{name}=-")
                self.assertEqual(run.returncode, DIVERGED, run.stderr)
                self.assertIn("k is the first wrong stage, at rank 1, step 1", run.stdout)
                self.assertIn("stale_shard", run.stdout)

    def test_merges_are_judged_from_partial_outputs_where_nothing_else_says_what_was_merged(self):
        Ring(self.folder, 3, "zigzag", True, "merge_without_rescaling", merged=False).record()
        first = self.report(DIVERGED)["faults"][0]
        self.assertEqual((first["rank"], first["shard"], first["stage"]), (1, "final", "o"))
        self.assertEqual(first["cause"], "merge_without_rescaling")

    def test_says_what_was_not_recorded(self):
        Ring(self.folder, 3, "zigzag").record()
        for file in self.folder.glob("rank1_*.h5"):
            file.unlink()
        (self.folder / "rank2_step1.h5").unlink()
        report = self.report(UNJUDGED)
        self.assertIn("rank 1 was not recorded", report["missing"])
        self.assertIn("rank 2, step 1 was not recorded", report["missing"])

    def test_says_in_one_line_which_steps_were_not_recorded(self):
        Ring(self.folder, 2, "zigzag").record()
        with h5py.File(self.folder / "rank1_step1.h5", "r+") as f:
            f["problem"].attrs["step"] = 2**31 - 1
        self.assertEqual(self.report(UNJUDGED)["missing"][0], "rank 1, steps 1-2147483646 were not recorded")

    def test_says_which_merges_cannot_be_judged(self):
        Ring(self.folder, 2, "zigzag").record()
        with h5py.File(self.folder / "rank1_step1.h5", "r+") as f:
            del f["outputs/lse"]
        self.assertIn("rank 1, step 1: what was merged is not judged, since its o and lse were not recorded",
                      self.report(UNJUDGED)["missing"])

    def test_outputs_that_are_right_are_not_blamed_on_steps_that_were_not_recorded(self):
        Ring(self.folder, 3, "zigzag", False).record()
        (self.folder / "rank1_step2.h5").unlink()
        report = self.report(UNJUDGED)
        self.assertEqual(report["missing"], ["rank 1: its outputs are right, so not all of its steps were recorded"])

    def test_what_ranks_own_and_their_outputs_are_enough(self):
        for fault, verdict in ((None, MATCH), ("merge_without_rescaling", DIVERGED)):
            with self.subTest(fault=fault):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                Ring(self.folder, 3, "zigzag", True, fault).record()
                for file in self.folder.glob("*_step*.h5"):
                    if "step0" not in file.name:
                        file.unlink()
                        continue
                    with h5py.File(file, "r+") as f:
                        f["problem"].attrs["shard"] = "owned"
                        f["problem"].attrs["named_tiles"] = ""
                        del f["outputs"], f["tiles"]
                report = self.report(verdict)
                compared = {part["rank"]: part["stages"] for part in report["parts"] if part["shard"] == "final"}
                self.assertEqual([stage["name"] for stage in compared[1]], ["o from all keys", "lse from all keys"])
                self.assertTrue(all(stage["compared"] > 0 for stages in compared.values() for stage in stages))
                if fault:
                    first = report["faults"][0]
                    self.assertEqual((first["rank"], first["shard"], first["stage"]), (1, "final", "o"))

    def test_two_runs_of_one_folder_are_two_entries(self):
        for run, fault in (("a", None), ("b", "stale_shard")):
            (self.folder / run).mkdir()
            Ring(self.folder / run, 2, "zigzag", fault=fault, run=run).record()
        run = self.run_it(self.folder)
        self.assertEqual(run.returncode, DIVERGED, run.stderr)
        self.assertIn("2 recordings: 1 match, 1 diverged", run.stdout)
        self.assertIn("diverged: k is the first wrong stage, at rank 1, step 1", run.stdout)

    def test_refuses_shards_that_do_not_belong_together(self):
        Ring(self.folder, 2).record()
        shutil.copy(self.folder / "rank0_step0.h5", self.folder / "again.h5")
        self.assert_one_line(self.run_it(self.folder), "rank 0, step 0", "give each run an id of its own")
        (self.folder / "again.h5").unlink()
        with h5py.File(self.folder / "rank0_step0.h5", "r+") as f:
            f["problem"].attrs["sm_scale"] = 0.5
        self.assert_one_line(self.run_it(self.folder), "another call")

    def test_refuses_a_run_without_ranks(self):
        Ring(self.folder, 2).record()
        with h5py.File(self.folder / "rank0_step0.h5", "r+") as f:
            for name in ("ranks", "rank", "step", "shard", "q_positions", "kv_positions", "whole_seqlen_q", "whole_seqlen_kv"):
                del f["problem"].attrs[name]
        self.assert_one_line(self.run_it(self.folder), "rank0_step0.h5", "0 ranks")

    def test_refuses_positions_that_cannot_be(self):
        Ring(self.folder, 2).record()
        file = self.folder / "rank1_step0.h5"
        for text in ("0+48,", "48", "48+47", "48+49", "60+12,40+36", "0+24*9", "x", "48+48*0", "-1+48", "9" * 30 + "+48"):
            with self.subTest(text=text):
                with h5py.File(file, "r+") as f:
                    f["problem"].attrs["q_positions"] = text
                self.assert_one_line(self.run_it(file), "q_positions")

    def test_a_file_of_a_run_is_judged_alone_where_it_is_named(self):
        Ring(self.folder, 2, "zigzag").record()
        self.assertEqual(self.run_it(self.folder / "rank1_step1.h5").returncode, MATCH)


if __name__ == "__main__":
    main()
