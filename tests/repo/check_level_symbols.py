#!/usr/bin/env python3
"""Objects compiled for an instruction set must not define what the linker could take for other code.

usage: check_level_symbols.py OBJECT[;OBJECT...]...

Inline functions are weak symbols: of several objects that define one, the linker keeps any. One that was compiled for
AVX-512 would then run on processors that have none. Names of the renamed Eigen are of that object alone.
"""

import re
import subprocess
import sys

OF_THIS_LEVEL = re.compile(r"\bEigen_x86_64_v\d\b|\btilescope::x86_64_v\d_(?:vector|element)_kernels\(\)|^DW\.ref\.")


def shared_symbols(path):
    lines = subprocess.run(["nm", "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        _, kind, name = line.split(" ", 2)
        if kind in "WVuTD" and not OF_THIS_LEVEL.search(name):
            yield name


def main(paths):
    # As CMake writes the objects of a target.
    paths = [path for argument in paths for path in argument.split(";")]
    if not paths:
        sys.exit("check_level_symbols: no object was given")
    bad = [f"{path}: {name}" for path in paths for name in shared_symbols(path)]
    if bad:
        sys.exit("symbols that other objects may define as well:\n" + "\n".join(bad))
    print(f"{len(paths)} objects share no symbols")


if __name__ == "__main__":
    main(sys.argv[1:])
