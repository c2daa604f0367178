"""Device buffers for what a kernel computes, and the recording that they become."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._arrays import host_bits, shape_bits
from ._call import OPTIONS, call_of, refuse_dropout

_OUTPUTS = {"forward": ("o", "lse"), "backward": ("dq", "dk", "dv")}


class Recorder:
    """Buffers for the tiles of one call: torch tensors on the device of q, NumPy arrays where q is one.

    q, k, v:      of the call, as check() takes them; what the kernel reads may not change before the recording is made
    stages:       what the kernel stores, under the names of FORMAT.md: "q", "k", "v", "s", "m", "p", "l", "acc"
    block_m/n:    tile sizes of the kernel
    dout, o, lse: make it a backward pass; its stages are "s", "p", "dout", "delta", "dp", "ds" beside the operands
    shard:        which part of a call on several ranks it is, by the names of FORMAT.md: run, ranks, rank, step, q_positions,
                  kv_positions, whole_seqlen_q, whole_seqlen_kv
    select:       which tiles, as TILESCOPE_SELECT has them: "head=0-1:q_block=3"; without it that of the environment
    options:      those of check()

    Errors: Error for what is no call, for a stage that the pass does not have, and where nothing is selected.
    """

    def __init__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        stages: Sequence[str],
        block_m: int,
        block_n: int,
        dout: Any = None,
        o: Any = None,
        lse: Any = None,
        shard: dict[str, Any] | None = None,
        select: str | None = None,
        **options: Any,
    ) -> None:
        unknown = set(options) - set(OPTIONS)
        for name in unknown:
            if "dropout" in name.lower():
                refuse_dropout(name, options[name])
        if unknown:
            raise TypeError(f"Recorder() has no {', '.join(sorted(unknown))}; choose from {', '.join(OPTIONS)}")
        self._options = {**OPTIONS, **options, "block_m": block_m, "block_n": block_n, "shard": shard}
        self._direction = "forward" if dout is None else "backward"
        given = {"q": q, "k": k, "v": v, "dout": dout, "o": o, "lse": lse}
        self._arrays = {name: array for name, array in given.items() if array is not None}
        shapes = {name: shape_bits(name, array) for name, array in self._arrays.items()}
        call = call_of(shapes, self._direction, self._options).recording
        self._select = call.part_of(os.environ.get("TILESCOPE_SELECT", "")) if select is None else select
        if self._select:
            call.select(self._select)
        self._boxes = {stage: call.box(stage) for stage in stages if call.selects_stage(stage)}
        self._buffers = {stage: unwritten_array(box[4:], q) for stage, box in self._boxes.items()}
        self._hooks = _core.HookBuffers(call, list(self._buffers)) if self._buffers else None
        self._tables = None
        self._merged = {}

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that have a buffer."""
        return tuple(self._buffers)

    def buffer(self, stage: str) -> Any:
        """Where the kernel stores tiles of the stage: float32 [batch][head][q_block][kv_tile][row][column] of the
        smallest box with what is selected; None where the stage is not recorded."""
        return self._buffers.get(stage)

    @property
    def is_whole(self) -> bool:
        """Whether each buffer has every tile of the call."""
        return not self._select

    def origin(self, stage: str) -> tuple[int, int, int, int]:
        """Batch entry, head, query block and KV tile of the first tile in its buffer."""
        return tuple(self._boxes[stage][:4])

    def sink(self) -> bytes:
        """What a CUDA kernel with the hooks of dump/hook.h takes (TILESCOPE_SINK_OF): they store into the buffers. It is
        compiled with -I of tilescope.include() and -DTILESCOPE_DUMP=1."""
        if self._hooks is None:
            return b""
        if self._tables is None:
            self._tables = bytes_beside(self._hooks.tables(), self._arrays["q"])
        buffers = {stage: array_address(buffer) for stage, buffer in self._buffers.items()}
        return self._hooks.sink(array_address(self._tables), buffers)

    def outputs(self, **outputs: Any) -> None:
        """What the kernel wrote: o and lse, in a backward pass dq, dk and dv. Errors: Error for other names."""
        known = _OUTPUTS[self._direction]
        for name, array in outputs.items():
            if name not in known:
                raise _core.Error(f"{name} is no output of a {self._direction} pass; choose from {', '.join(known)}")
            self._arrays[name] = array

    def merged(self, *, o: Any, lse: Any) -> None:
        """Of a shard: what the rank has after merging the step, float32 as o and lse of the call. Errors: Error without
        `shard`."""
        if not self._options["shard"]:
            raise _core.Error("merged() is of a shard; give Recorder one")
        self._merged = {"merged_o": o, "merged_lse": lse}

    def recording(self) -> _core.Recording:
        """What was recorded up to now, in host memory, for tilescope.judge(). Errors: Error where hooks were given a place
        that the call does not have."""
        if self._tables is not None:
            self._hooks.require_inside(host_array(self._tables).tobytes())
        bits = {name: host_bits(name, array) for name, array in self._arrays.items()}
        merged = {name: host_bits(name, array) for name, array in self._merged.items()}
        call = call_of(bits, self._direction, self._options, merged).recording
        stages = ",".join((*self._buffers, *_OUTPUTS[self._direction], *merged))
        whole = [clause for clause in self._select.split(":") if clause and not clause.startswith("stage=")]
        call.select(":".join([*whole, f"stage={stages}"]))
        for stage, buffer in self._buffers.items():
            call.set_tiles(stage, host_array(buffer))
        return call

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes the recording, whole or not at all; where the environment has TILESCOPE_DIR, into that folder under a
        name of its own. Returns the path. Errors: Error where it cannot be written."""
        return _core.save(os.fspath(path), self.recording())


def unwritten_array(shape, like):
    """Elements that count as unwritten until the kernel stores them, where `like` lies."""
    if like is None or isinstance(like, np.ndarray):
        return np.full(shape, _core.unwritten_bits, dtype=np.int32).view(np.float32)
    import torch

    return torch.full(shape, _core.unwritten_bits, dtype=torch.int32, device=like.device).view(torch.float32)


def bytes_beside(data, like):
    """The bytes in memory of their own, where `like` lies."""
    copy = np.frombuffer(data, dtype=np.uint8).copy()
    if like is None or isinstance(like, np.ndarray):
        return copy
    import torch

    return torch.from_numpy(copy).to(like.device)


def array_address(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()


def host_array(array):
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()
