#!/usr/bin/env python3
"""Holds what the compiler takes for each bundled kernel against kernels/resource_limits.json.

Compiles the sources named there for one architecture, with and without hooks, and reads registers, stack, spills and
static shared memory from ptxas' report and dynamic shared memory from the compiler's value of an expression. No GPU
is needed. Writes resources.json and resources.csv to the folder of --output.

--compile SOURCE BUILD compiles one source, in its first configuration alone, and leaves in the folder of --to its PTX,
its machine code, the figures and the files that it depends on. --compiled DIR judges such folders, DIR/SOURCE.BUILD for
each source and build, and compiles nothing.

resource_limits.json:
    architecture  what is compiled for
    sources       by name: flags of nvcc; the architecture, where it is another one; dynamic_shared, for each kernel the expression of its dynamic shared memory,
                  in which {config} stands for the first template argument and {build} for plain or hooked; and the
                  include that declares it
    limits        a row for each kernel, configuration and build. Kernels without hooks spill nothing.
Exit codes: 0 all are within their limits, 1 some are not, 2 it could not be judged.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = ROOT / "kernels/resource_limits.json"
FIGURES = ("registers", "stack_bytes", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes")
KEY = ("source", "kernel", "configuration", "build")
BUILDS = {"plain": [], "hooked": ["-DDEBUG_DUMP"]}
FLAGS = ["-std=c++20", "-O3", "-I."]
FIRST_CONFIGURATION = "-DFIRST_CONFIGURATION_ONLY"
# Registers are handed out to a warp in units of 256: 8 a thread.
REGISTER_UNIT = 8


class Unjudged(Exception):
    """What makes a verdict impossible, as one line."""


# ---- what the compiler says

def parse_ptxas(text):
    """[{"function": mangled, "entry": bool, figures}] of the report of nvcc -Xptxas -v."""
    functions, current, entry = [], None, None
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            entry = found[1]
        elif found := re.search(r"Function properties for (\w+)", line):
            current = {"function": found[1], "entry": found[1] == entry, **dict.fromkeys(FIGURES, 0)}
            functions.append(current)
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            current["stack_bytes"] = int(found[1])
            current["spill_bytes"] = max(int(found[2]), int(found[3]))
        elif found := re.search(r"Used (\d+) registers", line):
            current["registers"] = int(found[1])
            if shared := re.search(r"(\d+) bytes smem", line):
                current["static_shared_bytes"] = int(shared[1])
    return functions


def template_arguments(demangled):
    """The text between the outermost < > of the function's name, or ""."""
    start = demangled.find("<")
    if start < 0 or start > demangled.find("("):
        return ""
    depth = 0
    for place in range(start, len(demangled)):
        depth += {"<": 1, ">": -1}.get(demangled[place], 0)
        if depth == 0:
            return demangled[start + 1:place]
    return ""


def split_arguments(text):
    parts, depth = [""], 0
    for letter in text:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def describe_function(demangled):
    """Name and template arguments."""
    name = re.search(r"(\w+)\s*(?=[<(])", demangled)
    return name[1] if name else demangled, ", ".join(split_arguments(template_arguments(demangled)))


def short(configuration):
    """Without namespaces, and without the casts that cu++filt writes and c++filt does not."""
    configuration = re.sub(r"\b\w+::", "", configuration)
    configuration = re.sub(r"\(bool\)([01])", lambda found: ("false", "true")[int(found[1])], configuration)
    return re.sub(r"\((?:unsigned )?(?:int|long)\)(?=-?\d)", "", configuration)


