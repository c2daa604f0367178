#!/usr/bin/env python3
"""Recordings of declared kernels: stages, pictures, elements, histories and what explains them, as tile-diff has them.

usage: declared_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import os
import re
import subprocess

import numpy as np
from declared_kernel import BATCH, COLS, FIRST, ROWS, STEP, TEXT, computed, stages_of, with_first_wrong, write
from tile_view_case import SAMPLES, TILE_DIFF, TileViewCase, main, middle, verdict

import small_dump
import small_program

def worst_lines(path):
    """What tile-diff says of the worst elements: place, what was stored, what was expected, and the tolerance."""
    run = subprocess.run([TILE_DIFF, path, "--no-causes"], capture_output=True, text=True, timeout=120)
    return re.findall(r"^(\w+\[.*?\].*?): (?:got )?(\S+), expected (\S+) \+- (\S+)$", run.stdout, re.M)


class Declared(TileViewCase):
    def wrong(self, name="run.h5"):
        """One element of acc, and what follows from it."""
        return with_first_wrong(self.folder / name)

    def test_opens_at_the_worst_element_of_the_first_wrong_stage(self):
        path = self.wrong()
        [(place, got, expected, tolerance)] = worst_lines(path)
        self.assertEqual(place, "acc[1, 7, 3] after block 1 of k")
        self.play([path], "wait", f"expect {verdict(path)}", "expect acc guilty\nr right\ny from acc\n",
                  "expect acc[b 1, n 7, m 3] after block 1 of k", "expect finding\noutside", f"expect dumped\n{got}\n",
                  f"expect expected\n{expected} +- {tolerance}\n", "expect difference\n2\n", "expect worst acc:1,7,3,1 ",
                  "expect acc[b, n, m] over k: f32 = acc + sum(k: x * w)", "expect k block 1 of 3", "expect b 1 of 2",
                  "expect n down, m across", f"expect_title run.h5: {verdict(path).split(', declared')[0]} - tile-view")

    def test_healthy(self):
        inputs, acc = computed()
        path = write(self.folder / "run.h5", stages_of(acc), inputs)
        self.play([path], "wait", "expect match: 984 elements of 3 stages", "expect acc right\nr right\ny right\n",
                  "expect nothing of it is outside its tolerance", "expect nothing diverges: there is nothing to explain", "key Home", "frames 3", "expect nothing diverges")

    def test_stages_that_were_not_stored(self):
        inputs, acc = computed()
        path = write(self.folder / "run.h5", {"y": stages_of(acc)["y"]}, inputs)
        self.play([path], "wait", "expect acc -\nr -\ny right\n", "expect y[b 0, n 0, m 0]", "expect over budget, log",
                  "click stage_acc:0.5 0.5", "wait", "expect finding\nnot stored", "expect expected, linear",
                  "expect_not dumped\n-", f"expect expected\n{acc[2, 0, 0, 0]:.4f}"[:-2])

    def test_picture(self):
        """A pixel for each element of the sheet: red where it is wrong, blue where it is right."""
        path = self.wrong()
        self.play([path], "wait", "key G", "key Home", "key F", "wait", "move header:0.9 0.9", "wait", "picture heatmap wrong.png",
                  "key [", "wait", "expect b 0 of 2", "picture heatmap right.png", "key ]", "key ,", "wait",
                  "expect k block 0 of 3", "picture heatmap before.png", "key 1", "wait", "picture heatmap dumped.png")
        red = {}
        for name in ("wrong", "right", "before"):
            picture = self.picture(f"{name}.png")
            # Beside the numbers in the middle, and inside of the cursor's rim.
            pixels = {(row, col): middle(picture, (ROWS, COLS), row - 0.3, col) for row in range(ROWS) for col in range(COLS)}
            red[name] = [place for place, pixel in pixels.items() if pixel[0] > pixel[2] + 60]
        self.assertEqual(red, dict(wrong=[FIRST[1:]], right=[], before=[]))
        self.assertTrue((self.picture("dumped.png") != self.picture("before.png")).any())

    def test_ways_through_blocks_axes_and_stages(self):
        path = self.wrong()
        self.play([path], "wait", "click next_k:0.5 0.5", "frames 3", "expect acc[b 1, n 7, m 3] after block 2 of k",
                  "click next_k:0.5 0.5", "frames 3", "expect after block 0 of k", "click before_b:0.5 0.5", "frames 3",
                  "expect acc[b 0, n 7, m 3] after block 0 of k", "key PageDown", "wait", "expect r[b 0, n 7]", "expect b down",
                  "key PageDown", "wait", "expect y[b 0, n 7, m 3]", "expect_not k block", "key Right", "key Down", "wait",
                  "expect y[b 0, n 8, m 4]", "key Shift+Down", "wait", "expect y[b 0, n 11, m 4]", "key PageDown", "wait",
                  "expect acc[b 0, n 11, m 4]", "key Home", "wait", "expect acc[b 1, n 7, m 3] after block 1 of k")

    def test_map_of_sheets(self):
        """A cell for each batch entry and block, red where one of its elements is wrong; a click goes there."""
        path = self.wrong()
        self.play([path], "wait", "expect Map of acc: blocks of k across, b down", "picture map_picture map.png",
                  "move map_picture:0.5 0.8", "wait", "expect b 1, k block 1: 1.7", "expect e+05 x budget", "move map_picture:0.9 0.2",
                  "wait", "expect b 0, k block 2: 0.", "click map_picture:0.9 0.2", "wait", "expect acc[b 0, n 7, m 3] after block 2 of k",
                  "key PageUp", "wait", "expect Map of y: b across", "key PageUp", "wait", "expect r[b 0, n 7]", "expect_not Map of")
        red = [(b, k) for b in range(BATCH) for k in range(3) if (pixel := middle(self.picture("map.png"), (BATCH, 3), b, k))[0] > pixel[2] + 60]
        self.assertEqual(red, [(1, 1)])

    def test_history_of_a_state(self):
        path = self.wrong()
        _, acc = computed()
        values = [f"{value:.9g}" for value in acc[(slice(None), *FIRST)] + np.float32([0, 2, 2])]
        self.play([path], "wait", "expect History of acc[b 1, n 7, m 3]", "expect first wrong after block 1",
                  *[f"expect block {i}: {value} expected " for i, value in enumerate(values)],
                  "click history_block_0:0.5 0.5", "wait", "expect acc[b 1, n 7, m 3] after block 0 of k", "expect finding\nmatch",
                  # y takes the state after the last block.
                  "click stage_y:0.5 0.5", "wait", "expect y[b 1, n 7, m 3]", "expect History of acc[b 1, n 7, m 3]",
                  "click history_block_2:0.5 0.5", "wait", "expect acc[b 1, n 7, m 3] after block 2 of k", "click stage_r:0.5 0.5",
                  "wait", "key Q", "wait", "expect_not History of", "key Q", "wait", "expect History of")

    def test_worst_elements(self):
        inputs, acc = computed()
        stages = stages_of(acc)
        for i, place in enumerate([(0, 3, 1), (1, 5, 2), (0, 9, 9)]):
            stages["y"][place] += np.float32(4 - i)
        path = write(self.folder / "run.h5", stages, inputs)
        order = ["y:" + ",".join(re.findall(r"\d+", place)) for place, *_ in worst_lines(path)]
        self.assertEqual(len(order), 3)
        at = [f"expect y[b {b}, n {n}, m {m}]" for b, n, m in (re.findall(r"\d+", line) for line in order)]
        self.play([path], "wait", at[0], *[f"expect worst {line} " for line in order], "key N", "wait", at[1],
                  "expect worst element 2 of 3 in y", "key N", "wait", at[2], "key N", "wait", at[0], "key Shift+N", "wait", at[2],
                  "click worst_1:0.5 0.5", "wait", at[1])

    def test_marks(self):
        """NaN, what nobody wrote, and what the kernel may leave out."""
        inputs, acc = computed()
        stages = stages_of(acc)
        unwritten = small_dump.UNWRITTEN
        stages["y"][0, 2, 1], stages["y"][0, 3, 1], stages["y"][0, 0, 9] = np.nan, unwritten, unwritten
        path = write(self.folder / "run.h5", stages, inputs)
        places = (("0,0,9", "left out, as the kernel may"), ("0,2,1", "nan"), ("0,3,1", "unwritten\ndumped\nno thread wrote it"))
        self.play([path], "wait", "expect NaN\n", "expect unwritten\n", "expect left out\n", "expect worst y:0,3,1 unwritten",
                  *[line for place, says in places for line in ("key J", "frames 4", f"type y:{place}", "frames 3", "key Enter", "wait",
                                                                f"expect finding\n{says}")])

    def test_pointer(self):
        path = self.wrong()
        _, acc = computed()
        self.play([path], "wait", "key F", "wait", "move heatmap:0.05 0.04", "wait", "expect Element under the pointer",
                  "expect acc[b 1, n 0, m 0] after block 1 of k", f"expect dumped\n{acc[1, 1, 0, 0]:.9g}\n", "expect acc:1,0,0,1",
                  "click heatmap:0.95 0.04", "move header:0.9 0.9", "wait", "expect acc[b 1, n 0, m 9] after block 1 of k",
                  "click heatmap:0.05 0.04", "key Z", "wait", f"expect {acc[1, 1, 0, 0]:.4g}\n")

    def test_places_by_text(self):
        path = self.wrong()
        self.play([path], "wait", "expect y[b 1, n 2, m 0]", "key Ctrl+C", "frames 3", "expect_clipboard y:1,2,0", f"expect_clipboard tile-diff {path} --explain-tolerance y,1,2,0",
                  "key Ctrl+Shift+C", "frames 3", f"expect_clipboard tile-view {path} --goto y:1,2,0", options=["--goto", "y:1,2,0"])
        for place, says in (("z:0", "name one of acc, r, y"), ("acc:0,0,0", "acc is [2, 12, 10] after each of 3 blocks"),
                            ("acc:0,0,0,3", "an index of each axis"), ("y:a,b,c", "no whole numbers")):
            self.assert_fails(self.start(path, "--goto", place, "--screenshot", self.folder / "out.png"), says)

    def test_keys_of_attention_say_so(self):
        path = self.wrong()
        says = "that is of attention, which this kernel is not"
        self.play([path], "wait", *[line for key in ("T", "H", "D", "Enter", "B", "V")
                                    for line in (f"key {key}", "frames 3", f"expect {says}", "key Escape", "frames 3", f"expect_not {says}")])

    def test_every_key(self):
        path = self.wrong()
        keys = ["1", "2", "3", "4", "5", "6", "7", "L", "L", "P", "A", "K", "K", "G", "+", "-", "C", "Z", "F", "Shift+Left", "Shift+Right",
                "Ctrl+Left", "Ctrl+Up", "V", "Tab", "S", "W", "M", "Space", "Backspace"]
        self.play([path], "wait", *[line for key in keys for line in (f"key {key}", "frames 2")], "resize 700 420", "wait",
                  "key PageDown", "wait", "scroll heatmap:0.5 0.5 -30", "scroll heatmap:0.5 0.5 30",
                  "drag heatmap:0.5 0.5 heatmap:0.2 0.2", "wait", "resize 1600 1000", "wait", "key Shift+E", "wait", "expect wrote")

    def test_numbers_and_vectors(self):
        inputs = dict(x=np.float32([1, 2, 3, 4]))
        text = "axes n: rows by 2\ninput x[n]\nstage t over n = t + sum(n: x)\nstage u = t * 2.0\nstage v[n] = x * u\noutput v"
        stages = dict(t=np.float32([3, 10]), u=np.float32(20), v=np.float32([20, 40, 60, 81]))
        path = write(self.folder / "run.h5", stages, inputs, text, step=None)
        self.play([path], "wait", "expect v[n 3]", "expect n down", "expect outside", "key PageUp", "wait", "expect Element\nu\n",
                  "expect finding\nmatch", "key PageUp", "wait", "expect t after block 1 of n", "expect blocks of n across",
                  "key Left", "wait", "expect t after block 0 of n", "expect dumped\n3\n")


    def test_more_elements_than_can_be_shown(self):
        text = "axes n: rows by 256; m: cols\ninput x[n]; z[m]\nstage big[n, m] = x * z\nstage y[n] = x * 2.0\noutput y"
        x = np.ones(2**13 + 1, np.float32)
        path = write(self.folder / "run.h5", dict(y=2 * x), dict(x=x, z=np.ones(2**13, np.float32)), text, step=None)
        self.play([path], "wait", "expect y right", "key PageUp", "wait", "expect big has more elements than can be shown", "key Right", "wait",
                  "key N", "wait", "key PageDown", "wait", "expect finding\nmatch")


class Files(TileViewCase):
    write_wrong = Declared.wrong

    def test_from_attention_and_back(self):
        path, other = self.write_wrong(), SAMPLES / "acc_not_rescaled.h5"
        self.play([other], "wait", f"drop {path}", "wait", f"expect {verdict(path)}", "expect_not heads 1 (kv 1)", "key O", "frames 4",
                  f"expect {path}\n", "key O", f"drop {other}", "wait", f"expect {verdict(other)}", "expect_not Worst elements",
                  f"drop {SAMPLES / 'ring_transfer_incomplete'}", "wait", "expect Map of the run", f"drop {path}", "wait",
                  f"expect {verdict(path)}", "expect_not Map of the run")

    def test_from_the_list_of_files(self):
        path = self.write_wrong()
        self.play([], "key Ctrl+O", "frames 4", "expect run.h5", "type run.h5", "frames 3", "key Enter", "wait",
                  f"expect {verdict(path)}")

    def test_written_anew(self):
        inputs, acc = computed()
        right, wrong = write(self.folder / "right.h5", stages_of(acc), inputs), self.write_wrong("wrong.h5")
        self.watched(right, lambda path: os.replace(wrong, path), "expect match", "await acc guilty", "wait",
                     "expect acc[b 1, n 7, m 3] after block 1 of k")

    def test_removed(self):
        inputs, acc = computed()
        right = write(self.folder / "right.h5", stages_of(acc), inputs)
        self.watched(right, os.remove, "await the file is gone", "expect before the file was removed: match", "key PageDown", "wait",
                     "expect r[b 0, n 0]")

    def test_what_is_no_valid_one_is_refused(self):
        inputs, acc = computed()
        path = self.folder / "run.h5"
        small_program.write(path, inputs, {"y": acc[:, :, :5]}, TEXT, {"step": STEP})
        line = subprocess.run([TILE_DIFF, path], capture_output=True, text=True).stderr.removeprefix("tile-diff: ").strip()
        run = self.start(path, "--screenshot", self.folder / "out.png")
        self.assert_fails(run)
        self.assertEqual(run.stderr.removeprefix("tile-view: ").strip(), line)
        other = SAMPLES / "acc_not_rescaled.h5"
        self.play([other], "wait", f"drop {path}", "wait", f"expect {line}", f"expect {verdict(other)}", "expect acc,0,0,0,0,1 of batch")


class Mistakes(TileViewCase):
    searches_causes = True

    def test_what_explains_it(self):
        inputs, stages = small_program.computed()
        numbers = (inputs["w"].astype(np.uint32) << 16).view(np.float32)
        acc = inputs["a"].astype(np.float32)[:, 64:] @ numbers[:, 64:].T
        stages["acc"][2] = acc
        stages["y"] = (acc * inputs["c"]).astype(np.float16)
        path = self.folder / "run.h5"
        small_program.write(path, inputs, stages)
        said = subprocess.run([TILE_DIFF, path], capture_output=True, text=True, timeout=120).stdout
        # Of several the first.
        instead, says, look_at, share = re.search(r"(?:instead|one of these): (.*)\n  (it .*)\n  (look at: .*)\n  (explains .*)\n", said).groups()
        self.play([path], "wait", f"expect : {says}", f"expect {look_at}", f"expect {share}",
                  "expect declared: acc = acc + sum(k: a * w) in tensor_core_f32", f"expect {instead}", "expect What explains acc")


if __name__ == "__main__":
    main()
