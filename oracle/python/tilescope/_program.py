"""Kernels that are no attention: what they compute, declared as text, and what they stored, held against it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import host_bits
from ._check import Array, Diverged
from .recorder import array_address, bytes_beside, host_array, unwritten_array

WHOLE = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
# What is declared so is held in bytes that are no numbers.
CODES = ("e4m3", "e5m2", "e2m1", "ue8m0")


def _numbers(name: str, array: Array, declared: str | None, codes: str | None) -> Array:
    """Whole numbers, as masks, indices and quantised values, as float32; of bytes those that no dtype is said of."""
    if np.isscalar(array):
        return np.array(array, np.float32)
    dtype = str(getattr(array, "dtype", "")).rsplit(".", maxsplit=1)[-1]
    if dtype not in WHOLE or declared is None or (dtype == "uint8" and (codes or declared in CODES)):
        return array
    whole = np.asarray(array.cpu() if hasattr(array, "cpu") else array)
    numbers = whole.astype(np.float32)
    if not np.array_equal(numbers, whole):
        raise TypeError(f"{name} is {dtype}, and holds numbers that float32 does not; split them into smaller ones")
    return numbers


def _bits(
    program: Program, arrays: Mapping[str, Array], codes_of: Mapping[str, str] | None
) -> dict[str, tuple[str, Any]]:
    """Each array as its bits in host memory, row-major, with the dtype that they stand for."""
    declared = {name: dtype for name, _, dtype in program._program.names()}
    codes_of = codes_of or {}
    numbers = {name: _numbers(name, array, declared.get(name), codes_of.get(name)) for name, array in arrays.items()}
    all_bits = {name: host_bits(name, array, codes_of.get(name)) for name, array in numbers.items()}
    return {name: (each.dtype, np.asarray(each.bits, order="C"), [], 0, []) for name, each in all_bits.items()}


@dataclass(frozen=True)
class StageVerdict:
    """What was found in the stored elements of one stage, each against the stored stages before it."""

    name: str
    compared: int
    outside: int  #: further from what is expected than rounding explains
    outside_end_to_end: int  #: the same of what the inputs alone give; where nothing is wrong it is not looked at, and 0
    inherited: int  #: of these, that agree with the stored stages before them
    unwritten: int  #: that no hook wrote; outside, unless a kernel may leave them out
    conflicts: int  #: writes that changed an element already written
    not_judged: int  #: nothing can be told of them
    largest_difference: float
    budget_used: float  #: largest difference over its tolerance, of the elements that match
    hooks: tuple[str, ...]  #: "csrc/gemm.cu:61": the lines that recorded it, where hooks of CUDA kernels did


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
    first_wrong_end_to_end: str | None  #: the same of what the inputs alone give
    stages: tuple[StageVerdict, ...]
    mistakes: tuple[Mistake, ...]  #: the shortest, and those that explain as much
    search_cut_off: bool  #: it took too long, and there may be others

    @property
    def matches(self) -> bool:
        return self.first_wrong is None

    def __str__(self) -> str:
        return self.text


def _required(report: ProgramReport) -> ProgramReport:
    if not report.matches:
        raise Diverged(report)
    return report


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
        return tuple(name for name, is_stage, _ in self._program.names() if not is_stage)

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(name for name, is_stage, _ in self._program.names() if is_stage)

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
        return self._judge(_bits(self, inputs, dtypes), _bits(self, stored, dtypes), dict(sizes or {}), causes)

    def _judge(self, inputs: Any, stored: Any, sizes: dict[str, int], causes: bool) -> ProgramReport:
        held = self._program.judge(inputs, stored, sizes, causes)
        return ProgramReport(
            held.text,
            held.first_wrong or None,
            held.first_wrong_end_to_end or None,
            tuple(StageVerdict(*stage, tuple(hooks)) for *stage, hooks in held.stages),
            tuple(Mistake(*mistake) for mistake in held.mistakes),
            held.is_cut_off,
        )

    def check(self, inputs: Mapping[str, Array], stored: Mapping[str, Array], **options: Any) -> ProgramReport:
        """As judge(), for a test: raises Diverged, an AssertionError whose text is the report, where something diverges."""
        return _required(self.judge(inputs, stored, **options))

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
            os.fspath(path),
            self.text,
            _bits(self, inputs, dtypes),
            _bits(self, stored, dtypes),
            dict(sizes or {}),
            kernel,
        )

    def recorder(
        self,
        inputs: Mapping[str, Array],
        *,
        stages: Sequence[str] | None = None,
        sizes: Mapping[str, int] | None = None,
        dtypes: Mapping[str, str] | None = None,
        select: str | None = None,
    ) -> ProgramRecorder:
        """Buffers for what a kernel computes, which its hooks fill (PROGRAMS.md), where the inputs lie. Keeps a copy of these.

        stages:  that the kernel has hooks for; None: all
        select:  which part of them: "n=0-3:k=2:stage=acc", of an axis the blocks that it is cut into; without it that of
                 TILESCOPE_SELECT

        Errors: Error, a ValueError, for inputs that do not fit, names and ranges that the program does not have, and where nothing
        is selected.
        """
        return ProgramRecorder(self, inputs, stages, dict(sizes or {}), dtypes, select)


class ProgramRecorder:
    """Buffers for stages of one call of a declared kernel: torch tensors where an input is one, NumPy arrays otherwise."""

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, Array],
        stages: Sequence[str] | None,
        sizes: dict[str, int],
        dtypes: Mapping[str, str] | None,
        select: str | None,
    ) -> None:
        self.program = program
        self._sizes = sizes
        self._dtypes = dtypes
        self._inputs = {
            name: (dtype, bits.copy(), *recorded) for name, (dtype, bits, *recorded) in _bits(program, inputs, dtypes).items()
        }
        self._like = next((array for array in inputs.values() if hasattr(array, "data_ptr")), None)
        selection = program._program.part_of(os.environ.get("TILESCOPE_SELECT", "")) if select is None else select
        asked = list(program.stages if stages is None else stages)
        self._hooks = _core.ProgramBuffers(program._program, self._inputs, sizes, asked, selection)
        self._boxes = {name: (tuple(first), tuple(count)) for name, first, count in self._hooks.boxes()}
        self._buffers = {name: unwritten_array(count, self._like) for name, (_, count) in self._boxes.items()}
        self._tables = None
        self._outputs: dict[str, Any] = {}

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that have a buffer."""
        return tuple(self._buffers)

    def buffer(self, stage: str) -> Any:
        """Where the kernel stores the stage: float32 along its axes, with the blocks of a state before them, of the part that is
        selected; None where it is not recorded."""
        return self._buffers.get(stage)

    def origin(self, stage: str) -> tuple[int, ...]:
        """The indices of the first element in its buffer."""
        return self._boxes[stage][0]

    def sink(self) -> bytes:
        """What a CUDA kernel with the hooks of dump/program_hook.h takes (TILESCOPE_PROGRAM_SINK_OF). It is compiled with -I of
        tilescope.include() and -DTILESCOPE_DUMP=1."""
        if self._tables is None:
            addresses = [array_address(buffer) for buffer in self._buffers.values()]
            self._tables = bytes_beside(self._hooks.tables(addresses), self._like)
        return self._hooks.sink(array_address(self._tables))

    def outputs(self, **outputs: Array) -> None:
        """What the kernel stored itself: whole stages, in the place of what hooks recorded of them. Errors: Error for names
        that the program does not have."""
        for name, array in outputs.items():
            if name not in self.program.stages:
                raise _core.Error(f"{name} is no stage; choose from {', '.join(self.program.stages)}")
            self._outputs[name] = array

    def _stored(self) -> dict[str, Any]:
        conflicts = [0] * len(self._buffers)
        hooks: list[list[str]] = [[]] * len(self._buffers)
        if self._tables is not None:
            tables = host_array(self._tables).tobytes()
            conflicts, hooks = self._hooks.conflicts(tables), self._hooks.hooks(tables)
        stored = {}
        for (name, buffer), changed, lines in zip(self._buffers.items(), conflicts, hooks):
            stored[name] = ("f32", host_array(buffer).view(np.uint32), list(self._boxes[name][0]), changed, lines)
        return {**stored, **_bits(self.program, self._outputs, self._dtypes)}

    def judge(self, *, causes: bool = True) -> ProgramReport:
        """As Program.judge(), what was recorded up to now. Errors: Error where hooks were given a place that a stage does not
        have, and for what cannot be judged."""
        return self.program._judge(self._inputs, self._stored(), self._sizes, causes)

    def check(self, *, causes: bool = True) -> ProgramReport:
        """As judge(), for a test: raises Diverged, an AssertionError whose text is the report, where something diverges."""
        return _required(self.judge(causes=causes))

    def save(self, path: str | os.PathLike[str], *, kernel: str = "") -> None:
        """Writes what was recorded to a file that tile-diff judges. Errors: those of judge(), and where it cannot be written."""
        self.program._program.save(
            os.fspath(path), self.program.text, self._inputs, self._stored(), self._sizes, kernel
        )
