"""What the tests of tile-view share: a window on a display in memory, scripts for it, and pictures of it.

Scripts that import this take the paths of tile-view, tile-diff and the samples as arguments. Exit code 77: there is no
xvfb-run.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np

TILE_VIEW, TILE_DIFF, SAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
FAILED = 2


def judged(path, *others):
    """The report of tile-diff as JSON."""
    run = subprocess.run([TILE_DIFF, path, *others, "--json", "-"], capture_output=True, text=True, timeout=120)
    return json.loads(run.stdout)


def verdict(path, *others):
    run = subprocess.run([TILE_DIFF, path, *others], capture_output=True, text=True, timeout=120)
    return run.stdout.splitlines()[-1]


def refusal(path):
    """The line with which tile-diff refuses a file, without its own name."""
    run = subprocess.run([TILE_DIFF, path], capture_output=True, text=True, timeout=120)
    return run.stderr.removeprefix("tile-diff: ").strip()


def unfiltered(kind, raw, above):
    """A row of bytes before the filter that the PNG specification calls `kind`; pixels have 4 bytes."""
    if kind == 0:
        return raw
    if kind == 2:
        return raw + above
    if kind == 1:
        return np.cumsum(raw.reshape(-1, 4), axis=0, dtype=np.uint64).astype(np.uint8).ravel()
    row = np.zeros(len(raw) + 4, int)
    up = np.concatenate([np.zeros(4, int), above.astype(int)])
    for x in range(4, len(row)):
        left, over, corner = row[x - 4], up[x], up[x - 4]
        guess = left + over - corner
        distances = [(abs(guess - left), 0, left), (abs(guess - over), 1, over), (abs(guess - corner), 2, corner)]
        row[x] = (raw[x - 4] + ((left + over) // 2 if kind == 3 else min(distances)[2])) & 255
    return row[4:].astype(np.uint8)


def read_png(path):
    """Rows of RGB pixels of a PNG with 8-bit RGBA, not interlaced."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    assert (depth, colour, interlaced) == (8, 6, 0), path
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 4 * width)
    rows = np.zeros((height + 1, 4 * width), np.uint8)
    for y in range(height):
        rows[y + 1] = unfiltered(raw[y, 0], raw[y, 1:], rows[y])
    return rows[1:].reshape(height, width, 4)[..., :3].astype(int)


def middle(picture, shape, row, col):
    """The pixel in the middle of one element of a matrix that fills the picture."""
    height, width = picture.shape[0] / shape[0], picture.shape[1] / shape[1]
    return picture[int((row + 0.5) * height), int((col + 0.5) * width)]


class TileViewCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def environment(self):
        environment = {**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1", "HOME": str(self.folder)}
        environment.pop("WAYLAND_DISPLAY", None)
        environment.pop("XDG_CONFIG_HOME", None)
        return environment

    @staticmethod
    def command(*arguments, screen="1920x1200"):
        return ["xvfb-run", "-a", "-s", f"-screen 0 {screen}x24", TILE_VIEW, *map(str, arguments)]

    def start(self, *arguments, display=True, screen="1920x1200", **options):
        environment = self.environment()
        if not display:
            environment.pop("DISPLAY", None)
        command = self.command(*arguments, screen=screen) if display else [TILE_VIEW, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=self.folder,
                              **options)

    def script(self, lines):
        path = self.folder / "script.txt"
        path.write_text("".join(line.replace("\n", "\\n") + "\n" for line in lines))
        return path

    def play(self, recordings, *lines, options=(), screen="1920x1200"):
        """The script must come to its end: every expectation in it holds."""
        run = self.start(*recordings, "--script", self.script(lines), *options, screen=screen)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def picture(self, name):
        return read_png(self.folder / name)

    def assert_fails(self, run, *words):
        self.assertEqual(run.returncode, FAILED, (run.stdout, run.stderr))
        self.assertTrue(run.stderr.startswith("tile-view: "), run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)


def main():
    if shutil.which("xvfb-run") is None:
        print("xvfb-run is not installed; ./dev setup installs it")
        sys.exit(77)
    del sys.argv[1:4]
    unittest.main()
