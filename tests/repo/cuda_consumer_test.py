#!/usr/bin/env python3
"""Installs a build, and builds with it the project that HOOKS.md shows, as the page says.

usage: cuda_consumer_test.py ROOT BUILD SCRATCH CMAKE GENERATOR [CONFIGURE-OPTION...]

Without CONFIGURE-OPTIONs the build has no CUDA: skipped, with exit code 77. The program must record the kernel where
there is a GPU, and say in one line why it cannot elsewhere.
"""

import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77

root, build, scratch = (pathlib.Path(path) for path in sys.argv[1:4])
cmake, generator, *options = sys.argv[4:]
if not options:
    print("there is no nvcc: a consumer that compiles CUDA is not tried")
    sys.exit(SKIPPED)

shutil.rmtree(scratch, ignore_errors=True)
source = scratch / "source"
source.mkdir(parents=True)
page = root / "dump/HOOKS.md"
projects = re.findall(r"^```cmake\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
if len(projects) != 1:
    sys.exit(f"{page}: {len(projects)} CMake projects are in it; there is one")
(source / "CMakeLists.txt").write_text(projects[0])
subprocess.run([sys.executable, root / "tests/dump/hooks_example.py", page, source / "warp_attention.cu"], check=True)

prefix, compiled = scratch / "prefix", scratch / "build"
for step in (["--install", build, "--prefix", prefix],
             ["-S", source, "-B", compiled, "-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}", *options],
             ["--build", compiled]):
    subprocess.run([cmake, *step], check=True)

recording = scratch / "warp_attention.h5"
done = subprocess.run([compiled / "warp_attention", recording], capture_output=True, text=True)
print(done.returncode, done.stderr)
recorded = done.returncode == 0 and recording.exists()
refused = done.returncode == 2 and done.stderr.count("\n") == 1 and not recording.exists()
sys.exit(0 if recorded or refused else 1)
