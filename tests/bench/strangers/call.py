"""The call of a kernel: what C knows of a problem, the memory around it, and the stages that come back."""

import ctypes
import math

import numpy as np

from strangers import rounding
from strangers.problem import LN2, LOG2E

# Names that the text of a kernel uses for a problem: whole numbers, then floats.
SIZES = """B H HKV GROUP NQ NK D DV BM BN LDQ LDK LDV LDP CAUSAL DIAG LEFT RIGHT SKIPS REVERSE SPLIT SPLITS LANES LANE_COLS
SUMCAST P_IS_CAST PTYPE ATYPE OTYPE BASE2 ALIBI PER_HEAD DSTYPE DS_IS_CAST""".split()
NUMBERS = "FACTOR CAP UNIT STALE STRETCH PSCALE TOP SUM_SCALE LSE_UNIT LSE_FACTOR SM_SCALE".split()
# Arrays by the arena that they lie in, one behind the other.
GLOBAL = "Q K V DOUT OIN LSEIN".split()
SHARED = "SQ SK SV SP SCORE WIDE MAX SUM ACC OLD ALPHA WEIGHT SDO DELTA DP SDS WIDE_DS DK_SUM DV_SUM".split()
OUTPUT = "O LSE DQ DK DV_OUT".split()
TILES = {"forward": "q k v s m p l acc".split(), "backward": "q k v s p dout delta dp ds".split()}
OUTPUTS = {"forward": {"o": "O", "lse": "LSE"}, "backward": {"dq": "DQ", "dk": "DK", "dv": "DV_OUT"}}
ALL_TILES = list(dict.fromkeys(TILES["forward"] + TILES["backward"]))
GUARD = 4096  # floats before and behind the arrays of an arena
UNWRITTEN = np.array(0x7FD17E5C, np.uint32).view(np.float32)


class Call(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_int) for name in SIZES] + [(name, ctypes.c_float) for name in NUMBERS]
                + [(name, ctypes.c_long) for name in GLOBAL + SHARED + OUTPUT]
                + [(name, ctypes.c_long) for name in ("global_size", "shared_size", "output_size")]
                + [(name, ctypes.POINTER(ctypes.c_float)) for name in ("global_", "shared", "output", "slopes")]
                + [("tile_" + name, ctypes.POINTER(ctypes.c_float)) for name in ALL_TILES])


def declaration():
    """struct Call in C, and UNPACK, which makes its sizes and numbers local names."""
    kinds = {ctypes.c_int: "int", ctypes.c_float: "float", ctypes.c_long: "long", ctypes.POINTER(ctypes.c_float): "float *"}
    lines = [f"    {kinds[kind]} {name};" for name, kind in Call._fields_]
    unpack = [f"const {kinds[kind]} {name} = call->{name};" for name, kind in Call._fields_ if name in SIZES + NUMBERS]
    fields = "\n".join(lines).replace("global_;", "global;")
    return f"struct Call {{\n{fields}\n}};\n#define UNPACK {' '.join(unpack)}\n"


