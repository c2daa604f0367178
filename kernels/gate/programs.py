"""What evidence.py and faults.py share: what they run, and why they cannot."""

import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


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
