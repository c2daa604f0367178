#!/usr/bin/env python3
"""Ranks and steps of a run on several ranks, one level above its recordings. What is expected of them comes from tile-diff.

usage: ranks_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import os
import shutil
import subprocess
import time

import h5py
from tile_view_case import SAMPLES, TileViewCase, judged, main, verdict

from ring import Ring

def name_of(pixel):
    red, green, blue = (int(part) for part in pixel)
    if red > 180 and green < 90 and blue < 90:
        return "red"
    if blue > red and blue > green and red > green:
        return "violet"
    return "blue" if blue > red and blue > green else "other"


class Ranks(TileViewCase):
    SAMPLE = SAMPLES / "ring_transfer_incomplete"

    def ring(self, *arguments, **options):
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        Ring(folder, *arguments, **options).record()
        return folder

    def fault(self, folder):
        """The first fault of tile-diff's report."""
        return judged(folder)["recordings"][0]["faults"][0]

    def summary(self, folder):
        return judged(folder)["recordings"][0]["summary"]

    def test_a_folder_is_shown_at_the_first_wrong_rank_and_step(self):
        first = self.fault(self.SAMPLE)
        self.assertEqual((first["rank"], first["step"], first["stage"]), (1, 1, "k"))
        self.play([self.SAMPLE], "wait", f"expect {self.summary(self.SAMPLE)}", f"expect k of rank 1, step 1 is wrong first: {first['says']}",
                  f"expect look at: {first['look_at']}", "expect rank 1, step 1\nfirst wrong\n", "expect k first wrong\n",
                  f"expect {first['place']}", f"expect {first['values']}", "expect rank 1, step 1  k  transfer_incomplete",
                  "expect_title ring_transfer_incomplete: diverged: k is the first wrong stage, at rank 1, step 1",
                  "expect 2 ranks, 5 recordings", options=["--size", "1600x1000"])

    def test_a_cause_that_is_not_searched_is_not_called_unknown(self):
        folder = self.ring(2, "contiguous")
        for file in folder.glob("*_step1.h5"):
            with h5py.File(file, "r+") as f:
                f["tiles/s"][...] *= 2
        for searches, said, other in ((False, "its cause was not searched", "score_constant"), (True, "score_constant", "its cause was not searched")):
            self.searches_causes = searches
            self.play([folder], "wait", f"expect {said}", f"expect_not {other}", "expect_not no known cause explains it",
                      options=["--size", "1600x1000"])

    def test_every_cell_has_the_colour_of_its_state(self):
        cells = {"0_0": "blue", "0_end": "blue", "1_0": "blue", "1_1": "red", "1_end": "violet"}
        self.play([self.SAMPLE], "wait", *(f"picture rank_{name} {name}.png" for name in cells), options=["--size", "1600x1000"])
        for name, colour in cells.items():
            picture = self.picture(f"{name}.png")
            below_words = picture[int(0.7 * len(picture)):-6, 6:-6].reshape(-1, 3)
            self.assertIn(colour, {name_of(pixel) for pixel in below_words}, name)

    def test_arrows_and_clicks_choose_and_enter_opens(self):
        self.play([self.SAMPLE], "wait", "key Left", "frames 3", "expect rank 1, step 0\nright\n", "key Up", "key Right", "frames 3",
                  "expect rank 0, step 1\nno such step was recorded", "key Enter", "frames 3",
                  "expect there is no recording of this rank and step", "key Right", "frames 3", "expect rank 0, at the end\nright",
                  "key Right", "key Up", "frames 3", "expect rank 0, at the end\nright", "click rank_1_end:0.5 0.8", "frames 3",
                  "expect rank 1, at the end\ninherited", "key Enter", "frames 3", "expect are outputs alone", "key Home", "frames 3",
                  "expect rank 1, step 1\nfirst wrong", "key Enter", "wait", "expect k,0,0,64,0",
                  "expect rank1_step1.h5", options=["--size", "1600x1000"])

    def test_a_step_is_shown_at_what_arrived_wrong(self):
        """Beside what its owner has, of which its own file knows nothing."""
        with h5py.File(self.SAMPLE / "rank1_step1.h5") as file:
            got = file["inputs/k"][0, 0, 64, 0]
        with h5py.File(self.SAMPLE / "rank0_step0.h5") as file:
            owned = file["inputs/k"][0, 0, 64, 0]
        self.assertNotEqual(got, owned)
        self.play([self.SAMPLE], "wait", "key Enter", "wait", "expect k,0,0,64,0", f"expect dumped\n{got:.9g}\nexpected\n{owned:.9g} +- 0",
                  "expect rank 1, step 1 of ring_transfer_incomplete: k is wrong, first at batch 0, head 0, row 64, column 0: ",
                  "expect k guilty", "expect s from k", "expect v right", options=["--size", "1600x1000"])

    def test_back_up_from_a_recording(self):
        up = ["wait", "expect Map of the run", "expect rank 1, step 1\nfirst wrong"]
        self.play([self.SAMPLE], "wait", "key Enter", "wait", "expect_not Map of the run", "key Escape", *up, "key Enter", "wait", "key N",
                  "frames 3", "expect_not Map of the run", "key Ctrl+Backspace", *up, "key Enter", "wait", "click up:0.5 0.5", *up,
                  "key Left", "key Enter", "wait", "expect rank1_step0.h5", "key Backspace", "wait", "expect rank 1, step 0\nright",
                  options=["--size", "1600x1000"])

    def test_a_double_click_opens(self):
        self.play([self.SAMPLE], "wait", "click rank_1_0:0.5 0.8", "click rank_1_0:0.5 0.8", "wait", "expect rank1_step0.h5",
                  options=["--size", "1600x1000"])

    def test_a_merge_is_gone_to(self):
        folder = self.ring(2, "zigzag", fault="merge_without_rescaling")
        first = self.fault(folder)
        self.assertEqual((first["rank"], first["step"], first["stage"]), (1, 1, "merged_o"))
        self.play([folder], "wait", "expect merge_without_rescaling", "key Enter", "wait", "expect merged_o,0,0,",
                  "expect rank 1, step 1 of run: merged_o is wrong", options=["--size", "1600x1000"])

    def test_a_stage_that_is_wrong_by_itself_is_gone_to(self):
        folder = self.ring(2, "contiguous", fault="local_positions")
        self.play([folder], "wait", "expect local_positions", "key Enter", "wait", "expect s guilty",
                  "expect rank 1, step 1 of run: s is wrong", options=["--size", "1600x1000"])

    def test_a_healthy_run(self):
        healthy = SAMPLES / "ring_healthy"
        self.play([healthy], "wait", f"expect {self.summary(healthy)}", "expect nothing is wrong", "key N", "frames 3", "expect nothing diverges", options=["--size", "1600x1000"])

    def test_what_was_not_recorded_is_said(self):
        folder = self.ring(3, "zigzag")
        for file in folder.glob("rank1_*.h5"):
            file.unlink()
        (folder / "rank2_step1.h5").unlink()
        self.play([folder], "wait", f"expect {self.summary(folder)}", "expect rank 1 was not recorded", "expect rank 2, step 1 was not recorded",
                  "click rank_2_1:0.5 0.8", "frames 3", "expect rank 2, step 1\nnot recorded", options=["--size", "1600x1000"])

    def test_begins_where_it_is_asked_to(self):
        for place, says in (("0,0", "rank 0, step 0\nright"), ("1,end", "rank 1, at the end\ninherited")):
            self.play([self.SAMPLE], "wait", f"expect {says}", "key Ctrl+Shift+C", "frames 3",
                      f"expect_clipboard tile-view {self.SAMPLE} --goto {place}", "key Ctrl+C", "frames 3",
                      f"expect_clipboard tile-diff {self.SAMPLE}", options=["--goto", place])
        for place in ("2,0", "0,7", "s:0,0,0,0", "1"):
            self.assert_fails(self.start(self.SAMPLE, "--goto", place, "--screenshot", self.folder / "out.png"), "RANK,STEP or RANK,end")

    def test_keys_of_a_recording_say_that_they_are(self):
        self.play([self.SAMPLE], "wait", "key T", "frames 3", "expect that is of a recording", "key F1", "frames 3", "expect Ranks and steps",
                  "expect next wrong rank and step")

    def test_a_file_beside_the_run_is_said(self):
        folder = self.ring(2, "zigzag")
        (folder / "broken.h5").write_bytes(b"no recording")
        self.play([folder], "wait", "expect broken.h5", "expect Not judged", options=["--size", "1600x1000"])

    def test_two_runs_are_refused(self):
        for name in ("a", "b"):
            (self.folder / name).mkdir()
            Ring(self.folder / name, 2, run=name).record()
        self.assert_fails(self.start(self.folder, "--screenshot", self.folder / "out.png"), "holds 2 runs of several ranks")

    def test_folders_without_a_run(self):
        empty, one, two = (self.folder / name for name in ("empty", "one", "two"))
        for folder in (empty, one, two):
            folder.mkdir()
        shutil.copy(SAMPLES / "acc_not_rescaled.h5", one)
        for name in ("a.h5", "b.h5"):
            shutil.copy(SAMPLES / "acc_not_rescaled.h5", two / name)
        self.assert_fails(self.start(empty, "--screenshot", self.folder / "out.png"), "holds no recording")
        self.assert_fails(self.start(two, "--screenshot", self.folder / "out.png"), "holds 2 recordings")
        self.assert_fails(self.start(one, two / "a.h5", "--screenshot", self.folder / "out.png"), "a folder is shown by itself")
        self.play([one], "wait", f"expect {verdict(one / 'acc_not_rescaled.h5')}")

    def test_two_recordings_of_one_step_are_refused(self):
        folder = self.ring(2)
        shutil.copy(folder / "rank1_step0.h5", folder / "again.h5")
        self.assert_fails(self.start(folder, "--screenshot", self.folder / "out.png"), "give each run an id of its own")

    def test_a_recording_that_is_written_anew_is_read_again(self):
        """Whichever of the two levels is on screen."""
        for keys, says in (([], "await nothing is wrong"), (["key Enter", "wait", "expect k guilty"], "await k right")):
            folder = self.ring(2, "zigzag", fault="stale_shard")
            marker = self.folder / "first.png"
            marker.unlink(missing_ok=True)
            script = self.script(["wait", *keys, f"screenshot {marker}", says])
            process = subprocess.Popen(self.command(folder, "--script", script, "--size", "1600x1000"), env=self.environment(), cwd=self.folder,
                                       stderr=subprocess.PIPE, text=True)
            while not marker.exists() and process.poll() is None:
                time.sleep(0.05)
            healthy = self.folder / "healthy"
            healthy.mkdir(exist_ok=True)
            Ring(healthy, 2, "zigzag").record()
            for file in healthy.glob("*.h5"):
                os.replace(file, folder / file.name)
            self.assertEqual((process.communicate(timeout=300)[1], process.returncode), ("", 0))

    def test_up_from_a_recording_that_was_opened_by_itself(self):
        self.play([self.SAMPLE / "rank1_step1.h5"], "wait", "expect rank1_step1.h5   rank 1, step 1 of 2 ranks", "expect match: ",
                  "key Ctrl+Backspace", "wait", "expect Map of the run", "expect rank 1, step 1\nfirst wrong", options=["--size", "1600x1000"])
        self.play([SAMPLES / "lse_base2.h5"], "wait", "key Ctrl+Backspace", "frames 3", "expect of no run of several ranks")

    def test_the_run_of_a_folder_can_be_chosen_in_the_list_of_files(self):
        folder = self.ring(2, "zigzag", fault="stale_shard")
        self.play([folder / "rank0_step0.h5"], "wait", "key Ctrl+O", "frames 3", "expect file: ./", "key Down", "frames 2", "key Enter", "wait",
                  "expect Map of the run", "expect stale_shard", options=["--size", "1600x1000"])

    def test_another_run_or_recording_takes_its_place(self):
        folder = self.ring(2, "zigzag", fault="stale_shard")
        other = self.folder / "healthy"
        other.mkdir()
        Ring(other, 2, "zigzag").record()
        self.play([folder], "wait", "expect stale_shard", f"drop {other}", "wait", "expect nothing is wrong", f"drop {SAMPLES / 'lse_base2.h5'}",
                  "wait", "expect_not Map of the run", "key Escape", "frames 3", "expect_not Map of the run", f"drop {folder}", "wait",
                  "expect stale_shard", options=["--size", "1600x1000"])

    def test_steps_that_many_runs_have_are_scrolled_to(self):
        folder = self.ring(8, "zigzag", fault="stale_shard")
        self.play([folder], "wait", f"expect {self.summary(folder)}", "key Home", "frames 3", "expect rank 1, step 1\nfirst wrong",
                  *["key Right"] * 8, *["key Down"] * 8, "frames 3", "expect rank 7, at the end", "key N", "frames 3", "expect wrong recording",
                  options=["--size", "900x600"])


if __name__ == "__main__":
    main()
