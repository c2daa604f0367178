#!/usr/bin/env python3
"""Installs a build, and builds with it the project that HOOKS.md shows, as the page says.

usage: cuda_consumer_test.py ROOT BUILD SCRATCH CMAKE GENERATOR [CONFIGURE-OPTION...]

Compiled as FlashAttention-2 is, in C++17 and with its flags, and linked by CMake and by what pkg-config says. The program must
record the kernel where there is a GPU, and say in one line why it cannot elsewhere. TILESCOPE_DUMP=0 must leave the PTX of a
kernel as it is without hooks, in a project that has a DEBUG_DUMP of its own. Without CONFIGURE-OPTIONs the build has no CUDA: skipped, with exit code 77.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

SKIPPED = 77
# setup.py of FlashAttention-2.
FLASH_ATTENTION_FLAGS = ("-O3 -std=c++17 -U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__"
                         " -U__CUDA_NO_HALF2_OPERATORS__ -U__CUDA_NO_BFLOAT16_CONVERSIONS__ --expt-relaxed-constexpr"
                         " --expt-extended-lambda --use_fast_math -Werror all-warnings")

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
# And the same program with HDF5 inside.
STATIC = """
if(TARGET tilescope::recording_static)
  add_executable(warp_attention_static $<TARGET_OBJECTS:warp_attention>)
  set_target_properties(warp_attention_static PROPERTIES LINKER_LANGUAGE CUDA)
  target_link_libraries(warp_attention_static PRIVATE tilescope::capture_static)
endif()
"""
(source / "CMakeLists.txt").write_text(projects[0] + STATIC)
subprocess.run([sys.executable, root / "tests/dump/hooks_example.py", page, source / "warp_attention.cu"], check=True)

prefix, compiled = scratch / "prefix", scratch / "build"
for step in (["--install", build, "--prefix", prefix, "--component", "capture"],
             ["-S", source, "-B", compiled, "-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}",
              f"-DCMAKE_CUDA_FLAGS={FLASH_ATTENTION_FLAGS}", "-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON", *options],
             ["--build", compiled]):
    subprocess.run([cmake, *step], check=True)

nvcc = next(option.partition("=")[2] for option in options if option.startswith("-DCMAKE_CUDA_COMPILER="))


def linked_by_pkg_config(package):
    """The program of the same objects, by nvcc."""
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    libraries = subprocess.run(["pkg-config", "--libs", package], check=True, capture_output=True, text=True, env=environment).stdout
    objects = list((compiled / "CMakeFiles/warp_attention.dir").glob("*.o"))
    subprocess.run([nvcc, *objects, *shlex.split(libraries), "-o", scratch / package], check=True)
    return scratch / package


def works(program):
    """Whether it records where there is a GPU, and says why it cannot elsewhere."""
    recording = program.with_suffix(".h5")
    done = subprocess.run([program, recording], capture_output=True, text=True)
    print(program.name, done.returncode, done.stderr)
    recorded = done.returncode == 0 and recording.exists()
    return recorded or (done.returncode == 2 and done.stderr.count("\n") == 1 and not recording.exists())


programs = [compiled / "warp_attention", linked_by_pkg_config("tilescope")]
if (prefix / "lib/libtilescope.a").exists():
    with_hdf5 = [compiled / "warp_attention_static", linked_by_pkg_config("tilescope-static")]
    for program in with_hdf5:
        needed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        if unwanted := re.findall(r"lib(?:tilescope|hdf5|curl|crypto|krb5|ldap)\S*", needed):
            sys.exit(f"{program} needs {unwanted}")
    programs += with_hdf5
all_work = all([works(program) for program in programs])

include = ["-std=c++17", "-arch=sm_90", "-I", prefix / "include/tilescope"]

# A project whose own DEBUG_DUMP prints something, and the same without hooks.
HOOKED = """#include <cstdio>
#include "dump/hook.h"
__global__ void scale(const float* x, float* s, int cols TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 0, 0, blockIdx.x);
    const float value = 0.5f * x[blockIdx.x * cols + threadIdx.x];
    TILESCOPE_VALUE(s, 0, 0, threadIdx.x, value);
    s[blockIdx.x * cols + threadIdx.x] = value;
#ifdef DEBUG_DUMP
    if (DEBUG_DUMP(value)) printf("%f", value);
#endif
}
"""
OWN = "-DDEBUG_DUMP(value)=((value)>1.0f)"


def ptx(text, *definitions):
    """The kernel's code, without the debugger's names of files."""
    file = scratch / "scale.cu"
    file.write_text(text)
    return subprocess.run([nvcc, *include, *definitions, "-ptx", file, "-o", "-"], check=True, capture_output=True).stdout


plain = ptx("".join(line for line in HOOKED.splitlines(keepends=True) if "TILESCOPE_B" not in line and "TILESCOPE_V" not in line
                    and "hook.h" not in line).replace(" TILESCOPE_SINK_PARAM(sink)", ""), OWN)
off = ptx(HOOKED, OWN, "-DTILESCOPE_DUMP=0")
on = ptx(HOOKED, OWN, "-DTILESCOPE_DUMP=1")
print("PTX with TILESCOPE_DUMP=0:", "as without hooks" if off == plain else "not as without hooks")
print("PTX with TILESCOPE_DUMP=1:", "has hooks" if len(on) > 2 * len(off) and b"vprintf" in on else "has none")
kept_apart = off == plain and b"vprintf" in off and len(on) > 2 * len(off) and b"vprintf" in on

sys.exit(0 if all_work and kept_apart else 1)
