#!/usr/bin/env python3
"""Writes what the targets of libFuzzer begin with.

usage: seeds.py TARGET FOLDER
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
import small_dump  # noqa: E402

SELECT = ["", "head=1:stage=s,p", "q_block=0-3:kv_tile=2", "block=0/1/3", "batch=0,2:stage=rescale", "block=0/0/0,1/2/3:stage=m"]
LATENCY_CSV = ["implementation,batch,latency_us\nwmma,1,2.5\nwmma,1,2.25\n", "# unit: us\n# device: GPU\nbatch,heads,latency_ms,sm_clock_mhz\n1,8,1e-3,1980\n",
               "a,latency_s\n\"x,y\",1\n"]


def seeds_of(target):
    """Name and how to write it."""
    if target == "reader":
        for only in (small_dump.STAGES, ["s", "o", "lse"], ["m", "l"]):
            yield "-".join(only) + ".h5", lambda path, only=only: small_dump.write(path, only=only)
    for number, text in enumerate({"select": SELECT, "latency_csv": LATENCY_CSV}.get(target, [])):
        yield str(number), lambda path, text=text: path.write_text(text)


def main():
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in seeds_of(target):
        write(folder / name)


if __name__ == "__main__":
    main()
