#!/usr/bin/env python3
"""Checks that hooks leave no trace in a kernel that is compiled without them.

usage: compare_ptx.py ROOT NVCC KERNEL.cu [COMPILED]

Compiles the kernel of ROOT/kernels/attention twice without DEBUG_DUMP, as it is and with every hook removed from it and
from its headers, in a tree that has no dump/hook.h: the PTX must be the same byte for byte, and so must the
machine code for sm_90, or both for the architecture that kernels/resource_limits.json names for the kernel. Compiled with DEBUG_DUMP it must write to the sink. With COMPILED, a folder in which
kernels/gate/resources.py left the kernel's first configuration with hooks and without, only the kernel that lost its
hooks is compiled, and the PTX is that for sm_90 as well. Exit codes: 0 so it is, 1 it is not.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import strip_hooks

FLAGS = ["-std=c++20", "-fmad=false", "-O3", "-I."]
PTX = ["-arch=sm_80", "-ptx"]
MACHINE_CODE = ["-arch=sm_90", "-cubin"]
KERNEL_SOURCES = ["*.h", "*.cuh", "*.cu"]
# All of dump/hook/ but for what a sink is made of.
WITHOUT_HOOKS = {"dump/hook/sink.h", "dump/hook/stage.h"}
KERNELS = "kernels/attention"
SOURCES = json.loads((pathlib.Path(__file__).resolve().parents[2] / "kernels/resource_limits.json").read_text())["sources"]
ARCHITECTURES = {name: source["architecture"] for name, source in SOURCES.items() if "architecture" in source}


def copy_tree(root, to, without_hooks):
    """Copies the headers and kernels; returns how many hooks each kernel source lost."""
    removed = {}
    for path in (path for pattern in KERNEL_SOURCES for folder in ("dump", "kernels")
                 for path in (root / folder).rglob(pattern)):
        name = path.relative_to(root).as_posix()
        if without_hooks and name.startswith("dump/hook") and name not in WITHOUT_HOOKS:
            continue
        text = path.read_text()
        if without_hooks and name.startswith("kernels/"):
            text, removed[name] = strip_hooks.strip(text)
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_text(text)
    return removed


def compile_kernel(nvcc, tree, kernel, *flags):
    flags = [f"-arch={ARCHITECTURES[kernel]}" if kernel in ARCHITECTURES and flag.startswith("-arch=") else flag
             for flag in flags]
    subprocess.run([nvcc, *FLAGS, *flags, f"{KERNELS}/{kernel}", "-o", "compiled"], cwd=tree, check=True)
    return (tree / "compiled").read_bytes()


def compile_every_configuration(nvcc, original, stripped, kernel):
    """{(what, tree): bytes}: PTX for sm_80, machine code for sm_90."""
    trees = {"original": (original, []), "stripped": (stripped, []), "hooked": (original, ["-DDEBUG_DUMP"])}
    compiled = {("PTX", name): compile_kernel(nvcc, tree, kernel, *PTX, *flags) for name, (tree, flags) in trees.items()}
    for name in ("original", "stripped"):
        compiled["machine code", name] = compile_kernel(nvcc, trees[name][0], kernel, *MACHINE_CODE)
    return compiled


def compile_first_configuration(nvcc, stripped, kernel, compiled):
    """The same, PTX for sm_90, of one configuration; all but the stripped kernel is compiled."""
    # Machine code names options of ptxas.
    kept = ["-keep", "-keep-dir", ".", "-DFIRST_CONFIGURATION_ONLY", "-Xptxas", "-v"]
    read = {"stripped": (compile_kernel(nvcc, stripped, kernel, *MACHINE_CODE, *kept),
                         (stripped / kernel).with_suffix(".ptx").read_bytes())}
    for name, build in (("original", "plain"), ("hooked", "hooked")):
        folder = compiled / f"{kernel}.{build}"
        read[name] = (folder / "cubin").read_bytes(), (folder / "kernel.ptx").read_bytes()
    return {(what, name): content for name, contents in read.items()
            for what, content in zip(("machine code", "PTX"), contents)}


def included_kernel_sources(tree, kernel):
    """The kernel and everything of kernels/ that it includes."""
    todo, found = [f"{KERNELS}/{kernel}"], set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += re.findall(r'#include "(kernels/[^"]+)"', (tree / name).read_text())
    return found


def reads_through_address(ptx):
    """Lines of entries that use the address of a parameter for more than to pass it on, to a function or, as that of a
    tensor map, to a copy."""
    passed_on = (b"cvta.param", b"st.param", b"prefetch.tensormap", b"cp.async.bulk.tensor")
    found = []
    for function in re.split(rb"^(?=\.visible \.entry|\.func)", ptx, flags=re.MULTILINE):
        for address in re.findall(rb"cvta\.param\.u64\s+(%\w+),", function):
            uses = re.findall(rb"^.*" + re.escape(address) + rb"\b.*$", function, re.MULTILINE)
            found += [use for use in uses if not any(instruction in use for instruction in passed_on)]
    return found


def check(condition, message):
    if not condition:
        print(f"FAILED: {message}")
        sys.exit(1)


def main(root, nvcc, kernel, compiled=None):
    with tempfile.TemporaryDirectory() as scratch:
        original, stripped = pathlib.Path(scratch, "original"), pathlib.Path(scratch, "stripped")
        copy_tree(root, original, without_hooks=False)
        removed = copy_tree(root, stripped, without_hooks=True)
        sources = included_kernel_sources(original, kernel)
        hooks = sum(removed[name] for name in sources)
        check(hooks >= 10, f"{kernel}: only {hooks} hooks were removed; a kernel hooks ten stages")
        left = [name for name in sources if "TILESCOPE_" in (stripped / name).read_text()]
        check(not left, f"{kernel}: hooks are left in {left}")
        code = (compile_first_configuration(nvcc, stripped, kernel, pathlib.Path(compiled)) if compiled
                else compile_every_configuration(nvcc, original, stripped, kernel))

    plain, recording = code["PTX", "original"], code["PTX", "hooked"]
    entries = plain.count(b".entry")
    check(entries > 0, f"{kernel}: compiled to no kernel")
    check(plain == code["PTX", "stripped"], f"{kernel}: the PTX differs from that without hooks")
    check(b"atom." not in plain, f"{kernel}: writes to a sink without DEBUG_DUMP")
    print(f"{kernel}: {hooks} hooks removed, {entries} kernels, {len(plain)} bytes of PTX are equal")

    check(len(code["machine code", "original"]) > 0, f"{kernel}: compiled to no machine code")
    check(code["machine code", "original"] == code["machine code", "stripped"],
          f"{kernel}: the machine code differs from that without hooks")
    print(f"{kernel}: {len(code['machine code', 'original'])} bytes of machine code are equal")

    # A copy of each without hooks may stand beside it, and what fills the queue that they take blocks from.
    recorded = recording.count(b".entry") - len(re.findall(rb"\.entry \w*queue_blocks", recording))
    check(recorded in (entries, 2 * entries), f"{kernel}: has other kernels with DEBUG_DUMP")
    check(b"atom." in recording, f"{kernel}: writes to no sink with DEBUG_DUMP")
    # Taking its address makes every read of the sink a load from memory, which cost up to 40 % of the time.
    # Handed to a function for tiles that have no fast way, it is read there alone.
    check(not reads_through_address(recording), f"{kernel}: hooks read the sink through its address")
    print(f"{kernel}: {len(recording)} bytes of PTX with DEBUG_DUMP")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
