#!/usr/bin/env python3
"""What tile-view refuses, and how it ends.

usage: refusals_test.py TILE_VIEW TILE_DIFF SAMPLES
"""

import signal
import subprocess
import time

from tile_view_case import SAMPLES, TileViewCase, main, slow_outputs


class Refusals(TileViewCase):
    def test_no_display(self):
        run = self.start(SAMPLES / "acc_not_rescaled.h5", screen=None)
        self.assert_fails(run, "no display", "xvfb-run", "--screenshot")
        self.assertEqual(run.stderr.count("\n"), 1)

    def test_script_with_an_unknown_event(self):
        self.assert_fails(self.start("--script", self.script(["wait", "dance"])), "script.txt:2", "dance")

    def test_expectation_that_fails(self):
        path = SAMPLES / "acc_not_rescaled.h5"
        self.assert_fails(self.start(path, "--script", self.script(["wait", "expect purple"])), "purple", "script.txt:2")

    def test_wrong_options(self):
        for arguments in (["--size", "big"], ["--scale", "9"], ["--scale", "nan"], ["--what"], ["a.h5", "b.h5", "c.h5"]):
            self.assert_fails(self.start(*arguments))

    def test_numbers_that_are_none(self):
        for step, limits in (("resize 0 0", "1 to 16384"), ("resize 1e9 9", "1 to 16384"), ("resize nan 5", "1 to 16384"),
                             ("frames 1e300", "1 to 1000000"), ("frames x", "1 to 1000000"), ("click map:inf 0", "-16384 to 16384"),
                             ("drag 1 2 3 4x", "-16384 to 16384"), ("scroll map:0.5 0.5 nan", "-16384 to 16384")):
            self.assert_fails(self.start("--script", self.script(["wait", step])), "script.txt:2", f"is no number from {limits}")


class Ending(TileViewCase):
    searches_causes = True

    def test_signals_close_it_and_keep_the_settings(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            settings = self.folder / f"{number}.json"
            marker = self.folder / f"{number}.png"
            script = self.script(["wait", f"screenshot {marker}", "frames 1000000"])
            process = subprocess.Popen(self.command(SAMPLES / "lse_base2.h5", "--script", script, "--settings", settings),
                                       env=self.environment(), cwd=self.folder)
            while not marker.exists() and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertIn("lse_base2.h5", settings.read_text())

    def test_quit_by_key(self):
        self.play([SAMPLES / "lse_base2.h5"], "wait", "key Ctrl+Q", "frames 1000000")

    def test_cancelled_judgement_can_be_asked_for_again(self):
        path = slow_outputs(self.folder / "run.h5")
        self.play([path], "await being judged", "key Escape", "await cancelled", "expect not judged", "key N", "frames 3",
                  "expect no row diverges", "key F5", "await diverged: o is the first wrong stage", "key D",
                  # From outputs alone the search takes long.
                  "await looking for the cause", "key Escape", "await the search was stopped; F5 starts it again", "wait",
                  options=["--threads", "1"])


if __name__ == "__main__":
    main()
