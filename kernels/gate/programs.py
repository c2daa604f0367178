"""What evidence.py, its gates and faults.py share: what they run, why they cannot, and what a gate found."""

import dataclasses
import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


PASSED, FAILED, MEASURED, MISSING = "passed", "FAILED", "measured", "missing"


@dataclasses.dataclass
class Result:
    """What one gate found."""
    gate: str
    status: str
    what: str
    files: list = dataclasses.field(default_factory=list)


def worst(statuses):
    """Of several: what failed, or else what is missing."""
    return min(statuses, key=(FAILED, MISSING, MEASURED, PASSED).index)


class Unrunnable(Exception):
    """Why nothing can be run, as one line."""


def check_folders(folder, programs, names):
    """Raises unless the folder is empty or not there yet, and the programs are built."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Unrunnable(f"{folder}: is not an empty folder; name another one")
    for name in names:
        if not (programs / name).is_file():
            raise Unrunnable(f"{programs / name}: not found; run ./dev build first")


def tool(name):
    """Where a tool lies, on PATH or where CUDA puts it, or None."""
    return shutil.which(name) or shutil.which(name, path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "no output")


def last_line(text):
    return first_line("\n".join(reversed(text.splitlines())))
