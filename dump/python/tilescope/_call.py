"""A call of attention as its arrays: where each element lies, and what is declared of it."""

import dataclasses
import math

import numpy as np

from . import _core
from ._arrays import numbers

#: What check() takes beside arrays, and what holds where it is not given.
OPTIONS = dict(
    layout="bhsd", causal=False, window=None, scale=None, soft_cap=0.0, bias=None, alibi_slopes=None, sink=None,
    cu_seqlens=None, descales=None, dropout_p=0.0, like=None, declare=None, block_m=64, block_n=64,
)  # fmt: skip
LAYOUTS = ("bhsd", "bshd", "packed")
#: How a kernel is taken to add up of which only q, k, v and o are known, by bytes of an element of q: the least exact
#: of what kernels of such inputs usually do.
_USUAL_ACCUMULATION = {4: "fma_f32", 2: "tensor_core_f32", 1: "tensor_core_fp8"}
_SUMS = {"forward": ("s", "acc"), "backward": ("s", "dp", "dq", "dk", "dv")}


def _require(holds, message):
    if not holds:
        raise _core.Error(message)


def text_of(value):
    """A value as declarations have it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(int(each)) for each in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def refuse_dropout(name, value):
    """Errors: Error where the call drops elements of P: no oracle draws the same random numbers."""
    _require(
        not value,
        f"{name} = {value!r}: dropout is not supported, since the kernel's random numbers are not known; "
        "run the kernel with a dropout of 0",
    )


def _starts(cu_seqlens):
    """Offsets of q's and of k's batch entries, as lists of integers."""
    both = cu_seqlens if isinstance(cu_seqlens, (tuple, list)) and np.ndim(cu_seqlens[0]) == 1 else (cu_seqlens,) * 2
    _require(len(both) == 2, "cu_seqlens: pass one array, or one for q and one for k")
    offsets = [[int(each) for each in numbers("cu_seqlens", one).ravel()] for one in both]
    for one in offsets:
        _require(len(one) > 1 and one[0] == 0 and one == sorted(one), f"cu_seqlens = {one}: must ascend from 0")
    _require(len(offsets[0]) == len(offsets[1]), "cu_seqlens: q and k have different numbers of batch entries")
    return offsets


def _lengths(starts, rows):
    """Rows of each batch entry; of all entries at once where nothing is packed."""
    return [end - begin for begin, end in zip(starts, starts[1:])] if starts else [rows]


def _times(shape):
    return " x ".join(str(size) for size in shape)


@dataclasses.dataclass
class Batch:
    """The arrays of a call as [batch][heads][rows][columns], and where packed batch entries begin."""

    arrays: dict  #: of HostBits
    q_starts: list = None  #: rows; None where no sequences are packed
    kv_starts: list = None
    direction: str = "forward"

    @classmethod
    def of(cls, bits, layout, cu_seqlens, backward=False):
        """Views of the arrays; none is copied. Errors: Error for shapes that are those of no call."""
        _require(layout in LAYOUTS, f"layout = {layout!r}: choose from {', '.join(LAYOUTS)}")
        is_packed = layout == "packed"
        _require(is_packed == (cu_seqlens is not None), 'cu_seqlens goes with layout="packed", and only there')
        direction = "backward" if backward else "forward"
        if is_packed:
            q_starts, kv_starts = _starts(cu_seqlens)
            views = {name: cls._packed(name, array) for name, array in bits.items()}
            return cls(views, q_starts, kv_starts, direction)
        return cls({name: cls._padded(name, array, layout) for name, array in bits.items()}, direction=direction)

    @staticmethod
    def _packed(name, array):
        if name == "lse":
            _require(array.bits.ndim == 2, f"lse has shape {array.shape}; packed, it is [heads, total]")
            return array.with_bits(array.bits[None, :, :, None])
        _require(array.bits.ndim == 3, f"{name} has shape {array.shape}; packed, it is [total, heads, head_dim]")
        return array.with_bits(np.moveaxis(array.bits, 1, 0)[None])

    @staticmethod
    def _padded(name, array, layout):
        bits = array.bits[..., None] if name == "lse" else array.bits
        _require(2 <= bits.ndim <= 4, f"{name} has shape {array.shape}; pass {layout}, or less leading axes")
        if layout == "bshd" and name != "lse" and bits.ndim > 2:
            bits = np.moveaxis(bits, -2, -3)
        return array.with_bits(bits.reshape((1,) * (4 - bits.ndim) + bits.shape) if bits.ndim < 4 else bits)

    def shape(self, block_m, block_n):
        """What /problem has of shapes and stored types, as text."""
        q, k, v = (self.arrays[name] for name in "qkv")
        self._require_shapes()
        for name, starts in (("q", self.q_starts), ("k", self.kv_starts)):
            rows, end = self.arrays[name].shape[2], starts[-1] if starts else 0
            _require(end <= rows, f"cu_seqlens ends at {end}; {name} has {rows} rows")
        seqlens_q, seqlens_kv = _lengths(self.q_starts, q.shape[2]), _lengths(self.kv_starts, k.shape[2])
        dtypes = {f"dtype_{name}": array.dtype for name, array in self.arrays.items() if name != "lse"}
        sizes = {
            "batch": q.shape[0] if self.q_starts is None else len(seqlens_q),
            "heads": q.shape[1],
            "heads_kv": k.shape[1],
            "seqlen_q": max(seqlens_q),
            "seqlen_kv": max(seqlens_kv),
            "head_dim": q.shape[3],
            "head_dim_v": v.shape[3],
            "block_m": min(int(block_m), max(seqlens_q)),
            "block_n": min(int(block_n), max(seqlens_kv)),
        }
        for name, size in sizes.items():
            _require(size > 0, f"{name} is {size}: there is nothing to judge")
        per_head = any(self.arrays[name].shape[1] != k.shape[1] for name in ("dk", "dv") if name in self.arrays)
        declared = {**sizes, **dtypes, "direction": self.direction, "dkv_per_head": per_head}
        return {name: text_of(value) for name, value in declared.items()}

    def _require_shapes(self):
        """Errors: Error where an array is not as large as those that it goes with."""
        q, k, v = (self.arrays[name] for name in "qkv")
        batch, heads, rows, columns = q.shape
        heads_kv, keys, columns_v = k.shape[1], k.shape[2], v.shape[3]
        of_queries, of_keys = (heads,), (heads_kv,)
        expected = {
            "k": (of_keys, keys, columns),
            "v": (of_keys, keys, columns_v),
            "o": (of_queries, rows, columns_v),
            "lse": (of_queries, rows, 1),
            "dout": (of_queries, rows, columns_v),
            "dq": (of_queries, rows, columns),
            "dk": ((heads_kv, heads), keys, columns),
            "dv": ((heads_kv, heads), keys, columns_v),
        }
        for name, array in self.arrays.items():
            if name == "q":
                continue
            some_heads, some_rows, some_columns = expected[name]
            _require(
                (array.shape[0], *array.shape[2:]) == (batch, some_rows, some_columns) and array.shape[1] in some_heads,
                f"{name} is {_times(array.shape)} where q is {_times(q.shape)} and k is {_times(k.shape)}: "
                f"{name} should be {_times((batch, some_heads[0], some_rows, some_columns))} "
                "[batch, heads, seqlen, head_dim]",
            )

    def call(self, shape, family, declared):
        """The call as the oracle judges it. Keeps the arrays alive."""
        return Call(self, _core.Call(shape, family, declared))


@dataclasses.dataclass
class Call:
    """A call that can be judged: `recording` holds what is given of it so far."""

    batch: Batch
    recording: object

    def __post_init__(self):
        backward = self.batch.direction == "backward"
        inputs = ("q", "k", "v", "dout", "o", "lse") if backward else ("q", "k", "v")
        outputs = ("dq", "dk", "dv") if backward else ("o", "lse")
        for name, array in self.batch.arrays.items():
            if name not in inputs + outputs:
                continue
            starts = self.batch.kv_starts if name in ("k", "v", "dk", "dv") else self.batch.q_starts
            elements = [] if starts is None else [begin * _elements(array.bits, 2) for begin in starts[:-1]]
            add = self.recording.set_input if name in inputs else self.recording.set_output
            add(name, array.bits, array.dtype, elements)

    def set_side_inputs(self, alibi_slopes, sink, descales):
        """Slopes and sinks as lists; descales by operand."""
        lengths = [_lengths(starts, 0) if starts else [] for starts in (self.batch.q_starts, self.batch.kv_starts)]
        unknown = set(descales) - {"q", "k", "v"}
        _require(not unknown, f"descales has {', '.join(sorted(unknown))}; choose from q, k, v")
        of_operands = (self._descale(descales, name) for name in "qkv")
        self.recording.set_side_inputs(*lengths, list(alibi_slopes), list(sink), *of_operands)

    def _descale(self, descales, name):
        """Values, heads, blocks of a head, rows of a block, channels."""
        if descales.get(name) is None:
            return [], 0, 1, 0, 0
        values = numbers(f"descales[{name!r}]", descales[name])
        if values.size == 1:
            return [float(values.ravel()[0])], 0, 1, 0, 0
        heads, rows = self.batch.arrays[name].shape[1:3]
        if values.ndim > 3:
            shape = _times(values.shape)
            _require(values.shape[2] == 1, f"descales[{name!r}] is {shape}; by channel, its third axis is 1")
            return list(values.ravel()), heads, 1, rows, values.shape[3]
        blocks = values.shape[2] if values.ndim > 2 else 1
        return list(values.ravel()), heads, blocks, -(-rows // blocks), 0

    def set_bias(self, bias):
        """Four axes of numbers, or of booleans of which True is seen."""
        values = numbers("bias", bias)
        if "bool" in str(bias.dtype):
            values = np.where(values != 0, 0.0, -np.inf)
        axes = (1,) * (4 - values.ndim) + values.shape
        self.recording.set_bias(np.ascontiguousarray(values.reshape(axes), dtype=np.float32))


def _elements(bits, axis):
    return bits.strides[axis] // bits.itemsize


def declarations_of(batch, options):
    """What the options of check() declare beside the shape."""
    q = batch.arrays["q"].bits
    declared = {}
    if not options["like"]:
        declared = {f"{stage}.accumulation": _USUAL_ACCUMULATION[q.itemsize] for stage in _SUMS[batch.direction]}
        declared.update({"p.exp": "ex2_approx", "problem.dtype_p": batch.arrays["v"].dtype})
        if batch.direction == "backward":
            declared["problem.dtype_ds"] = batch.arrays["q"].dtype
    declared.update(_mask_of(options))
    if options["soft_cap"]:
        declared["problem.logits_soft_cap"] = float(options["soft_cap"])
    if options["alibi_slopes"] is not None:
        declared["problem.alibi"] = "distance"
    if options["sink"] is not None:
        declared["problem.sink"] = "last"
    declared.update(options["declare"] or {})
    return {name: text_of(value) for name, value in declared.items()}


def _mask_of(options):
    causal = "top_left" if options["causal"] is True else options["causal"]
    known = (False, True, "top_left", "bottom_right")
    _require(causal in known, f"causal = {causal!r}: choose from {', '.join(map(repr, known))}")
    declared = {"problem.mask": "causal" if causal else "none"}
    if causal:
        declared["problem.causal_alignment"] = causal
    window = options["window"]
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        declared.update({"problem.window_left": int(left), "problem.window_right": int(right)})
    return declared


def call_of(bits, direction, options, merged=None):
    """The call that check() and Recorder describe; `merged`: o and lse of the rank after a step, as o and lse lie.
    Errors: Error for what is none."""
    refuse_dropout("dropout_p", options["dropout_p"])
    batch = Batch.of(bits, options["layout"], options["cu_seqlens"], backward=direction == "backward")
    scale = options["scale"]
    shape = batch.shape(options["block_m"], options["block_n"])
    shape["sm_scale"] = text_of(float(1 / math.sqrt(int(shape["head_dim"])) if scale is None else scale))
    shard = dict(options.get("shard") or {})
    run = shard.pop("run", "")
    shape.update({name: text_of(value) for name, value in shard.items()})
    call = batch.call(shape, options["like"] or "", declarations_of(batch, options))
    call.recording.set_run(run)
    slopes = [] if options["alibi_slopes"] is None else numbers("alibi_slopes", options["alibi_slopes"]).ravel()
    sinks = [] if options["sink"] is None else numbers("sink", options["sink"]).ravel()
    call.set_side_inputs(slopes, sinks, options["descales"] or {})
    if options["bias"] is not None:
        call.set_bias(options["bias"])
    for name, array in (merged or {}).items():
        of = name.removeprefix("merged_")
        view = Batch.of({of: array}, options["layout"], options["cu_seqlens"]).arrays[of]
        call.recording.set_output(name, view.bits, view.dtype, [])
        call.batch.arrays[name] = view
    return call
