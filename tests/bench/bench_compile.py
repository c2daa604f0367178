#!/usr/bin/env python3
"""Measures what hooks cost the compiler: CPU seconds of each bundled kernel with hooks and without.

usage: bench_compile.py [BUILD-DIR] [--rounds N]

Runs the commands of the build, both of a kernel in turn and into a scratch folder; of several rounds the least counts. The
plain build is the one that tile-run compares outputs with. Exit codes: 0 measured, 2 the folder compiles no kernels.
"""

import argparse
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOAL = 2.0  # the whole of a kernel with hooks may take twice as long to compile
PLAIN = ["tilescope_plain_kernels"]
# Kernels in fp8 are compiled for more architectures than others; a build for one has both alike.
HOOKED = ["tilescope_hooked_gpu_kernels", "tilescope_hooked_e4m3_kernels"]


def command_of(build, targets, kernel, output):
    """The compiler's command for a kernel, which is in one of the targets, without what ninja or a cache need, or None."""
    words = []
    for target in targets:
        wanted = f"kernels/CMakeFiles/{target}.dir/attention/{kernel}.cu.o"
        listed = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", wanted], capture_output=True, text=True)
        if listed.returncode == 0 and listed.stdout.strip():
            words = shlex.split(listed.stdout.strip().splitlines()[-1])
    compiler = next((i for i, word in enumerate(words) if word.endswith("nvcc")), None)
    if compiler is None:
        return None
    words = words[compiler:]
    if "-MF" in words:
        words[words.index("-MF") + 1] = f"{output}.d"
    words[words.index("-o") + 1] = str(output)
    return words


def seconds(command, build):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=build, check=True, env=os.environ | {"CCACHE_DISABLE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(prog="bench_compile", description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build", metavar="BUILD-DIR")
    parser.add_argument("--rounds", type=int, default=1, metavar="N")
    options = parser.parse_args()
    kernels = sorted(path.stem for path in (ROOT / "kernels/attention").glob("*.cu"))
    measured = 0
    with tempfile.TemporaryDirectory() as scratch:
        for kernel in kernels:
            output = pathlib.Path(scratch) / "kernel.o"
            commands = [command_of(options.build, targets, kernel, output) for targets in (PLAIN, HOOKED)]
            if None in commands:
                continue
            rounds = [[seconds(command, options.build) for command in commands] for _ in range(options.rounds)]
            plain, hooked = map(min, zip(*rounds))
            print(f"{kernel:8} without hooks {plain:6.1f} s   with hooks {hooked:6.1f} s   {hooked / plain:.2f} times (goal: {GOAL})",
                  flush=True)
            measured += 1
    if not measured:
        print(f"bench_compile: {options.build}: compiles no kernels; configure it with CUDA and Ninja", file=sys.stderr)
    return 0 if measured else 2


if __name__ == "__main__":
    sys.exit(main())