def sizes(p):
    raw, splits = p.scores.startswith("raw"), -(-p.seqlen_kv // p.block_n)
    left, right = p.window
    return dict(
        B=p.batch, H=p.heads, HKV=p.heads_kv, GROUP=p.group, NQ=p.seqlen_q, NK=p.seqlen_kv, D=p.head_dim, DV=p.head_dim_v,
        BM=p.block_m, BN=p.block_n, LDQ=p.head_dim + p.pads[0], LDK=p.head_dim + p.pads[1], LDV=p.head_dim_v + p.pads[2],
        LDP=p.block_n + p.pads[3], CAUSAL=p.mask != "none", DIAG=p.diagonal, LEFT=left, RIGHT=right, SKIPS=p.skips,
        REVERSE=p.reverse, SPLIT=p.split, SPLITS=-(-splits // p.split) if p.split else 1, LANES=p.lanes,
        LANE_COLS=p.lane_columns,
        SUMCAST=p.sums_cast_p, P_IS_CAST=p.p_is_cast, PTYPE=rounding.CODES[p.dtype_p], ATYPE=rounding.CODES[p.dtype_acc],
        OTYPE=rounding.CODES[p.dtype_o], BASE2=p.scores in ("base2", "raw2"), ALIBI=p.alibi, PER_HEAD=p.per_head,
        DSTYPE=rounding.CODES[p.dtype_ds], DS_IS_CAST=p.ds_is_cast,
    ), raw


def call_numbers(p, raw):
    """The kernel's constants: what s is multiplied with, and what m, l and lse are then in."""
    plain = p.cap == 0 and not p.alibi
    base2 = p.scores == "base2"
    in_natural = {"natural": 1.0, "base2": LN2}.get(p.scores, p.sm_scale)
    return dict(
        FACTOR=1.0 if raw else p.sm_scale * LOG2E if base2 and plain else p.sm_scale, CAP=p.cap,
        UNIT=LOG2E if base2 and not plain else 1.0, STALE=p.stale / in_natural,
        STRETCH={"raw": p.sm_scale, "raw2": p.sm_scale * LOG2E}.get(p.scores, 1.0), PSCALE=p.p_scale, TOP=in_natural,
        SUM_SCALE=p.p_scale, LSE_UNIT=LOG2E if p.lse_base2 else 1.0,
        LSE_FACTOR=(LOG2E if p.scores in ("base2", "raw2") else 1.0) * (LN2 if p.lse_base2 else 1.0), SM_SCALE=p.sm_scale)


def extents(p, size):
    """Floats that each array has."""
    rows, state = p.block_m, size["SPLITS"] * p.block_m
    bh, bg, nq, nk, d, dv = p.batch * p.heads, p.batch * p.heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim, p.head_dim_v
    cells, grads = rows * p.block_n, bh if p.per_head else bg
    return dict(
        Q=bh * nq * d, K=bg * nk * d, V=bg * nk * dv, DOUT=bh * nq * dv, OIN=bh * nq * dv, LSEIN=bh * nq,
        SQ=rows * size["LDQ"], SK=p.block_n * size["LDK"], SV=p.block_n * size["LDV"], SP=rows * size["LDP"], SCORE=cells,
        WIDE=cells, MAX=state, SUM=state * p.lanes, ACC=max(state * dv, rows * d), OLD=rows, ALPHA=rows,
        WEIGHT=size["SPLITS"],
        SDO=rows * size["LDV"], DELTA=rows, DP=cells, SDS=rows * size["LDP"], WIDE_DS=cells,
        DK_SUM=nk * d, DV_SUM=nk * dv,
        O=bh * nq * dv, LSE=bh * nq, DQ=bh * nq * d, DK=grads * nk * d, DV_OUT=grads * nk * dv)


def tile_shapes(p):
    bh, nq, nk = (p.batch, p.heads), p.seqlen_q, p.seqlen_kv
    tq, tk = -(-nq // p.block_m), -(-nk // p.block_n)
    lanes = (p.lanes,) if p.lanes > 1 else ()
    return dict(q=(*bh, nq, p.head_dim), k=(*bh, tq, nk, p.head_dim), v=(*bh, tq, nk, p.head_dim_v), s=(*bh, nq, nk),
                p=(*bh, nq, nk), m=(*bh, tk, nq), l=(*bh, tk, nq, *lanes), acc=(*bh, tk, nq, p.head_dim_v),
                dout=(*bh, nq, p.head_dim_v), delta=(*bh, nq), dp=(*bh, nq, nk), ds=(*bh, nq, nk))


def output_shapes(p):
    bh, grads = (p.batch, p.heads), (p.batch, p.heads if p.per_head else p.heads_kv)
    return dict(o=(*bh, p.seqlen_q, p.head_dim_v), lse=(*bh, p.seqlen_q), dq=(*bh, p.seqlen_q, p.head_dim),
                dk=(*grads, p.seqlen_kv, p.head_dim), dv=(*grads, p.seqlen_kv, p.head_dim_v))


def lay_out(call, names, extent, fill):
    """An arena with the arrays one behind the other and a guard at both ends; fill makes what lies there before the run."""
    at = GUARD
    for name in names:
        setattr(call, name, at)
        at += extent[name]
    return fill(at + GUARD)


def run(function, p, inputs, direction):
    """The stages that a kernel recorded, {name: float32}; elements that it never wrote are UNWRITTEN."""
    rng = np.random.default_rng([p.seed, 1])
    call = Call()
    size, raw = sizes(p)
    extent = extents(p, size)
    for name, value in (size | call_numbers(p, raw)).items():
        setattr(call, name, value)

    def garbage(count):
        left = rounding.narrow(rng.standard_normal(count) * 2, p.dtype)
        return np.full(count, np.nan, np.float32) if p.around == "nan" else left

    def unwritten(count):
        return np.full(count, UNWRITTEN, np.float32)

    arenas = dict(global_=lay_out(call, GLOBAL, extent, garbage), shared=lay_out(call, SHARED, extent, garbage),
                  output=lay_out(call, OUTPUT, extent, unwritten))
    given = dict(Q="q", K="k", V="v", DOUT="dout", OIN="o", LSEIN="lse")
    for array, name in given.items():
        if name in inputs:
            at = getattr(call, array)
            arenas["global_"][at : at + extent[array]] = inputs[name].ravel()
    shapes = tile_shapes(p)
    stages = {name: np.full(shapes[name], UNWRITTEN, np.float32) for name in TILES[direction]}
    pointers = arenas | {"slopes": inputs["slopes"]} | {"tile_" + name: array for name, array in stages.items()}
    for name, array in pointers.items():
        setattr(call, name, array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    for name in ("global", "shared", "output"):
        setattr(call, name + "_size", len(arenas["global_" if name == "global" else name]))
    function(ctypes.byref(call))
    for name, array in OUTPUTS[direction].items():
        shape, at = output_shapes(p)[name], getattr(call, array)
        stages[name] = arenas["output"][at : at + math.prod(shape)].reshape(shape).copy()
    return stages
