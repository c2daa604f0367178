#!/usr/bin/env python3
"""Checks that includes point the way the rooms do, and that a source includes its own header first.

usage: check_includes.py ROOT | --table

Prints one line for each include that a room may not have, directly or through other headers. Conditional
compilation is not looked at: an include counts wherever it stands. NAME.cpp that includes NAME.h before all else shows
that the header compiles alone (headers_alone.cmake). Exit codes: 0 none, 1 some, 2 no sources.
"""

import fnmatch
import pathlib
import re
import sys

# The room of a file is the first one with a pattern that it matches. It includes headers of itself and of the rooms
# named here, of each at least one, and reaches no other of the libraries below than those named here. `--table` prints
# this as .github/ARCHITECTURE.md has it.
#        room         files                                   rooms                                       libraries
ROOMS = [
    ("hook", ["dump/hook.h", "dump/program_hook.h", "dump/hook/*"], "", "CUDA"),
    ("schema", ["dump/schema.h", "dump/schema/*"], "hook", ""),
    ("recording", ["dump/recording.h", "dump/array_recording.h", "dump/recording/*"], "hook schema", ""),
    ("watch", ["dump/watch.h", "dump/watch/*"], "schema recording", ""),
    ("file", ["dump/reader.h", "dump/writer.h", "dump/program_file.h", "dump/file/*"], "schema recording", "HDF5"),
    ("capture", ["dump/capture.h", "dump/program_capture.h", "dump/flight_recorder.h", "dump/poison.h", "dump/capture/*"], "hook schema recording file", "CUDA"),
    ("cli", ["dump/cli/*"], "schema file", "CLI11"),
    ("bindings", ["dump/python/*"], "hook schema recording file", "Python"),
    ("formula", ["oracle/formula/*"], "schema recording", "Eigen"),
    ("replay", ["oracle/replay/*"], "schema recording formula", "Eigen"),
    ("judge", ["oracle/judge.h", "oracle/judge/*"], "schema recording cli formula replay describe", "Eigen"),
    ("describe", ["oracle/describe/*"], "schema", ""),
    ("program", ["oracle/program/*"], "schema recording describe formula solve", "Eigen"),
    ("solve", ["oracle/solve/*"], "describe", "Eigen"),
    ("runs", ["oracle/runs/*"], "schema recording formula judge describe solve", "Eigen JSON"),
    ("causes", ["oracle/causes/*"], "schema recording formula replay judge describe solve program runs", "Eigen"),
    ("ranks", ["oracle/ranks/*"], "schema recording formula judge causes", "Eigen"),
    ("report", ["oracle/check.h", "oracle/gtest.h", "oracle/report/*"], "schema recording file replay judge describe program causes runs ranks", "Eigen JSON"),
    ("explain", ["oracle/explain/*"], "schema recording formula replay judge", "Eigen"),
    ("heatmap", ["oracle/heatmap/*"], "schema recording formula replay judge report explain", "Eigen"),
    ("remote", ["oracle/remote/*"], "schema recording file cli judge", "Eigen"),
    ("tile-diff", ["oracle/tile_diff.cpp", "oracle/cli/*"], "schema recording file cli judge program causes runs ranks report explain heatmap remote", "CLI11 Eigen"),
    ("tile-diff-mpi", ["oracle/tile_diff_mpi.cpp"], "schema judge report tile-diff", "Eigen MPI"),
    ("module", ["oracle/python/*"], "schema recording file bindings program judge causes report heatmap", "Eigen Python"),
    ("attention", ["kernels/attention/*"], "hook schema", "CUDA"),
    ("run", ["kernels/run/*"], "hook schema recording watch file capture cli attention", "CLI11 CUDA JSON"),
    ("gate", ["kernels/gate/*"], "schema file cli attention run", "CLI11 CUDA JSON"),
    ("samples", ["samples/*"], "hook schema capture attention", "CLI11 CUDA"),
    ("session", ["viewer/session/*"], "schema recording file cli replay judge program causes ranks explain heatmap", "Eigen"),
    ("window", ["viewer/window/*"], "schema formula heatmap", "Eigen GUI JSON"),
    ("state", ["viewer/state/*"], "schema judge describe ranks report explain heatmap session window", "Eigen GUI JSON"),
    ("panels", ["viewer/panels/*"], "schema replay ranks report heatmap window state", "Eigen GUI"),
    ("tile-view", ["viewer/tile_view.cpp"], "schema file cli judge report heatmap window state panels", "CLI11 Eigen GUI"),
]
ALL_ROOMS = " ".join(name for name, *_ in ROOMS)
ROOMS.append(("tests", ["tests/*"], ALL_ROOMS, "CLI11 CUDA HDF5 Eigen GUI JSON"))
PAGE = ".github/ARCHITECTURE.md"

