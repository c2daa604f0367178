"""Stores of elements for kernels of the CuTe DSL, into the buffers of a Recorder.

    @cute.kernel
    def my_attention(..., dump_s, dump_m):
        ...
        tc.store(dump_s, (batch, head, q_block, kv_tile, row, col), score)
        tc.store(dump_m, (batch, head, q_block, kv_tile, row, 0), row_max)

    launch(..., tc.buffer_of(recorder, "s"), tc.buffer_of(recorder, "m"))

Where there is no recorder, or no such stage in it, no store is compiled.
"""

import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack


class Buffer:
    """An argument of a kernel: tiles of one stage, and the batch entry, head, query block and KV tile of the first; or,
    with a tensor of None, no value at all."""

    def __init__(self, tensor, origin, is_whole):
        self.tensor = tensor
        self.origin = origin
        self.is_whole = is_whole

    def __c_pointers__(self):
        return [] if self.tensor is None else self.tensor.__c_pointers__()

    def __get_mlir_types__(self):
        # Inside of a launch a tensor has values, and no types of its own.
        types = getattr(self.tensor, "__get_mlir_types__", None)
        return types() if types else [value.type for value in self.__extract_mlir_values__()]

    def __extract_mlir_values__(self):
        return [] if self.tensor is None else cutlass.extract_mlir_values(self.tensor)

    def __new_from_mlir_values__(self, values):
        tensor = None if self.tensor is None else cutlass.new_from_mlir_values(self.tensor, values)
        return Buffer(tensor, self.origin, self.is_whole)


def buffer_of(recorder, stage):
    """What a kernel takes to store the stage into a Recorder, or nothing of it where that is None or has no such stage."""
    data = None if recorder is None else recorder.buffer(stage)
    if data is None:
        return Buffer(None, None, True)
    return Buffer(from_dlpack(data), recorder.origin(stage), recorder.is_whole)


@cute.jit
def store(buffer, place, value):
    """Stores an element by batch entry, head, query block, KV tile, and row and column of its tile; tiles that are not
    selected, and stages without a KV tile, take any."""
    if cutlass.const_expr(buffer.tensor is not None):
        if cutlass.const_expr(buffer.is_whole):
            buffer.tensor[place] = cutlass.Float32(value)
        else:
            b = place[0] - buffer.origin[0]
            h = place[1] - buffer.origin[1]
            m = place[2] - buffer.origin[2]
            n = place[3] - buffer.origin[3]
            sizes = buffer.tensor.shape
            inside = (b >= 0) and (b < sizes[0]) and (h >= 0) and (h < sizes[1])
            inside = inside and (m >= 0) and (m < sizes[2]) and (n >= 0) and (n < sizes[3])
            if inside:
                buffer.tensor[(b, h, m, n, place[4], place[5])] = cutlass.Float32(value)
