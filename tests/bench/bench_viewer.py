#!/usr/bin/env python3
"""Times tile-view on a dump with S and P of 16384 x 16384: the first picture, frames while it is moved and zoomed, memory.

The window is driven by a script on a display in memory, drawn by the software renderer. Frames are timed twice: while the
recording is judged, and after that.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MOVES = ["scroll heatmap:0.5 0.5 2", "scroll heatmap:0.3 0.7 3", "drag heatmap:0.7 0.7 heatmap:0.2 0.3",
         "drag heatmap:0.2 0.3 heatmap:0.6 0.6", "scroll heatmap:0.6 0.4 8", "drag heatmap:0.6 0.5 heatmap:0.3 0.5",
         "scroll heatmap:0.5 0.5 -6", "drag heatmap:0.4 0.4 heatmap:0.5 0.6", "scroll heatmap:0.5 0.5 -12", "key F"]


def measure(arguments, directory, dump, name, lines):
    script = f"{directory}/{name}.txt"
    timing = f"{directory}/{name}.json"
    pathlib.Path(script).write_text("\n".join(lines) + "\n")
    subprocess.run(["xvfb-run", "-a", "-s", "-screen 0 1920x1200x24", arguments.bin / "tile-view", dump, "--size",
                    "1600x1000", "--script", script, "--timing", timing], check=True, timeout=600,
                   env={**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1"})
    times = json.loads(pathlib.Path(timing).read_text())
    print(f"{name:<16}{times['frames']:7} frames   p50 {times['p50_ms']:6.1f} ms   p95 {times['p95_ms']:6.1f} ms   "
          f"max {times['max_ms']:6.1f} ms   first picture {times['first_picture_s']:5.2f} s   "
          f"{times['peak_mib']:5.0f} MiB resident")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--seqlen", type=int, default=16384)
    parser.add_argument("--dump", help="this recording in place of a new one")
    parser.add_argument("--dir", help="where the recording goes; 2.1 GiB are needed")
    arguments = parser.parse_args()
    if not (arguments.bin / "tile-view").exists():
        sys.exit("bench_viewer: tile-view was not built; it needs Dear ImGui, GLFW and OpenGL")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        dump = arguments.dump or f"{directory}/large.h5"
        if not arguments.dump:
            subprocess.run([arguments.bin / "make_large_dump", dump, str(arguments.seqlen), "p"], check=True)
        measure(arguments, directory, dump, "being judged", ["await over budget, log", "time", *MOVES])
        measure(arguments, directory, dump, "judged", ["wait", "time", *MOVES, *MOVES])


if __name__ == "__main__":
    main()
