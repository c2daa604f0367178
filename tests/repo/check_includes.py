#!/usr/bin/env python3
"""Checks that includes point the way the modules do, and that a source includes its own header first.

usage: check_includes.py ROOT

Prints one line for each include that a module may not have, directly or through other headers. Conditional
compilation is not looked at: an include counts wherever it stands. NAME.cpp that includes NAME.h before all else shows
that the header compiles alone (headers_alone.cmake). Exit codes: 0 none, 1 some, 2 no sources.
"""

import fnmatch
import pathlib
import re
import sys

# The module of a file is the first one with a pattern that it matches. A module includes headers of itself
# and of the modules named here, and reaches no other of the libraries below than those named here.
#           module    files                                        modules                    libraries
MODULES = [
    ("hook", ["dump/hook*.h", "dump/sink.h", "dump/stage.h"], set(), {"CUDA"}),
    ("capture", ["dump/capture.*", "dump/capture_device.*", "dump/capture_memory.*", "dump/flight_device.*",
                 "dump/flight_recorder.*"], {"hook", "dump", "file"}, {"CUDA"}),
    ("file", ["dump/file_*"], {"hook", "dump"}, {"HDF5"}),
    ("dump", ["dump/*"], {"hook"}, set()),
    ("oracle", ["oracle/*"], {"hook", "dump", "file"}, {"Eigen"}),
    ("kernels", ["kernels/*"], {"hook", "dump", "file", "capture"}, {"CUDA"}),
    ("samples", ["samples/*"], {"hook", "dump", "file", "capture"}, {"CUDA"}),
    ("viewer", ["viewer/*"], {"hook", "dump", "file", "oracle"}, {"Eigen", "GUI"}),
    ("tests", ["tests/*"], {"hook", "dump", "file", "capture", "oracle", "kernels", "viewer"},
     {"CUDA", "HDF5", "Eigen", "GUI"}),
]

LIBRARIES = {
    "CUDA": r"(cuda|curand|cublas|nvrtc|nvtx|cooperative_groups|mma\.h|crt/|driver_types|vector_types|cute/|cutlass/)",
    "HDF5": r"(hdf5|H5\w*)\.h",
    "Eigen": r"(unsupported/)?Eigen/",
    "GUI": r"(imgui|backends/imgui|GLFW/|GL/|GLES)",
}

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
ANOTHER_PROJECT = "tests/repo/consumer/*"
DIRECTIVE = re.compile(r"^\s*#.*", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def find_sources(root):
    folders = {pattern.split("/")[0] for _, patterns, _, _ in MODULES for pattern in patterns}
    paths = (path.relative_to(root).as_posix() for folder in folders
             for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted(path for path in paths if not fnmatch.fnmatch(path, ANOTHER_PROJECT))


def module_of(path):
    return next(module for module in MODULES if any(fnmatch.fnmatch(path, p) for p in module[1]))


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


def own_header_violations(root, sources):
    """The sources of which anything but their own header is the first directive."""
    headers = {path: path.removesuffix("cpp") + "h" for path in sources if path.endswith(".cpp")}
    for path, header in headers.items():
        first = DIRECTIVE.search((root / path).read_text())
        if header in sources and (first is None or INCLUDE.findall(first[0]) != [(header, "")]):
            yield f"{path}: does not include {header} first; put it before everything else"


def find_violations(root):
    includes = Includes(root)
    found = list(includes.missing) + list(own_header_violations(root, includes.files))
    for path, headers in includes.files.items():
        name, _, modules, libraries = module_of(path)
        for header in headers:
            other = module_of(header)[0]
            if other != name and other not in modules:
                found.append(f"{path}: {name} includes {header} of {other}; it may not")
        for library, through in sorted(includes.reached_libraries(path).items()):
            if library not in libraries:
                found.append(f"{path}: {name} reaches {library} through {through}; it may not")
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
    sys.exit(main(pathlib.Path(sys.argv[1])))