def run_compiler(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
        raise Unjudged(f"{command[-3]}: it does not compile: {first}; compile it with ./dev build")
    return done.stdout + done.stderr


def demangle(names):
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if not tool:
        raise Unjudged("c++filt: not found; install binutils")
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def dynamic_shared(nvcc, flags, include, expressions, scratch):
    """The value of each expression, from a variable that it initialises."""
    if not expressions:
        return []
    probe = pathlib.Path(scratch, "probe.cu")
    probe.write_text(f'#include "{include}"\n' + "".join(
        f'extern "C" __device__ unsigned long long bytes_{i} = {expression};\n'
        for i, expression in enumerate(expressions)))
    ptx = pathlib.Path(scratch, "probe.ptx")
    run_compiler([nvcc, *flags, "-ptx", str(probe), "-o", str(ptx)])
    text = ptx.read_text()
    found = dict(re.findall(r"\bbytes_(\d+)(?: = (\d+))?;", text))
    return [int(found[str(i)] or 0) for i in range(len(expressions))]


def flags_of(limits, name, build):
    source = limits["sources"][name]
    architecture = source.get("architecture", limits["architecture"])
    return [*FLAGS, f"-arch={architecture}", *source.get("flags", []), *BUILDS[build]]


def largest_of_each(rows):
    """One row for a function that several kernels call, each with figures of its own: the largest of them."""
    kept = {}
    for row in rows:
        first = kept.setdefault(key_of(row), row)
        first.update({figure: max(first[figure], row[figure]) for figure in FIGURES})
    return list(kept.values())


def compile_source(nvcc, name, build, limits, scratch, extra=()):
    """A row of figures for each kernel of one source."""
    source, flags = limits["sources"][name], flags_of(limits, name, build)
    to_report = ["-cubin", "-Xptxas", "-v", f"kernels/attention/{name}", "-o", f"{scratch}/cubin"]
    functions = parse_ptxas(run_compiler([nvcc, *flags, *extra, *to_report]))
    if not any(function["entry"] for function in functions):
        raise Unjudged(f"kernels/attention/{name}: the compiler reports no kernel; end it with the row of one, or put it elsewhere")
    rows, expressions = [], []
    for function, demangled in zip(functions, demangle([function["function"] for function in functions])):
        kernel, config = describe_function(demangled)
        row = {"source": name, "kernel": kernel, "configuration": short(config), "build": build,
               **{figure: function[figure] for figure in FIGURES}}
        rows.append(row)
        expression = source.get("dynamic_shared", {}).get(kernel)
        if expression:
            first = (split_arguments(config) or [""])[0]
            expression = expression.replace("{config}", first).replace("{build}", build)
            expressions.append((row, expression))
    values = dynamic_shared(nvcc, flags, source.get("include"), [text for _, text in expressions], scratch)
    for (row, _), value in zip(expressions, values):
        row["dynamic_shared_bytes"] = value
    return sorted(largest_of_each(rows), key=key_of)


def compile_first_configuration(nvcc, name, build, limits, folder):
    """Leaves cubin, kernel.ptx, dependencies and rows.json in the folder."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        kept = pathlib.Path(scratch)
        extra = [FIRST_CONFIGURATION, "-keep", "-keep-dir", scratch, "-MD", "-MF", f"{scratch}/dependencies"]
        rows = compile_source(nvcc, name, build, limits, scratch, extra)
        shutil.copy(kept / "cubin", folder / "cubin")
        shutil.copy((kept / name).with_suffix(".ptx"), folder / "kernel.ptx")
        files = (kept / "dependencies").read_text().replace("\\\n", " ").partition(":")[2].split()
    needed = " ".join(str((ROOT / file).resolve()) for file in files)
    (folder / "dependencies").write_text(f"{folder}/rows.json: {needed}\n")
    (folder / "rows.json").write_text(json.dumps(rows, indent=2) + "\n")


def compile_all(nvcc, limits):
    def compile_job(job):
        with tempfile.TemporaryDirectory() as scratch:
            return compile_source(nvcc, *job, limits, scratch)

    jobs = [(name, build) for name in limits["sources"] for build in BUILDS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [row for rows in pool.map(compile_job, jobs) for row in rows]


def read_compiled(folder, limits):
    """What --compile left of every source and build."""
    return [row for name in limits["sources"] for build in BUILDS
            for row in json.loads((folder / f"{name}.{build}/rows.json").read_text())]


# ---- the limits

def read_limits(path, sources):
    limits = json.loads(path.read_text())
    for name in sorted(sources - set(limits["sources"])):
        raise Unjudged(f"kernels/attention/{name}: is not in {path.name}; name it under sources")
    for name in sorted(set(limits["sources"]) - sources):
        raise Unjudged(f"{path.name}: names kernels/attention/{name}, which is not there; remove it")
    for row in limits["limits"]:
        if row["build"] == "plain" and row["spill_bytes"] != 0:
            raise Unjudged(f"{path.name}: lets {name_of(row)} spill; kernels without hooks spill nothing")
    return limits


def name_of(row):
    return f"{row['kernel']} <{row['configuration']}> {row['build']}"


def key_of(row):
    return tuple(row[part] for part in KEY)


def limits_of_compiled(rows, limits):
    """The limits of the configurations that are compiled, which are at least one of every kernel."""
    compiled = {(row["source"], row["configuration"]) for row in rows}
    held = [limit for limit in limits if (limit["source"], limit["configuration"]) in compiled]
    for limit in limits:
        if not any(all(limit[part] == other[part] for part in ("source", "kernel", "build")) for other in held):
            raise Unjudged(f"{name_of(limit)}: no configuration of it is compiled; compile the first one")
    return held


def judge(rows, limits):
    """One line for each figure beyond its limit, and for each kernel or row that the other side lacks."""
    limit_of = {key_of(limit): limit for limit in limits}
    found = []
    for row in rows:
        limit = limit_of.pop(key_of(row), None)
        if limit is None:
            found.append(f"{name_of(row)}: has no limits; add a row to {LIMITS.name}")
            continue
        found += [f"{name_of(row)}: {figure} {row[figure]}, limit {limit[figure]}"
                  for figure in FIGURES if row[figure] > limit[figure]]
    found += [f"{name_of(limit)}: has limits and is not compiled; remove its row" for limit in limit_of.values()]
    return found


def limits_from(rows):
    """Limits that the rows just keep: registers up to the next unit, the rest as it is."""
    def limit(row):
        registers = -(-row["registers"] // REGISTER_UNIT) * REGISTER_UNIT
        return {**row, "registers": registers, "spill_bytes": row["spill_bytes"] if row["build"] == "hooked" else 0}
    return [limit(row) for row in rows]


# ---- output

def as_table(rows):
    lines = [f"{'kernel':<64}{'registers':>10}{'stack':>8}{'spills':>8}{'static':>8}{'dynamic shared':>16}"]
    lines += [f"{name_of(row):<64}{row['registers']:>10}{row['stack_bytes']:>8}{row['spill_bytes']:>8}"
              f"{row['static_shared_bytes']:>8}{row['dynamic_shared_bytes']:>16}" for row in rows]
    return "\n".join(lines)


def write_figures(folder, architecture, rows, found):
    folder.mkdir(parents=True, exist_ok=True)
    report = {"architecture": architecture, "verdict": "beyond" if found else "within", "beyond": found, "kernels": rows}
    (folder / "resources.json").write_text(json.dumps(report, indent=2) + "\n")
    with open(folder / "resources.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, KEY + FIGURES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_limits(path, limits, rows):
    """One row a line, so that a change of a limit is a line of a diff."""
    head = {name: value for name, value in limits.items() if name != "limits"}
    lines = ",\n".join("    " + json.dumps(row) for row in limits_from(rows))
    path.write_text(json.dumps(head, indent=2)[:-2] + ',\n  "limits": [\n' + lines + "\n  ]\n}\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default=shutil.which("nvcc"), help="the compiler (default: of PATH)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/resources", metavar="DIR")
    parser.add_argument("--compile", nargs=2, metavar=("SOURCE", "BUILD"), help="for example scalar.cu hooked")
    parser.add_argument("--to", type=pathlib.Path, metavar="DIR", help="where --compile leaves what it finds")
    parser.add_argument("--compiled", type=pathlib.Path, metavar="DIR", help="judge what --compile left")
    parser.add_argument("--write-limits", action="store_true", help="take the figures as limits; review the diff")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if not options.nvcc:
        raise Unjudged("nvcc: not found; install CUDA or give --nvcc")
    limits = read_limits(LIMITS, {path.name for path in (ROOT / "kernels/attention").glob("*.cu")})
    if options.compile:
        compile_first_configuration(options.nvcc, *options.compile, limits, options.to)
        return 0
    rows = read_compiled(options.compiled, limits) if options.compiled else compile_all(options.nvcc, limits)
    if options.write_limits:
        write_limits(LIMITS, limits, rows)
        print(f"{LIMITS}: limits of {len(rows)} kernels are written")
        return 0
    held = limits_of_compiled(rows, limits["limits"]) if options.compiled else limits["limits"]
    found = judge(rows, held)
    write_figures(options.output, limits["architecture"], rows, found)
    print(as_table(rows))
    for line in found:
        print(f"BEYOND: {line}")
    print(f"{len(rows)} kernels for {limits['architecture']}, " +
          (f"{len(found)} findings" if found else "all within their limits") + f": {options.output}/resources.json")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unjudged, OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"resources.py: {error}", file=sys.stderr)
        sys.exit(2)
