#!/usr/bin/env python3
"""Strangers: attention kernels with mistakes that nobody listed, and recordings of what they computed.

usage: python3 tests/bench/strangers --count 200 --seed 1 --out DIR [--healthy | --pairs | --noise | --misdeclared]
                                     [--recorded all|no-operands|outputs|random] [--second] [--backward]

Writes NUMBER.h5, a recording as dump/FORMAT.md has it, and NUMBER.json, what is true of it, for each kernel; with --second
also NUMBER_second.h5, the same kernel on another seed and shape. The same arguments write the same files.

How a mistake is drawn. `forward.c` and `backward.c` are healthy kernels in which SITE(name, expression) marks where a mistake
may be. `sites.py` says what is at a site; `grammar.py` rewrites its expression by a production and puts a guard around the new
one; the text is compiled and run. There is no table of causes, and nothing is shared with the programs that look for causes:
they may read the recording, not the truth beside it.

How it is known to be one. `effect.py` runs the healthy kernel on the same inputs. The first recorded stage in which the two
differ is the one that the mistake changes, since all before it have the same bits. The difference must be clearly beyond
rounding, in more elements than one would list, and not one that the declarations allow. Draws without such an effect are
dropped and counted.

The truth, NUMBER.json. `mistakes`: of each its family, place in code, site, production, scope, guard, the lines of the kernel's
text that differ, whether the guard holds always or sometimes on this shape (`second_holds`: on the other), the stage that it
changes first and how many elements of it. `stage`: the first of these. `recorded`: the
stages in the recording. `problem`, and `second` and `second_problem` of the other shape. `misdeclared`: what is true and what the
recording says. One mistake of noise is of kind `noise`: its stage is wrong, and there is nothing to name.
"""

import argparse
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from strangers import record, writing  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="strangers", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, metavar="N", help="recordings to write")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--recorded", choices=record.RECORDED, default="all", help="which stages are recorded")
    parser.add_argument("--second", action="store_true", help="record each kernel on another seed and shape, too")
    parser.add_argument("--backward", action="store_true", help="the backward pass in place of the forward one")
    writing.add_kinds(parser)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    dropped = collections.Counter()
    written = sum(1 for _ in writing.write_strangers(options, dropped))
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    print(f"{options.out}: {written} recordings; dropped: {reasons or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
