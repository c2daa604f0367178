#!/usr/bin/env python3
"""Times tile-view on a dump with S and P of 16384 x 16384: the first picture, frames while it is moved and zoomed, memory.

The window is driven by a script on a display in memory, drawn by the software renderer. Frames are timed twice: while the
recording is judged, and after that. The first picture is timed twice, too: cold, with nothing of the recording in memory, and
warm. Beside each figure stands its limit or goal, with the reason; the exit status says nothing of it.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import memory_display  # noqa: E402

MOVES = ["scroll heatmap:0.5 0.5 2", "scroll heatmap:0.3 0.7 3", "drag heatmap:0.7 0.7 heatmap:0.2 0.3",
         "drag heatmap:0.2 0.3 heatmap:0.6 0.6", "scroll heatmap:0.6 0.4 8", "drag heatmap:0.6 0.5 heatmap:0.3 0.5",
         "scroll heatmap:0.5 0.5 -6", "drag heatmap:0.4 0.4 heatmap:0.5 0.6", "scroll heatmap:0.5 0.5 -12", "key F"]
FIRST_PICTURE = "await over budget, log"
FRAME_MS = 33
FIRST_PICTURE_GOAL = "goal: 1 s, the longest wait that does not break a train of thought"
FRAME_LIMIT = f"{FRAME_MS} ms: a frame at 30 Hz"
MEMORY_GOAL = "goal: 600, under a third of the recording"


def drop_from_memory(dump):
    descriptor = os.open(dump, os.O_RDONLY)
    try:
        # Pages that were not written yet would stay.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def run(arguments, directory, dump, lines):
    script = f"{directory}/script.txt"
    timing = f"{directory}/timing.json"
    pathlib.Path(script).write_text("\n".join(lines) + "\n")
    with memory_display.MemoryDisplay("1920x1200") as display:
        subprocess.run([arguments.bin / "tile-view", dump, "--size", "1600x1000", "--script", script, "--timing", timing],
                       check=True, timeout=600,
                       env={**os.environ, "DISPLAY": display.name, "LIBGL_ALWAYS_SOFTWARE": "1"})
    return json.loads(pathlib.Path(timing).read_text())


def print_first_picture(name, times):
    print(f"first picture, {name:<6}{times['first_picture_s']:5.2f} s   ({FIRST_PICTURE_GOAL})")


def print_frames(name, times):
    print(f"{name:<16}{times['frames']:4} frames   p50 {times['p50_ms']:5.1f} ms   p95 {times['p95_ms']:5.1f} ms "
          f"({FRAME_LIMIT})   max {times['max_ms']:5.1f} ms   {times['late']} beyond "
          f"{FRAME_MS} ms   {times['peak_mib']:4.0f} MiB resident ({MEMORY_GOAL})")


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
        print(f"{len(os.sched_getaffinity(0))} cores, S and P of {pathlib.Path(dump).stat().st_size / 2**30:.2f} GiB")
        drop_from_memory(dump)
        print_first_picture("cold", run(arguments, directory, dump, [FIRST_PICTURE]))
        print_first_picture("warm", run(arguments, directory, dump, [FIRST_PICTURE]))
        print_frames("being judged", run(arguments, directory, dump, [FIRST_PICTURE, "time", *MOVES, *MOVES, *MOVES]))
        print_frames("judged", run(arguments, directory, dump, ["wait", "time", *MOVES, *MOVES]))


if __name__ == "__main__":
    main()
