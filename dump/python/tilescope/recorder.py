"""Device buffers for what a kernel computes, and the recording that they become."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import _core
from ._arrays import host_bits, shape_bits
from ._call import OPTIONS, call_of

_OUTPUTS = {"forward": ("o", "lse"), "backward": ("dq", "dk", "dv")}


class Recorder:
    """Buffers for the tiles of one call, as torch tensors on the device of q.

    q, k, v:      of the call, as check() takes them; what the kernel reads may not change before the recording is made
    stages:       what the kernel stores, under the names of FORMAT.md: "q", "k", "v", "s", "m", "p", "l", "acc"
    block_m/n:    tile sizes of the kernel
    dout, o, lse: make it a backward pass; its stages are "s", "p", "dout", "delta", "dp", "ds" beside the operands
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
        select: str | None = None,
        **options: Any,
    ) -> None:
        unknown = set(options) - set(OPTIONS)
        if unknown:
            raise TypeError(f"Recorder() has no {', '.join(sorted(unknown))}; choose from {', '.join(OPTIONS)}")
        self._options = {**OPTIONS, **options, "block_m": block_m, "block_n": block_n}
        self._direction = "forward" if dout is None else "backward"
        given = {"q": q, "k": k, "v": v, "dout": dout, "o": o, "lse": lse}
        self._arrays = {name: array for name, array in given.items() if array is not None}
        self._select = os.environ.get("TILESCOPE_SELECT", "") if select is None else select
        shapes = {name: shape_bits(name, array) for name, array in self._arrays.items()}
        call = call_of(shapes, self._direction, self._options).recording
        if self._select:
            call.select(self._select)
        self._boxes = {stage: call.box(stage) for stage in stages if call.selects_stage(stage)}
        self._buffers = {stage: _unwritten(box[4:], q.device) for stage, box in self._boxes.items()}

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that have a buffer."""
        return tuple(self._buffers)

    def buffer(self, stage: str) -> Any:
        """Where the kernel stores tiles of the stage: float32 [batch][head][q_block][kv_tile][row][column] of the
        smallest box with what is selected; None where the stage is not recorded."""
        return self._buffers.get(stage)

    def origin(self, stage: str) -> tuple[int, int, int, int]:
        """Batch entry, head, query block and KV tile of the first tile in its buffer."""
        return tuple(self._boxes[stage][:4])

    def outputs(self, **outputs: Any) -> None:
        """What the kernel wrote: o and lse, in a backward pass dq, dk and dv. Errors: Error for other names."""
        known = _OUTPUTS[self._direction]
        for name, array in outputs.items():
            if name not in known:
                raise _core.Error(f"{name} is no output of a {self._direction} pass; choose from {', '.join(known)}")
            self._arrays[name] = array

    def recording(self) -> _core.Recording:
        """What was recorded up to now, in host memory, for tilescope.judge()."""
        bits = {name: host_bits(name, array) for name, array in self._arrays.items()}
        call = call_of(bits, self._direction, self._options).recording
        stages = ",".join((*self._buffers, *_OUTPUTS[self._direction]))
        whole = [clause for clause in self._select.split(":") if clause and not clause.startswith("stage=")]
        call.select(":".join([*whole, f"stage={stages}"]))
        for stage, buffer in self._buffers.items():
            call.set_tiles(stage, buffer.cpu().numpy())
        return call

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes the recording, whole or not at all; where the environment has TILESCOPE_DIR, into that folder under a
        name of its own. Returns the path. Errors: Error where it cannot be written."""
        return _core.save(os.fspath(path), self.recording())


def _unwritten(shape, device):
    """Elements that count as unwritten until the kernel stores them."""
    import torch

    return torch.full(shape, _core.unwritten_bits, dtype=torch.int32, device=device).view(torch.float32)
