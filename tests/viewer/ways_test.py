#!/usr/bin/env python3
"""Ways through the window: back and forward, menus, the search of commands, tabs that have nothing, the title, a watched folder.

usage: ways_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import os
import re
import shutil
import threading
import time

import h5py
from tile_view_case import SAMPLES, TileViewCase, main


class Ways(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_back_and_forward(self):
        self.play([self.PATH], "wait", "expect acc,0,0,0,0,1 of batch", "key Down", "key Down", "wait", "expect acc,0,0,2,0,1 of batch",
                  "key Shift+Down", "key Down", "click stage_s:0.5 0.5", "wait", "expect Map of s", "key .", "wait",
                  "key Backspace", "wait", "expect Map of s", "key Backspace", "wait", "expect Map of acc", "key Backspace", "wait",
                  "expect acc,0,0,2,0,1 of batch", "key Backspace", "wait", "expect this is where it began",
                  "expect acc,0,0,2,0,1 of batch", "key Shift+Backspace", "key Shift+Backspace", "wait", "expect Map of s",
                  "key Shift+Backspace", "key Shift+Backspace", "wait", "expect this is the last place")

    def test_search_of_commands(self):
        self.play([self.PATH], "wait", "key Ctrl+P", "frames 2", "expect command: next bad row", "type relative ERR", "frames 2",
                  "expect chosen: relative error", "expect_not next bad row", "key Enter", "wait", "expect relative error, log",
                  "expect_not command:", "key Ctrl+P", "frames 2", "type previous", "frames 2", "expect chosen: previous bad row", "key Down",
                  "frames 2", "expect chosen: previous bad tile", "key Up", "key Up", "frames 2", "expect_not chosen: previous bad tile",
                  "key Escape", "key Ctrl+P", "frames 2", "type next stage", "frames 2", "key Enter", "wait", "expect_not Map of acc", "key Ctrl+P", "frames 2",
                  "type zzz", "frames 2", "expect no command has these words", "key Enter", "frames 2", "key Escape", "frames 2",
                  "expect_not no command has", "key 4", "wait", "expect over budget, log")

    def test_a_recording_is_opened_by_keys_or_the_mouse(self):
        runs = self.folder / "runs"
        (runs / "older").mkdir(parents=True)
        (runs / "notes.txt").write_text("no recording")
        shutil.copy(SAMPLES / "acc_not_rescaled.h5", runs / "Acc.h5")
        shutil.copy(SAMPLES / "healthy_scalar.h5", runs / "older" / "healthy.h5")
        self.play([runs / "Acc.h5"], "wait", "key Ctrl+O", "frames 3", f"expect Open a recording of {runs}", "expect file: older/",
                  "expect file: Acc.h5", "expect_not notes.txt", "type OLD", "frames 2", "expect chosen: older/", "expect_not Acc.h5\n",
                  "key Enter", "frames 3", f"expect Open a recording of {runs}/older", "type heal", "frames 2", "key Enter",
                  "await match: ", "wait", "expect_title healthy.h5: match", "key Ctrl+O", "frames 3", "expect chosen: ../",
                  "key Enter", "frames 3", f"expect_not {runs}/older", "click file_Acc.h5:0.5 0.5", "await acc is wrong",
                  "expect_title Acc.h5: diverged", "expect_not Open a recording of")

    def test_a_path_is_typed_into_the_dialog(self):
        self.play([], "frames 2", "key Ctrl+O", "frames 3", f"type {self.PATH}", "key Enter", "await acc is wrong", "key Ctrl+O",
                  "frames 3", "type ./nowhere.h5", "key Enter", "await nowhere.h5", "expect cannot be opened", f"expect {SAMPLES}/nowhere.h5")
        self.play([], "frames 2", "key Ctrl+O", "frames 3", "type zzz", "frames 2", "expect no folder and no .h5 file has this name",
                  "key Enter", "frames 2", "key Escape", "frames 2", "expect_not Open a recording of")

    def test_menu_and_help_open_by_a_click(self):
        self.play([self.PATH], "wait", "click menu:0.5 0.5", "frames 4", "expect menu Go", "expect menu File", "move menu_Look:0.5 0.5",
                  "frames 20", "expect entry relative error", "click entry_6:0.5 0.5", "wait", "expect relative error, log",
                  "expect_not menu Go", "click menu:0.5 0.5", "frames 4", "expect menu Go", "key Escape", "frames 4",
                  "expect_not menu Go", "click help:0.5 0.5", "frames 2", "expect Mouse: wheel zooms", "key Escape", "frames 2",
                  "expect_not Mouse: wheel zooms")

    def test_every_key_of_the_page_has_an_entry_in_the_menu(self):
        page = (SAMPLES.parent / "viewer/README.md").read_text()
        rows = re.findall(r"^\| ([A-Z][a-z ]+) \| (\S.*?) \| (.+) \|$", page, re.MULTILINE)
        self.assertGreater(len(rows), 60)
        for group in dict.fromkeys(group for group, _, _ in rows):
            self.play([self.PATH], "wait", "click menu:0.5 0.5", "frames 4", f"move menu_{group.replace(' ', '_')}:0.5 0.5", "frames 20",
                      *[f"expect entry {what}" for row, _, what in rows if row == group], options=["--size", "1600x1000"])

    def test_F1_opens_help_and_closes_it(self):
        self.play([self.PATH], "wait", "key F1", "frames 2", "expect Mouse: wheel zooms", "key F1", "frames 2",
                  "expect_not Mouse: wheel zooms")

    def test_evidence_is_shown_step_by_step(self):
        self.searches_causes = True
        self.play([self.PATH], "wait", "key PageUp", "wait", "key Enter", "wait", "expect 1 of 5: where it diverges first",
                  "expect acc,0,0,0,0,1 of batch", "expect over budget, log", "key Enter", "wait",
                  "expect 2 of 5: what a kernel with acc_not_rescaled would hold", "expect replayed, linear", "click show_me:0.5 0.5",
                  "wait", "expect 3 of 5: what that leaves unexplained", "expect unexplained, log", "key Enter", "wait",
                  "expect 4 of 5: since when", "key Right", "wait", "expect acc,0,0,0,0,2 of batch", "key Enter", "wait",
                  f"expect 5 of 5: the command that says the same was copied: tile-diff {self.PATH}", "key Enter", "wait",
                  "expect 1 of 5: where")
        self.play([SAMPLES / "healthy_scalar.h5"], "wait", "key Enter", "frames 2", "expect nothing diverges: there is nothing to show")
        self.play([self.PATH, SAMPLES / "acc_not_rescaled.h5"], "wait", "key Enter", "frames 2", "expect nothing diverges")

    def test_words_of_ours_are_explained_under_the_pointer(self):
        def pointed(*words):
            return [line for word in words for line in
                    (f"move word_{word.replace(' ', '_')}:0.5 0.5", "frames 2", f"expect \n{word}: ")]
        self.play([self.PATH], "wait",
                  *pointed("dumped", "expected", "difference", "ulps", "relative error", "Row", "Drift", "Histogram",
                           "Budget", "Causes", "finding", "bits"),
                  "move word_over_budget:0.5 0.5", "frames 2", "expect over budget: the difference in budgets: rounding explains up to 1",
                  "click stage_o:0.5 0.5", "wait", "move word_inherited:0.5 0.5", "frames 2",
                  "expect inherited: right for what the stages before give, and wrong end to end")
        self.play([SAMPLES / "nan_times_zero.h5"], "wait", *pointed("NaN"))

    def test_double_click_zooms_to_the_element(self):
        with h5py.File(self.PATH) as file:
            acc = file["tiles/acc"][0, 0, 1]
        # Of the whole tile no cell has room for its numbers.
        self.play([self.PATH], "wait", "key F", "wait", f"expect_not \n{acc[32, 32]:.4g}\n", "click heatmap:0.504 0.504",
                  "click heatmap:0.504 0.504", "wait", "expect acc,0,0,32,32,1 of batch", f"expect \n{acc[32, 32]:.4g}\n")

    def test_two_recordings_have_no_dead_tabs(self):
        self.play([self.PATH, self.PATH], "wait", "key D", "expect two recordings: nothing says which of them is wrong",
                  *["key Tab"] * 3, "wait", "expect q row 0 across the KV tiles\n", options=["--size", "1600x1000"])

    def test_title_says_what_was_found(self):
        self.play([self.PATH], "wait", "expect_title acc_not_rescaled.h5: diverged: acc is the first wrong stage - tile-view")
        self.play([SAMPLES / "healthy_scalar.h5"], "wait", "expect_title healthy_scalar.h5: match: ")
        self.play([], "frames 2", "expect_title tile-view")


class WatchedFolder(TileViewCase):
    @staticmethod
    def wait_for(path):
        while not path.exists():
            time.sleep(0.05)

    def watched(self, first, later, begin, *lines):
        """Plays the lines in a folder that holds `first`; `later` is called with the folder after the first of them."""
        folder = self.folder / "runs"
        folder.mkdir()
        shutil.copy(SAMPLES / first, folder / "a.h5")
        marker = self.folder / "begun.png"
        loop = threading.Thread(target=lambda: (self.wait_for(marker), later(folder)), daemon=True)
        loop.start()
        self.play([], begin, f"picture status {marker}", *lines, options=["--watch", folder])
        loop.join()

    def test_each_new_recording_is_shown_as_it_appears(self):
        def run_again(folder):
            shutil.copy(SAMPLES / "acc_not_rescaled.h5", folder / ".partial")
            os.rename(folder / ".partial", folder / "b.h5")
        self.watched("healthy_scalar.h5", run_again, "await match: ", "expect 1 of 1 in", "expect_title a.h5: match",
                     "await acc is wrong", "wait", "expect 2 of 2 in", "expect_title b.h5: diverged: acc", "key Ctrl+PageUp",
                     "await match: ", "wait", "expect 1 of 2 in", "key Ctrl+PageUp", "frames 2", "expect this is the oldest",
                     "key Ctrl+PageDown", "await acc is wrong")

    def test_the_last_ones_are_kept(self):
        folder = self.folder / "runs"
        folder.mkdir()
        for i in range(17):
            path = folder / f"{i:02}.h5"
            shutil.copy(SAMPLES / "lse_base2.h5", path)
            os.utime(path, (i, i))
        # The oldest of 17 is not among them.
        self.play([], "await 16 of 16 in", "wait", "expect_title 16.h5: ", *["key Ctrl+PageUp", "frames 2"] * 15, "await 1 of 16 in", "wait",
                  "expect_title 01.h5: ", "key Ctrl+PageUp", "frames 2", "expect this is the oldest", options=["--watch", folder])

    def test_one_that_is_removed_is_not_counted(self):
        counted = self.folder / "counted.png"

        def run_again_and_remove(folder):
            shutil.copy(SAMPLES / "acc_not_rescaled.h5", folder / "b.h5")
            self.wait_for(counted)
            os.remove(folder / "a.h5")
        self.watched("healthy_scalar.h5", run_again_and_remove, "await match: ", "await 2 of 2 in", f"picture status {counted}",
                     "await 1 of 1 in", "wait", "expect_title b.h5: ", f"drop {SAMPLES / 'lse_base2.h5'}", "await lse_base2.h5", "wait", "expect_not 1 of 1 in")

    def test_a_file_that_is_no_recording_leaves_the_one_before(self):
        self.watched("acc_not_rescaled.h5", lambda folder: (folder / "b.h5").write_text("no recording"), "await acc is wrong",
                     "await b.h5", "expect acc is wrong")

    def test_refusals(self):
        run = self.start("--watch", self.folder / "nowhere", "--script", self.script(["wait"]))
        self.assert_fails(run, "no such folder")
        run = self.start(SAMPLES / "healthy_scalar.h5", "--watch", self.folder, "--script", self.script(["wait"]))
        self.assertEqual(run.returncode, 2, run.stderr)


if __name__ == "__main__":
    main()
