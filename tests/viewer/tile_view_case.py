"""What the tests of tile-view share: a window on a display in memory, scripts for it, and pictures of it.

Scripts that import this take the paths of tile-view, tile-diff and the samples as arguments. Exit code 77: there is no
Xvfb.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np
from PIL import Image

TILE_VIEW, TILE_DIFF, SAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "cli"), str(TESTS / "support")]
import memory_display  # noqa: E402

FAILED = 2
SCREEN = "1920x1200"


def against(others):
    return [word for other in others for word in ("--against", other)]


def judged(path, *others, options=()):
    """The report of tile-diff as JSON."""
    run = subprocess.run([TILE_DIFF, path, *against(others), *options, "--json", "-"], capture_output=True, text=True, timeout=120)
    return json.loads(run.stdout)


def verdict(path, *others):
    run = subprocess.run([TILE_DIFF, path, *against(others), "--no-causes"], capture_output=True, text=True, timeout=120)
    return run.stdout.splitlines()[-1]


def refusal(path):
    """The line with which tile-diff refuses a file, without its own name."""
    run = subprocess.run([TILE_DIFF, path], capture_output=True, text=True, timeout=120)
    return run.stderr.removeprefix("tile-diff: ").strip()


def read_png(path):
    """Rows of RGB pixels."""
    with Image.open(path) as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGBA"), path
        return np.asarray(picture)[..., :3].astype(int)


def middle(picture, shape, row, col):
    """The pixel in the middle of one element of a matrix that fills the picture."""
    height, width = picture.shape[0] / shape[0], picture.shape[1] / shape[1]
    return picture[int((row + 0.5) * height), int((col + 0.5) * width)]


@functools.cache
def display(screen):
    """One server for all tests of a script that need a screen of this size."""
    server = memory_display.MemoryDisplay(screen)
    unittest.addModuleCleanup(server.close)
    return server


def slow_outputs(path):
    """Outputs alone, wrong in every row, of a call that takes seconds to judge."""
    batch, heads, length, dim = 1, 4, 2048, 64
    given = np.random.default_rng(3).standard_normal((3, batch, heads, length, dim)).astype(np.float16)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="tilescope", format_version=1)
        file.create_group("problem").attrs.update(batch=batch, heads=heads, heads_kv=heads, seqlen_q=length,
                                                  seqlen_kv=length, head_dim=dim, block_m=64, block_n=64,
                                                  sm_scale=np.float32(0.125))
        for name, value in zip("qkv", given):
            file[f"inputs/{name}"] = value
        file.create_dataset("outputs/o", data=given[0], chunks=(1, 1, 64, dim))
        file.attrs["complete"] = 1
    return path


class TileViewCase(unittest.TestCase):
    maxDiff = None
    searches_causes = False  # which takes longer than everything else

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def environment(self, screen=SCREEN):
        """With no screen there is no display."""
        environment = {**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1", "HOME": str(self.folder)}
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CONFIG_HOME"):
            environment.pop(name, None)
        return environment if screen is None else {**environment, "DISPLAY": display(screen).name}

    def command(self, *arguments):
        return [TILE_VIEW, *([] if self.searches_causes else ["--no-causes"]), *map(str, arguments)]

    def start(self, *arguments, screen=SCREEN, **options):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=300,
                              env=self.environment(screen), cwd=self.folder, **options)

    def script(self, lines):
        path = self.folder / "script.txt"
        path.write_text("".join(line.replace("\n", "\\n") + "\n" for line in lines))
        return path

    def play(self, recordings, *lines, options=(), screen=SCREEN):
        """The script must come to its end: every expectation in it holds."""
        run = self.start(*recordings, "--script", self.script(lines), *options, screen=screen)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def watched(self, recording, change, *lines, first=()):
        """Changes an opened file after its first picture, of which the first lines are, and awaits what the others ask for."""
        path = self.folder / "run.h5"
        shutil.copy(recording, path)
        marker = self.folder / "first.png"
        script = self.script(["wait", *first, f"screenshot {marker}", *lines])
        process = subprocess.Popen(self.command(path, "--script", script), env=self.environment(), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not marker.exists() and process.poll() is None:
            time.sleep(0.05)
        change(path)
        _, complaint = process.communicate(timeout=300)
        self.assertEqual((process.returncode, complaint), (0, ""))

    def picture(self, name):
        return read_png(self.folder / name)

    def assert_fails(self, run, *words):
        self.assertEqual(run.returncode, FAILED, (run.stdout, run.stderr))
        self.assertTrue(run.stderr.startswith("tile-view: "), run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)


def main():
    if not memory_display.is_installed():
        print("Xvfb is not installed; ./dev setup installs it")
        sys.exit(77)
    del sys.argv[1:4]
    unittest.main()
