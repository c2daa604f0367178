#!/usr/bin/env python3
"""Keys of keyboards with other layouts than the US one, pressed as a person presses them.

usage: keyboard_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import subprocess
import sys
import time

from tile_view_case import SCREEN, TileViewCase, display, main

import real_keys
import small_dump


class Keyboards(TileViewCase):
    def press(self, layout, *steps, last=()):
        """Presses keys and awaits a text after each of them, in one window; then the last lines must hold."""
        path = small_dump.write(self.folder / "run.h5")
        lines = ["wait", "listen"]
        markers = [self.folder / f"{i}.png" for i in range(len(steps))]
        for (_, text), marker in zip(steps, markers):
            lines += [f"picture status {marker}", f"await {text}"]
        lines += last
        keys = real_keys.RealKeys(display(SCREEN).name, layout)
        self.addCleanup(keys.close)
        process = subprocess.Popen(self.command(path, "--script", self.script(lines), "--goto", "s:0,1,17,20"),
                                   env=self.environment(), cwd=self.folder, stderr=subprocess.PIPE, text=True)
        for (chord, _), marker in zip(steps, markers):
            while not marker.exists() and process.poll() is None:
                time.sleep(0.02)
            keys.press(chord)
        _, complaint = process.communicate(timeout=300)
        self.assertEqual((process.returncode, complaint), (0, ""))

    # What zooming to the element shows: the value of s at 0,1,17,20 in full.
    def numbers(self):
        s = small_dump.stages(small_dump.inputs())["s"]
        return f"{s[0, 1, 17, 20]:.4g}"

    def test_us(self):
        self.press("us", ("1", "head 1   dumped"), ("Z", self.numbers()), ("Shift+/", "next bad row"),
                   ("Escape", "s,0,1,17,20 of batch"), ("]", "s,0,2,17,20 of batch"), ("J", "STAGE:BATCH,HEAD"),
                   ("Enter", "s,0,2,17,20 of batch"), ("Shift+W", "a warp every"), ("Control+C", "copied s,0,2,17,20 and"),
                   last=["expect_not STAGE:BATCH", "expect_not --goto"])

    def test_german(self):
        # QWERTZ: z is at the place of Y; ? is Shift and the key beside 0; [ and ] are AltGr and 8 and 9.
        self.press("de", ("1", "head 1   dumped"), ("Y", self.numbers()), ("Shift+-", "next bad row"),
                   ("Escape", "s,0,1,17,20 of batch"), ("AltGr+9", "s,0,2,17,20 of batch"),
                   ("AltGr+8", "s,0,1,17,20 of batch"),
                   # AltGr and 8 are not 8.
                   last=["expect head 1   dumped"])

    def test_keypad(self):
        # It stands for the arrows and Home, and with NumLock it types digits, which are commands of their own.
        here = "s,0,1,17,19 of batch"
        self.press("us", ("KP_6", "s,0,1,17,21 of batch"), ("KP_4", "s,0,1,17,20 of batch"), ("KP_4", here), ("KP_7", "nothing diverges"),
                   ("NumLock", here), ("KP_6", "head 1   relative error"), ("KP_4", "head 1   over budget"), ("NumLock", here),
                   ("KP_6", "s,0,1,17,20 of batch"), ("KP_Enter", "there is nothing to show"))

    def test_no_latin_letters(self):
        # As on a US keyboard, but for what the layout types: ? is Shift and 7.
        self.press("ru", ("1", "head 1   dumped"), ("Z", self.numbers()), ("Shift+7", "next bad row"),
                   ("Escape", "s,0,1,17,20 of batch"), ("]", "s,0,2,17,20 of batch"),
                   ("Control+C", "copied s,0,2,17,20 and"))


if __name__ == "__main__":
    if not real_keys.is_installed():
        print("libXtst is not installed; ./dev setup installs it")
        sys.exit(77)
    main()
