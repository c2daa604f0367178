#!/usr/bin/env python3
"""Times tile-view on recordings of S and P, of one head of 16384 x 16384 and of 64 heads of 2048 x 2048: the first picture,
frames while it is moved and zoomed in windows of two sizes, memory, and how much the window keeps the judge.

The window is driven by a script on a display in memory, drawn by the software renderer. Frames are timed twice: while the
recording is judged, and after that; of all that they take but the drawing of pixels, layout and textures, apart from it, and of that what the frames' thread had of the
processor, which the judge uses as well.
The heatmap's picture is made beside the frames: from when it is asked for until a frame shows it, p95. The
first picture is timed twice, too: cold, with nothing of the recording in memory, and warm. Beside each figure stands its goal;
the exit status says nothing of it.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import memory_display  # noqa: E402

MOVES = ["scroll heatmap:0.5 0.5 2", "scroll heatmap:0.3 0.7 3", "drag heatmap:0.7 0.7 heatmap:0.2 0.3",
         "drag heatmap:0.2 0.3 heatmap:0.6 0.6", "scroll heatmap:0.6 0.4 8", "drag heatmap:0.6 0.5 heatmap:0.3 0.5",
         "scroll heatmap:0.5 0.5 -6", "drag heatmap:0.4 0.4 heatmap:0.5 0.6", "scroll heatmap:0.5 0.5 -12", "key F"]
RECORDINGS = [("one head", 16384, 1), ("64 heads", 2048, 64)]
FIRST_PICTURE = "await over budget, log"
FRAME_MS = 33
KEY_MS = 150
LAYOUT_MS = 8
FIRST_PICTURE_GOAL = "goal: 0.5 s, cold too"
FRAME_LIMIT = f"goal: {FRAME_MS} ms, a frame at 30 Hz"
KEY_LIMIT = f"goal: {KEY_MS} ms, an answer that seems to come at once"
LAYOUT_LIMIT = f"goal: {LAYOUT_MS} ms"
MEMORY_GOAL = "goal: 600, under a third of the recording"
JUDGING_GOAL = "goal: 1.15"
WINDOW = "1600x1000"
LARGE_WINDOW = "3840x2160"


def drop_from_memory(dump):
    descriptor = os.open(dump, os.O_RDONLY)
    try:
        # Pages that were not written yet would stay.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def run(arguments, directory, dump, lines, size=WINDOW, timed=True):
    """What --timing says; where it is not asked for, no frame is drawn while the script waits."""
    script = f"{directory}/script.txt"
    timing = f"{directory}/timing.json"
    pathlib.Path(script).write_text("\n".join(lines) + "\n")
    with memory_display.MemoryDisplay(LARGE_WINDOW) as display:
        subprocess.run([arguments.bin / "tile-view", dump, "--size", size, "--script", script, *(["--timing", timing] if timed else [])],
                       check=True, timeout=600,
                       env={**os.environ, "DISPLAY": display.name, "LIBGL_ALWAYS_SOFTWARE": "1"})
    return json.loads(pathlib.Path(timing).read_text()) if timed else None


def print_first_picture(name, times):
    print(f"first picture, {name:<6}{times['first_picture_s']:5.2f} s   ({FIRST_PICTURE_GOAL})")


def print_frames(name, times, limit=FRAME_LIMIT):
    print(f"{name:<24}{times['frames']:4} frames   p50 {times['p50_ms']:5.1f} ms   p95 {times['p95_ms']:5.1f} ms "
          f"({limit})   max {times['max_ms']:5.1f} ms   all but pixels, p95 {times['layout_p95_ms']:4.1f} ms ({LAYOUT_LIMIT}, "
          f"{times['layout_cpu_p95_ms']:.1f} on the processor)   "
          f"heatmap after {times['picture_p95_ms']:.0f} ms   "
          f"{times['peak_mib']:4.0f} MiB resident ({MEMORY_GOAL})")


def measure_frames(arguments, directory, dump, size, limit):
    at = size.replace("x", " x ")
    print_frames(f"{at}, being judged", run(arguments, directory, dump, [FIRST_PICTURE, "time", *MOVES, *MOVES, *MOVES], size), limit)
    print_frames(f"{at}, judged", run(arguments, directory, dump, ["wait", "time", *MOVES, *MOVES], size), limit)


def judged_untouched(arguments, directory, dump, seconds):
    """Until the report is there in a window that nobody touches: it is closed after that time."""
    timing = f"{directory}/timing.json"
    with memory_display.MemoryDisplay(LARGE_WINDOW) as display:
        window = subprocess.Popen([arguments.bin / "tile-view", dump, "--size", WINDOW, "--timing", timing],
                                  env={**os.environ, "DISPLAY": display.name, "LIBGL_ALWAYS_SOFTWARE": "1"})
        time.sleep(seconds)
        window.terminate()
        window.wait()
    return json.loads(pathlib.Path(timing).read_text())["judged_s"]


def measure_judging(arguments, directory, dump):
    """Until the report is there: without a frame drawn meanwhile, in a window that nobody touches, and moved all the time."""
    begin = time.monotonic()
    run(arguments, directory, dump, ["wait"], timed=False)
    undrawn = time.monotonic() - begin
    untouched = judged_untouched(arguments, directory, dump, 3 * undrawn)
    moved = run(arguments, directory, dump, [FIRST_PICTURE, *MOVES * 6, "wait"])["judged_s"]
    print(f"judged after {undrawn:.2f} s with nothing drawn, untouched {untouched / undrawn:.2f} times that ({JUDGING_GOAL}), "
          f"moved all the time {moved / undrawn:.2f} times")


def measure(arguments, directory, name, dump):
    print(f"{name}, S and P of {pathlib.Path(dump).stat().st_size / 2**30:.2f} GiB")
    drop_from_memory(dump)
    # The legend is there before the picture, which is made beside the frames.
    print_first_picture("cold", run(arguments, directory, dump, [FIRST_PICTURE, "frames 30"]))
    print_first_picture("warm", run(arguments, directory, dump, [FIRST_PICTURE, "frames 30"]))
    measure_frames(arguments, directory, dump, WINDOW, FRAME_LIMIT)
    measure_frames(arguments, directory, dump, LARGE_WINDOW, KEY_LIMIT)
    measure_judging(arguments, directory, dump)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--dump", help="this recording alone, in place of new ones")
    parser.add_argument("--dir", help="where the recordings go; 2.1 GiB are needed")
    arguments = parser.parse_args()
    if not (arguments.bin / "tile-view").exists():
        sys.exit("bench_viewer: tile-view was not built; it needs Dear ImGui, GLFW and OpenGL")
    print(f"{len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        if arguments.dump:
            return measure(arguments, directory, arguments.dump, arguments.dump)
        for name, seqlen, heads in RECORDINGS:
            dump = f"{directory}/large.h5"
            subprocess.run([arguments.bin / "make_large_dump", dump, str(seqlen), "p", str(heads)], check=True)
            measure(arguments, directory, name, dump)


if __name__ == "__main__":
    main()
