#!/usr/bin/env python3
"""Checks what no tracked file may hold.

usage: check_files.py ROOT

Prints one line for each finding. Exit codes: 0 none, 1 some, 77 the root is not a git checkout.
"""

import pathlib
import re
import subprocess
import sys

MEBIBYTE = 1 << 20
LARGEST_FILE = 3 * MEBIBYTE // 2
LARGEST_DATA = 20 * MEBIBYTE
LONGEST_SOURCE = 700
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py"}
SCRIPTS = {".cmake", ".txt", ".md", ".json", ".in", ""}
DATA = ("samples/", "tests/data/")
CHANGELOG = ".github/CHANGELOG.md"

# Written in two pieces, so that this file does not hold what it looks for.
MACHINE_PATH = re.compile(rb"(?<![\w.$}])/(?:ho" rb"me/\w|ro" rb"ot/|Us" rb"ers/\w|wo" rb"rk/)")
UNFINISHED = re.compile(rb"\b(?:TO" rb"DO|FIX" rb"ME|XX" rb"X)\b")


def check_content(path, content):
    """Findings in one file."""
    suffix = pathlib.PurePosixPath(path).suffix
    lines = content.count(b"\n")
    if match := MACHINE_PATH.search(content):
        yield f"holds a path of one machine, {match.group().decode()}; name it relative to the repository"
    if len(content) > LARGEST_FILE and not path.startswith(DATA):
        yield f"has {len(content)} bytes; the limit outside the samples is {LARGEST_FILE}"
    if suffix not in SOURCES | SCRIPTS:
        return
    if match := UNFINISHED.search(content):
        yield f"holds {match.group().decode()}; do it or drop it"
    if b"\t" in content:
        yield "holds a tab; indent with spaces"
    if b"\r\n" in content:
        yield "ends lines with CR LF; use LF"
    if content and not content.endswith(b"\n"):
        yield "does not end with a newline; add one"
    if suffix in SOURCES and lines > LONGEST_SOURCE:
        yield f"has {lines} lines; split it, the limit is {LONGEST_SOURCE}"


def check_version(files):
    """The version stands in project() alone, and in the changelog, whose first heading it is."""
    declared = re.search(rb"^project\(\w+ VERSION ([\d.]+)", files.get("CMakeLists.txt", b""), re.MULTILINE)
    if not declared:
        return
    version = re.compile(rb"(?<![\d.])" + re.escape(declared.group(1)) + rb"(?![\d.])")
    for path, content in files.items():
        if path not in ("CMakeLists.txt", CHANGELOG) and not path.startswith(DATA) and version.search(content):
            yield f"{path}: repeats the version of CMakeLists.txt; ask for that one"
    heading = re.search(rb"^## ([\d.]+)", files.get(CHANGELOG, b""), re.MULTILINE)
    if not heading or heading.group(1) != declared.group(1):
        yield f"{CHANGELOG}: does not begin with the version of CMakeLists.txt"


def check_files(files):
    """Findings in all files: a dict from path to content."""
    found = [f"{path}: {finding}" for path, content in files.items() for finding in check_content(path, content)]
    found += check_version(files)
    data = sum(len(content) for path, content in files.items() if path.startswith(DATA))
    if data > LARGEST_DATA:
        found.append(f"samples and tests/data: hold {data} bytes; the limit is {LARGEST_DATA}")
    return found


def read_tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    paths = [path.decode() for path in listed.split(b"\0") if path]
    return {path: (root / path).read_bytes() for path in paths if (root / path).is_file()}


def main(root):
    try:
        files = read_tracked(root)
    except (OSError, subprocess.CalledProcessError):
        print(f"{root}: not a git checkout, nothing to check")
        return 77
    found = check_files(files)
    print("\n".join(found + [f"{len(files)} files, {len(found)} findings"]))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
