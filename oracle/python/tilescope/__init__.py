"""Tilescope: a numerical debugger for attention kernels.

    tilescope.check(q, k, v, o, causal=True)     # any kernel, no hooks: raises where rounding does not explain o
    report = tilescope.judge("run.h5")           # a recording that hooks have written
    recording = tilescope.open("run.h5")         # its tiles, read when they are asked for
    tilescope.view("run.h5")                     # in tile-view
"""

from ._check import Diverged, check
from ._core import Error, families
from ._core import version as __version__
from ._files import judge, open, view
from ._report import Cause, Element, Report

__all__ = ["Cause", "Diverged", "Element", "Error", "Report", "check", "families", "judge", "open", "view"]
