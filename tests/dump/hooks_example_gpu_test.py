#!/usr/bin/env python3
"""Runs the kernel of HOOKS.md and judges what it recorded.

usage: hooks_example_gpu_test.py PROGRAM TILE_DIFF
"""

import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

program, tile_diff = sys.argv[1:]
listed = shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
if not listed or "GPU" not in listed:
    print("there is no GPU")
    sys.exit(1 if os.environ.get("REQUIRE_GPU") == "1" else SKIPPED)
with tempfile.TemporaryDirectory() as scratch:
    recording = f"{scratch}/warp_attention.h5"
    subprocess.run([program, recording], check=True)
    judged = subprocess.run([tile_diff, recording], capture_output=True, text=True)
    print(judged.stdout, judged.stderr)
    # s and p of 2 heads, 50 rows and 77 keys; m, l and acc after each of 3 tiles; o.
    elements = 2 * 50 * (2 * 77 + 3 * (2 + 64) + 64)
    expected = f"match: {elements} elements of 6 stages agree with the float64 oracle"
    named = "not judged, no reference: rescale"
    sys.exit(0 if judged.returncode == 0 and expected in judged.stdout and named in judged.stdout else 1)