LIBRARIES = {
    "CUDA": r"(cuda|curand|cublas|nvrtc|nvtx|cooperative_groups|mma\.h|crt/|driver_types|vector_types|cute/|cutlass/)",
    "HDF5": r"(hdf5|H5\w*)\.h",
    "Eigen": r"(unsupported/)?Eigen/",
    "GUI": r"(imgui|backends/imgui|GLFW/|GL/|GLES)",
    "MPI": r"mpi\.h",
    "Python": r"(nanobind/|Python\.h)",
    "CLI11": r"CLI/",
    "JSON": r"nlohmann/json\.hpp",
}

# Libraries that take seconds to read, and the headers that may reach them: the others leave them to sources.
SLOW = {
    "Eigen": ["oracle/formula/*", "oracle/replay/*", "oracle/solve/*", "oracle/causes/*", "oracle/runs/*", "oracle/explain/gradients.h",
              "oracle/judge/plan.h", "oracle/judge/tile_judge.h", "oracle/judge/judge_tiles.h", "oracle/judge/tally_bytes.h",
              "oracle/judge/share_pieces.h", "oracle/judge/spread.h", "oracle/judge/q_block.h", "oracle/judge/gradient_judge.h",
              "oracle/judge/named_judge.h", "oracle/judge/undeclared.h", "oracle/ranks/merge_formula.h", "oracle/ranks/part_rows.h",
              "oracle/ranks/parts_found.h", "oracle/heatmap/drift_rows.h", "viewer/session/work.h"],
    "CLI11": ["kernels/run/number_range.h"],
    "JSON": [],
}

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
OTHER_PROJECTS = ("tests/repo/consumer/*", "samples/pipeline/*")
DIRECTIVE = re.compile(r"^\s*#.*", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def find_sources(root):
    folders = {pattern.split("/")[0] for _, patterns, _, _ in ROOMS for pattern in patterns}
    paths = (path.relative_to(root).as_posix() for folder in folders
             for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted(path for path in paths if not any(fnmatch.fnmatch(path, other) for other in OTHER_PROJECTS))


def room_of(path):
    """Its row of the table; None where no room has it."""
    return next((room for room in ROOMS if any(fnmatch.fnmatch(path, p) for p in room[1])), None)


def library_of(header):
    return next((name for name, pattern in LIBRARIES.items() if re.match(pattern, header)), None)


class Includes:
    """What each source includes: project files (by path from the root) and libraries."""

    def __init__(self, root):
        self.missing = []
        self.files = {}
        self.libraries = {}
        for path in find_sources(root):
            self.files[path] = []
            self.libraries[path] = set()
            for quoted, angled in INCLUDE.findall((root / path).read_text()):
                self.add(root, path, quoted, angled)

    def add(self, root, path, quoted, angled):
        library = library_of(quoted or angled)
        if library:
            self.libraries[path].add(library)
        elif quoted and (root / quoted).is_file():
            self.files[path].append(quoted)
        elif quoted:
            self.missing.append(f'{path}: includes "{quoted}", which is not a file of the repository; '
                                "give the path from its root")

    def reached_libraries(self, path):
        """Each library that the file reaches, with the file that includes it."""
        reached, waiting, seen = {}, [path], {path}
        while waiting:
            current = waiting.pop()
            for library in self.libraries.get(current, ()):
                reached.setdefault(library, current)
            new = [header for header in self.files.get(current, ()) if header not in seen]
            seen.update(new)
            waiting += new
        return reached


def own_header(path, sources):
    """What NAME.cpp declares: NAME.h beside it, or above it where that is public; None where neither is there."""
    own = path.removesuffix("cpp") + "h"
    above = "/".join(path.split("/")[:1] + own.split("/")[-1:])
    return next((header for header in (own, above) if header in sources), None)


def own_header_violations(root, sources):
    """The sources of which anything but their own header is the first directive."""
    for path in sources:
        header = own_header(path, sources) if path.endswith(".cpp") else None
        if header is None:
            continue
        first = DIRECTIVE.search((root / path).read_text())
        if first is None or INCLUDE.findall(first[0]) != [(header, "")]:
            yield f"{path}: does not include {header} first; put it before everything else"


def table():
    """The table of rooms, as the page has it."""
    rows = ["| room | may include | may reach |", "|---|---|---|"]
    for name, _, rooms, libraries in ROOMS:
        listed = "every room" if rooms == ALL_ROOMS else ", ".join(rooms.split()) or "no other"
        rows.append(f"| {name} | {listed} | {', '.join(libraries.split()) or 'none'} |")
    return "\n".join(rows)


def page_violations(root):
    page = root / PAGE
    if page.is_file() and table() not in page.read_text():
        yield f"{PAGE}: its table of rooms is another one than this script's; paste what --table prints"


def room_violations(root, includes):
    """Includes that a room may not have."""
    for path, headers in includes.files.items():
        if room_of(path) is None:
            yield f"{path}: is in no room; move it into one, or give {pathlib.Path(path).parent} a row here"
            continue
        name, _, rooms, libraries = room_of(path)
        for header in headers:
            other = (room_of(header) or (None,))[0]
            if other != name and other not in rooms.split():
                yield f"{path}: {name} includes {header} of {other}; it may not"
        for library, through in sorted(includes.reached_libraries(path).items()):
            if library not in libraries.split():
                yield f"{path}: {name} reaches {library} through {through}; it may not"


def slow_headers(includes):
    """Headers that reach a library that takes long to read, and that no row names; and rows that name none."""
    reached = {library: set() for library in SLOW}
    for path in includes.files:
        if path.endswith(".h") and not path.startswith("tests/"):
            for library, through in includes.reached_libraries(path).items():
                if library in SLOW:
                    reached[library].add(path)
                    if not any(fnmatch.fnmatch(path, pattern) for pattern in SLOW[library]):
                        yield f"{path}: reaches {library} through {through}; leave that to a source, or declare what it names"
    for library, patterns in SLOW.items():
        for pattern in patterns:
            if not fnmatch.filter(reached[library], pattern):
                yield f"{pattern}: no header of that name reaches {library}; take it out of SLOW"


def unused_permissions(root, includes):
    """Rooms that a room may include and does not: the table says what is, and not what might be."""
    used = {(room_of(path)[0], room_of(header)[0]) for path, headers in includes.files.items() if room_of(path)
            for header in headers if room_of(header)}
    for name, _, rooms, _ in ROOMS:
        if rooms == ALL_ROOMS:
            continue
        for other in rooms.split():
            if (name, other) not in used:
                yield f"{name}: includes nothing of {other}, which its row names; take it out"


def find_violations(root):
    includes = Includes(root)
    found = list(includes.missing) + list(own_header_violations(root, includes.files))
    found += list(room_violations(root, includes)) + list(page_violations(root))
    # Of a tree that is not whole nothing is known.
    if (root / PAGE).is_file():
        found += list(unused_permissions(root, includes)) + list(slow_headers(includes))
    return found


def main(root):
    count = len(find_sources(root))
    if count == 0:
        print(f"{root}: holds no sources; give the root of the repository")
        return 2
    violations = find_violations(root)
    print("\n".join(violations + [f"{count} sources, {len(violations)} includes that may not be"]))
    return 1 if violations else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(table())
        sys.exit(0)
    sys.exit(main(pathlib.Path(sys.argv[1])))
