"""Kernels that are no attention: what they compute, declared as text, and what they stored, held against it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import host_bits
from ._check import Array, Diverged


def _bits(arrays: Mapping[str, Array], codes_of: Mapping[str, str] | None) -> dict[str, tuple[str, Any]]:
    """Each array as its bits in host memory, row-major, with the dtype that they stand for."""
    whole = {name: np.array(array, np.float32) if np.isscalar(array) else array for name, array in arrays.items()}
    all_bits = {name: host_bits(name, array, (codes_of or {}).get(name)) for name, array in whole.items()}
    return {name: (each.dtype, np.asarray(each.bits, order="C")) for name, each in all_bits.items()}


@dataclass(frozen=True)
class StageVerdict:
    """What was found in the stored elements of one stage, each against the stored stages before it."""

    name: str
    compared: int
    outside: int  #: further from what is expected than rounding explains
    not_judged: int  #: nothing can be told of them
    largest_difference: float
    budget_used: float  #: largest difference over its tolerance, of the elements that match


@dataclass(frozen=True)
class Mistake:
    """The formula that explains what the kernel stored, in place of the one that was declared."""

    stage: str
    slot: str  #: what stands otherwise: "index", "factor", "term", "guard", ...
    becomes: str
    where: str  #: the condition of the elements in which it is so; empty: in all
    explained: float  #: share of the elements looked at
    bits: float  #: length of the description


@dataclass(frozen=True)
class ProgramReport:
    text: str
    first_wrong: str | None  #: stage; None: it matches
    stages: tuple[StageVerdict, ...]
    mistakes: tuple[Mistake, ...]  #: the shortest, and those that explain as much
    search_cut_off: bool  #: it took too long, and there may be others

    @property
    def matches(self) -> bool:
        return self.first_wrong is None

    def __str__(self) -> str:
        return self.text


class Program:
    """What a kernel computes: axes, inputs and stages. PROGRAMS.md has the language.

    program = tilescope.Program('''
        axes   n: rows by 128; m: cols by 128; k: depth by 64
        input  a[n, k]: f16; w[m, k]: f16; bias[m]
        stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
        stage  y[n, m]: f16 = silu(acc + bias)
        output y''')
    program.check(dict(a=a, w=w, bias=bias), dict(y=y))

    Errors: Error, a ValueError, with line and column of the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._program = _core.Program(text)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name, is_stage in self._program.names() if not is_stage)

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(name for name, is_stage in self._program.names() if is_stage)

    def judge(
        self,
        inputs: Mapping[str, Array],
        stored: Mapping[str, Array],
        *,
        sizes: Mapping[str, int] | None = None,
        dtypes: Mapping[str, str] | None = None,
        causes: bool = True,
    ) -> ProgramReport:
        """Holds what a kernel stored against what it was given, in float64.

        inputs:  an array for each input of the program, along its indices
        stored:  arrays of outputs, and of other stages where there are any. A state, a stage that goes `over` an axis, is
                 [blocks, ...], after each block, or without blocks that after the last one.
        sizes:   numbers that no shape of an input tells
        dtypes:  what uint8 arrays hold codes of: {"a": "e4m3"}
        causes:  whether to look for the formula that explains what diverges

        Errors: Error, a ValueError, for what cannot be judged; TypeError for what is no array.
        """
        held = self._program.judge(_bits(inputs, dtypes), _bits(stored, dtypes), dict(sizes or {}), causes)
        return ProgramReport(
            held.text,
            held.first_wrong or None,
            tuple(StageVerdict(*stage) for stage in held.stages),
            tuple(Mistake(*mistake) for mistake in held.mistakes),
            held.is_cut_off,
        )

    def check(self, inputs: Mapping[str, Array], stored: Mapping[str, Array], **options: Any) -> ProgramReport:
        """As judge(), for a test: raises Diverged, an AssertionError whose text is the report, where something diverges."""
        report = self.judge(inputs, stored, **options)
        if not report.matches:
            raise Diverged(report)
        return report

    def save(
        self,
        path: str | os.PathLike[str],
        inputs: Mapping[str, Array],
        stored: Mapping[str, Array],
        *,
        sizes: Mapping[str, int] | None = None,
        dtypes: Mapping[str, str] | None = None,
        kernel: str = "",
    ) -> None:
        """Writes the program and its arrays to a file that tile-diff judges; arguments as of judge().

        Errors: Error, a ValueError, for what could not be judged, and where the file cannot be written.
        """
        self._program.save(
            os.fspath(path), self.text, _bits(inputs, dtypes), _bits(stored, dtypes), dict(sizes or {}), kernel
        )
