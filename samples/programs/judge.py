#!/usr/bin/env python3
"""Holds kernels that record.py ran against their programs.

usage: judge.py [--save FOLDER] ARCHIVE...

Prints a report for each, or writes each to a file in FOLDER, for tile-diff. Exit codes as tile-diff has them: 0 all match, 1 one diverges,
2 one cannot be judged.
"""

import argparse
import os
import pathlib
import sys

import numpy as np

import tilescope

# Bits of bfloat16 and of fp8 have no dtype in NumPy: they are given as the numbers that they stand for, in float32.
NUMBERS = {
    "f32": lambda bits: bits.view(np.float32),
    "f16": lambda bits: bits.view(np.float16),
    "bf16": lambda bits: (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32),
    "e4m3": lambda bits: bits,
    "e2m1": lambda bits: bits,
    "ue8m0": lambda bits: bits,
}


def load(path):
    """The program, its inputs, what was stored, and what uint8 arrays hold codes of."""
    archive = np.load(path)
    program = tilescope.Program(str(archive["program"]))
    arrays, dtypes = {}, {}
    for key in archive.files:
        if key != "program":
            name, dtype = key.split(":")
            arrays[name] = NUMBERS[dtype](archive[key])
            dtypes[name] = dtype
    inputs = {name: array for name, array in arrays.items() if name in program.inputs}
    stored = {name: array for name, array in arrays.items() if name in program.stages}
    return program, inputs, stored, dtypes


def judge(path):
    program, inputs, stored, dtypes = load(path)
    return program.judge(inputs, stored, dtypes=dtypes)


def save(path, folder):
    program, inputs, stored, dtypes = load(path)
    os.makedirs(folder, exist_ok=True)
    name = pathlib.Path(path).stem
    program.save(pathlib.Path(folder, name + ".h5"), inputs, stored, dtypes=dtypes, kernel=name)


def main():
    parser = argparse.ArgumentParser(usage="judge.py [--save FOLDER] ARCHIVE...")
    parser.add_argument("--save", metavar="FOLDER")
    parser.add_argument("archives", nargs="+", metavar="ARCHIVE")
    arguments = parser.parse_args()
    code = 0
    for path in arguments.archives:
        try:
            if arguments.save:
                save(path, arguments.save)
                continue
            report = judge(path)
        except (tilescope.Error, OSError, KeyError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            code = 2
            continue
        print(f"{path}\n{report}")
        code = max(code, 0 if report.matches else 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
