#!/usr/bin/env python3
"""Drives tile-view by events in a window on a display in memory; what it should show comes from tile-diff and the files.

usage: tile_view_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import h5py
import numpy as np
from tile_view_case import SAMPLES, TileViewCase, judged, main, verdict

import small_dump


def coordinates(first):
    text = "{stage},{batch},{head},{row},{col}".format(**first)
    if first["stage"] in ("m", "l", "acc"):
        text += f",{first['kv_tile']}"
    if first["stage"] in ("k", "v"):
        text += f",{first['q_block']}"
    return text


def rows_of(stage):
    return "keys" if stage in ("k", "v", "dk", "dv") else "rows"


class Opening(TileViewCase):
    def test_every_diverging_sample_opens_at_its_first_divergence(self):
        diverging = 0
        for path in sorted(SAMPLES.glob("*.h5")):
            first = judged(path)["first_divergence"]
            if first is None:
                continue
            diverging += 1
            with self.subTest(sample=path.name):
                self.play([path], "wait", f"expect {verdict(path)}", f"expect {coordinates(first)} of batch",
                          f"expect Bad {rows_of(first['stage'])} of {first['stage']}:")
        self.assertGreater(diverging, 5)

    def test_healthy_sample_says_so(self):
        path = SAMPLES / "healthy_scalar.h5"
        report = judged(path)
        self.play([path], "wait", f"expect {verdict(path)}", "expect closest to its budget: ", "key Home", "expect nothing diverges",
                  *(f"expect \n{stage['name']} right\n" for stage in report["stages"] if stage["compared"]))

    def test_chain_of_stages_has_a_word_each(self):
        self.play([SAMPLES / "acc_not_rescaled.h5"], "wait", *(f"expect \n{link}\n" for link in (
            "q right", "k right", "v right", "s right", "m right", "p right", "l right", "acc guilty", "o from acc", "lse right")))
        self.play([SAMPLES / "lse_base2.h5"], "wait", "expect \nlse guilty\n")

    def test_where_the_budget_is_0_the_difference_is_shown(self):
        path = SAMPLES / "head_modulo.h5"
        first = judged(path)["first_divergence"]
        self.assertEqual((first["stage"], first["tolerance"]), ("k", 0))
        self.play([path], "wait", "expect q block 0   difference, as the budget is 0\n", "expect \ndifference, symlog\n",
                  "expect_not over budget, log")

    def test_goto(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path], "wait", "expect s,0,0,17,70 of batch", options=["--goto", "s:0,0,17,70"])

    def test_pair(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.play([path, path], "wait", "expect acc_not_rescaled.h5 against acc_not_rescaled.h5", "expect match:")


class Looking(TileViewCase):
    PATH = SAMPLES / "acc_not_rescaled.h5"

    def test_element_holds_what_the_file_holds(self):
        with h5py.File(self.PATH) as file:
            value = np.float32(file["tiles/s"][0, 0, 17, 70])
        bits = f"0x{value.view(np.uint32):08x}"
        self.play([self.PATH], "wait", f"expect {bits}", options=["--goto", "s:0,0,17,70"])

    def test_keys_move_the_element(self):
        self.play([self.PATH], "wait", "key Right", "key Down", "wait", "expect s,0,0,18,71 of batch", "key Shift+Left",
                  "wait", "expect s,0,0,18,7 of batch", "key ]", "wait", "expect s,0,0,18,7 of batch",
                  options=["--goto", "s:0,0,17,70"])

    def test_next_and_previous_bad_row(self):
        self.assertEqual(judged(self.PATH)["first_divergence"]["row"], 0)
        self.play([self.PATH], "wait", "key N", "wait", "expect acc,0,0,1,0,1 of batch", "key Shift+N", "wait",
                  "expect acc,0,0,0,0,1 of batch", "key Shift+N", "wait", "expect acc,0,0,63,0,1 of batch")

    def test_click_selects_and_wheel_and_drag_move_the_view(self):
        self.play([self.PATH], "wait", "key F", "wait", "click heatmap:0.999 0.999", "wait", "move 5 5", "frames 2",
                  "expect s,0,0,63,191 of batch", "click heatmap:0.001 0.001", "wait", "move 5 5", "frames 2",
                  "expect s,0,0,0,0 of batch", "scroll heatmap:0.001 0.001 12", "wait",
                  "click heatmap:0.999 0.999", "wait", "move 5 5", "frames 2", "expect_not s,0,0,63,191 of batch",
                  options=["--goto", "s:0,0,5,5"])

    def test_click_on_the_map_goes_there(self):
        self.play([self.PATH], "wait", "click map_picture:0.97 0.2", "move 5 5", "wait", "expect acc,0,0,0,0,2 of batch")

    def test_held_key_shows_what_is_expected(self):
        self.play([self.PATH], "wait", "key 1", "wait", "expect KV tile 1   dumped", "key_down Space", "wait",
                  "expect KV tile 1   expected", "key_up Space", "wait", "expect KV tile 1   dumped")

    def test_text_typed_into_a_field_runs_no_command(self):
        self.play([self.PATH], "wait", "key J", "frames 4", "type s:0,0,3,9", "key N", "key Enter", "wait",
                  "expect s,0,0,3,9 of batch")

    def test_help_lists_the_keys(self):
        self.play([self.PATH], "wait", "expect_not next bad row", "key ?", "expect next bad row", "key Escape",
                  "expect_not next bad row")

    def test_row_plots_leave_out_what_was_not_captured(self):
        path = SAMPLES / "torch_attention.h5"
        with h5py.File(path) as file:
            # Row 0 of the causal call sees key 0 alone: l is 1 in the KV tiles that were captured, and nothing else.
            self.assertEqual(file["tiles/l"][0, 0, 0, 0], 1)
            self.assertEqual(file["tiles/l"][0, 0, 1, 0], 1)
        self.play([path], "wait", "expect \nl\n1.005\n0.995\n", options=["--goto", "s:0,0,0,0"])

    def test_row_plots_begin_with_the_stage_on_screen_and_name_their_lines(self):
        # The lowest of the plot's numbers, the names of its lines, and its KV tiles; then the stage before.
        lines = "expected\ndumped\nKV tile 0 1 2\n"
        self.play([self.PATH], "wait", "expect acc: difference / budget\n", "expect \nlargest\nbudget\nKV tile 0 1 2\n|acc|, largest\n",
                  f"expect {lines}l\n", "click stage_p:0.5 0.5", "wait",
                  "expect p: difference / budget\n", "expect KV tile 0 1 2\np, smallest to largest\n", f"expect {lines}m\n",
                  "click stage_k:0.5 0.5", "wait", "expect s: difference / budget\n")
        self.play([small_dump.write(self.folder / "o.h5", only=["o"])], "wait",
                  "expect none of s m p l acc was recorded\n")

    def test_tabs_show_what_was_counted(self):
        # The stage on screen comes first.
        self.play([self.PATH], "wait", "key Tab", "wait", "expect below all rows of the head\nacc, relative to the row's largest\n", "key Tab", "wait",
                  "expect 4096 elements", "key Tab", "wait", "expect tolerance")


if __name__ == "__main__":
    main()
