#!/usr/bin/env python3
"""Writes what the targets of libFuzzer begin with.

usage: seeds.py TARGET FOLDER
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import small_dump  # noqa: E402
import small_program  # noqa: E402

SELECT = ["", "head=1:stage=s,p", "q_block=0-3:kv_tile=2", "block=0/1/3", "batch=0,2:stage=rescale", "block=0/0/0,1/2/3:stage=m"]
LATENCY_CSV = ["implementation,batch,latency_us\nwmma,1,2.5\nwmma,1,2.25\n", "# unit: us\n# device: GPU\nbatch,heads,latency_ms,sm_clock_mhz\n1,8,1e-3,1980\n",
               "a,latency_s\n\"x,y\",1\n"]
PROGRAM = ["axes n: rows by 8; k: depth\ninput a[n, k / 2]: f16 scale s[n]\nstage y[n] over k: bf16 = y + sum(k: a * s) in fma_f16 from -inf\noutput y\n",
           "axes i: n; j: n\ninput x[i]\nstage y[i] = max(j: exp(x - x[j])) where i % 2 <= 1 and not i == 3 else -1.0e-3\noutput y\n"]
# Which sink, then places in words, lengths and what is put there.
SINK_IMAGE = [bytes([0]), bytes([1, 0, 0, 4, 1, 2, 3, 4]), bytes([2, 0, 1, 8, *range(8)]), bytes([3, 40, 0, 2, 0xff, 0xff])]
VIEWER_SCRIPT = ["# one\nwait\nkey Ctrl+C\nframes 3\n", "click map:0.5 0.5\ndrag 1 2 3 4\nscroll heatmap:0 1 -2\n",
                 "resize 640 400\nexpect diverged\\nacc\nscreenshot a.png\npicture map b.png\ndrop a.h5 b.h5\n"]
VIEWER_SETTINGS = [json.dumps(settings) for settings in (
    {"recent": ["a.h5"], "width": 1600, "height": 1000, "tile_grid": True, "history": False, "warp_rows": 16},
    {"shares": {"left": 0.25, "map": 0.5}, "lane_columns": 8},
    {"scales": {"budget": {"kind": 1, "colours": 2, "clip": 0.1, "automatic": False, "low": -1.5, "high": 2}}})]
TEXTS = {"program": PROGRAM, "select": SELECT, "latency_csv": LATENCY_CSV, "sink_image": SINK_IMAGE, "viewer_script": VIEWER_SCRIPT,
         "viewer_settings": VIEWER_SETTINGS}


def seeds_of(target):
    """Name and how to write it."""
    if target == "reader":
        for only in (small_dump.STAGES, ["s", "o", "lse"], ["m", "l"]):
            yield "-".join(only) + ".h5", lambda path, only=only: small_dump.write(path, only=only)
        yield "program.h5", lambda path: small_program.write(path, *small_program.computed())
    for number, text in enumerate(TEXTS.get(target, [])):
        content = text if isinstance(text, bytes) else text.encode()
        yield str(number), lambda path, content=content: path.write_bytes(content)


def main():
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in seeds_of(target):
        write(folder / name)


if __name__ == "__main__":
    main()
