#!/usr/bin/env python3
"""Installs a build, and links with it the kernels of samples/torch_extension as record.py has PyTorch do, without PyTorch:
all but binding.cpp, into a shared library that leaves no symbol open, and that names no library of HDF5.

usage: torch_extension_test.py ROOT BUILD SCRATCH CMAKE [NVCC]

Without NVCC the build has no CUDA: skipped, with exit code 77.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import types
import unittest.mock

SKIPPED = 77

root, build, scratch = (pathlib.Path(path) for path in sys.argv[1:4])
cmake, *compiler = sys.argv[4:]
if not compiler:
    print("there is no nvcc: the extension is not compiled")
    sys.exit(SKIPPED)

shutil.rmtree(scratch, ignore_errors=True)
prefix = scratch / "prefix"
subprocess.run([cmake, "--install", build, "--prefix", prefix, "--component", "capture"], check=True, capture_output=True)

# record.py is imported for its flags, and nothing of PyTorch is called.
torch = unittest.mock.MagicMock(__path__=[])
for name in ("torch", "torch.nn", "torch.nn.attention", "torch.nn.functional", "torch.utils", "torch.utils.cpp_extension"):
    sys.modules[name] = torch
sys.modules["references"] = types.SimpleNamespace(DTYPES={}, append_references=None, for_each_query_head=None,
                                                  references=None, scale_of=None)
sys.path.insert(0, str(root / "samples/torch_extension"))
import record  # noqa: E402

os.environ["TILESCOPE_ROOT"] = str(prefix)
flags = record.extension_flags(sorted((root / "samples/torch_extension").glob("*.cu")))
extension = scratch / "extension.so"
subprocess.run([*compiler, "-shared", "-cudart", "shared", "-arch=sm_90", "-Xcompiler", "-fPIC", *flags["extra_cuda_cflags"],
                *(f"-I{path}" for path in flags["extra_include_paths"]), *flags["sources"], "-o", extension,
                *(f"-Xlinker={flag.removeprefix('-Wl,')}" if flag.startswith("-Wl,") else flag
                  for flag in flags["extra_ldflags"]), "-Xlinker", "-z,defs"], check=True)
needed = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
sys.exit(0 if "libtilescope.so" in needed and "hdf5" not in needed else f"{extension}: {needed}")
