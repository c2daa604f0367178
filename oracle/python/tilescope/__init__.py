"""Tilescope: a numerical debugger for fused kernels, attention first.

    tilescope.check(q, k, v, o, causal=True)     # any kernel, no hooks: raises where rounding does not explain o
    report = tilescope.judge("run.h5")           # a recording that hooks have written
    recorder = tilescope.Recorder(q, k, v, stages=("s", "m"), block_m=64, block_n=64)   # buffers for a kernel's tiles
    recording = tilescope.open("run.h5")         # its tiles, read when they are asked for
    tilescope.view("run.h5")                     # in tile-view
    tilescope.Program(text).check(inputs, outputs)   # a kernel that is no attention, declared in a few lines
"""

from ._check import Diverged, check
from ._core import Error, families
from ._core import version as __version__
from ._files import include, judge, open, view
from ._program import Mistake, Program, ProgramRecorder, ProgramReport, StageVerdict
from ._report import Cause, Element, Report
from .recorder import Recorder

__all__ = ["Cause", "Diverged", "Element", "Error", "Mistake", "Program", "ProgramRecorder", "ProgramReport", "Recorder", "Report",
           "StageVerdict", "check", "families", "include", "judge", "open", "view"]
