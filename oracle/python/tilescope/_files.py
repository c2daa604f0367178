"""Recordings that lie in files."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Literal

from . import _core
from ._report import Report, judge_recording
from .recorder import Recorder


def open(path: str | os.PathLike[str]) -> _core.Recording:
    """The recording, checked as a whole; its tiles are read when they are asked for.

    `stages` names what was recorded, `declared` holds what is declared of it; `tile(stage, batch, head, q_block,
    kv_tile)` is an array [block_m or block_n][columns] of float32, padding included, or None where that was not
    recorded; `input(name, batch, head)` the rows that the kernel read. Errors: tilescope.Error.
    """
    return _core.open(os.fspath(path))


def judge(
    recording: str | os.PathLike[str] | _core.Recording | Recorder,
    *,
    causes: bool | Literal["all"] = True,
    threads: int = 0,
) -> Report:
    """Judges a file, by its path, or what open() gave, or a Recorder: every recorded tile against float64.

    `causes` says whether to look for the mistake where something diverges; "all" searches on where that takes long.

    Returns a Report. Errors: tilescope.Error for what cannot be judged.
    """
    if isinstance(recording, (str, os.PathLike)):
        recording = open(recording)
    elif isinstance(recording, Recorder):
        recording = recording.recording()
    return judge_recording(recording, causes=causes, threads=threads)


def include() -> str:
    """The folder for -I of a CUDA or C++ compiler: dump/hook.h of this version lies below it."""
    return os.path.join(os.path.dirname(__file__), "include")


def view(path: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
    """Opens the file in tile-view and does not wait. Errors: tilescope.Error where tile-view is not on PATH."""
    program = shutil.which("tile-view")
    if program is None:
        raise _core.Error("tile-view is not on PATH; install the viewer, or open the file on another machine")
    return subprocess.Popen([program, os.fspath(path)])
