#!/usr/bin/env python3
"""Runs kernels with scales for blocks, ragged groups and states of chunks on a GPU, as record.py runs others.

usage: record_blocks.py FOLDER

Needs PyTorch and Triton. Some of the kernels have a mistake, which their name says. judge.py holds them against their programs.
"""

import pathlib
import sys

import torch
import triton
import triton.language as tl

from record import keep, normal

BLOCK_SCALED = """
axes   n: rows by 32; m: cols by 64; k: depth by 64
input  a[n, k]: e4m3; w[m, k]: e4m3; sa[n, k / 64]; sw[m / 64, k / 64]
stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_fp8 * sa * sw
stage  y[n, m]: bf16 = acc
output y
"""

MX_FP8 = """
axes   n: rows by 32; m: cols by 32; k: depth by 64
input  a[n, k]: e4m3; w[m, k]: e4m3; sa[n, k / 32]: ue8m0; sw[m, k / 32]: ue8m0
stage  acc[n, m] over k = acc + sum(k: a * sa * (w * sw)) in tensor_core_f32
output acc
"""

MX_FP4 = MX_FP8.replace("a[n, k]: e4m3; w[m, k]: e4m3", "a[n, k]: e2m1; w[m, k]: e2m1")

GROUPED = """
axes   n: rows by 16; m: cols by 32; g: experts; k: depth
input  a[n, k]: f16; w[g, m, k]: f16; expert[n]   # -1: a row of padding, which is 0
stage  y[n, m]: f16 = sum(g, k: a * w where expert == 1.0 * g else 0.0) in tensor_core_f32
output y
"""

QK_NORM = """
axes   t: tokens; h: heads; d: dim
input  x[t, h, d]: f16; w[d]: f16; cosine[t, d % (dim / 2)]; sine[t, d % (dim / 2)]
stage  n[t, h, d] = x * rsqrt(sum(d: x * x) / dim + 1.0e-6) * w
stage  y[t, h, d]: f16 = n * cosine - n[t, h, d + dim / 2] * sine where d < dim / 2
                         else n * cosine + n[t, h, d - dim / 2] * sine
output y
"""

QUANTISED_NORM = """
axes   t: tokens; d: dim
input  x[t, d]: f16; res[t, d]: f16; w[d]; bias[d]
stage  h[t, d] = x + res
stage  mean[t] = sum(d: h) / dim
stage  r[t] = rsqrt(sum(d: (h - mean) * (h - mean)) / dim + 1.0e-5)
stage  y[t, d] = (h - mean) * r * w + bias
stage  s[t] = max(d: abs(y)) / 448.0
stage  q[t, d]: e4m3 = max(min(y / s, 448.0), -448.0)
output q, s
"""

DELTA_RULE = """
axes   b: batch; c: chunks by 1; r: rows by 1; u: rows; w: rows; d: dim; e: dim
input  q[b, c, r, d]; k[b, c, r, d]; v[b, c, r, e]; beta[b, c, r]; g[b, c, r]
stage  a[b, c, r, u] = beta * sum(d: k * k[b, c, u, d]) * exp(g - g[b, c, u]) where u < r else 0.0
stage  ks[b, c, u, d] over r = beta * exp(g) * k - sum(w: a[b, c, r, w] * ks[b, c, w, d]) where u == r else ks
stage  vs[b, c, u, e] over r = beta * v - sum(w: a[b, c, r, w] * vs[b, c, w, e]) where u == r else vs
stage  s[b, c, r, u] = sum(d: q * k[b, c, u, d]) * exp(g - g[b, c, u]) where u <= r else 0.0
stage  new[b, c, u, e] = vs.last - sum(d: ks.last * h.before)
stage  h[b, d, e] over c = h * exp(g[b, c, rows - 1]) + sum(u: k[b, c, u, d] * exp(g[b, c, rows - 1] - g[b, c, u]) * new)
stage  o[b, c, r, e] = sum(d: q * exp(g) * h.before) + sum(u: s * new)
output o, h
"""

MAMBA2 = """
axes   b: batch; h: heads; i: tokens by 16; j: tokens by 16; n: state_dim; p: head_dim
input  x[b, i, h, p]: f16; dt[b, i, h]; decay[h]; kept[b, i, n]: f16; read[b, i, n]: f16; skip[h]
stage  g[b, j, h] = sum(i: dt * decay where i <= j and i / 16 == j / 16 else 0.0)
stage  state[b, h, n, p] over i = state * exp(g[b, min(i + 15, tokens - 1), h])
         + sum(i: kept * dt * exp(g[b, min(i / 16 * 16 + 15, tokens - 1), h] - g[b, i, h]) * x)
stage  s[b, h, i, j] = sum(n: read * kept[b, j, n]) * exp(g[b, i, h] - g) * dt[b, j, h] where j <= i and j / 16 == i / 16 else 0.0
stage  y[b, i, h, p]: f16 = sum(n: read * exp(g[b, i, h]) * state.before) + sum(j: s * x[b, j, h, p]) + skip * x
output y, state
"""


@triton.jit
def block_scaled_kernel(
    A, W, SA, SW, ACC, Y, N, M, K, mistake: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    blocks = tl.cdiv(K, BK)
    acc = tl.zeros((BN, BM), tl.float32)
    for block in range(0, blocks):
        k = block * BK + tl.arange(0, BK)
        a = tl.load(A + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        w = tl.load(W + m[None, :] * K + k[:, None], mask=(m[None, :] < M) & (k[:, None] < K), other=0.0)
        of = 0 if mistake == "scale_of_first_block" else block
        sa = tl.load(SA + n * blocks + of, mask=n < N, other=0.0)
        sw = tl.load(SW + tl.program_id(1) * blocks + block)
        acc += tl.dot(a, w) * sa[:, None] * sw
        tl.store(ACC + block * N * M + n[:, None] * M + m[None, :], acc, mask=(n[:, None] < N) & (m[None, :] < M))
    tl.store(Y + n[:, None] * M + m[None, :], acc.to(tl.bfloat16), mask=(n[:, None] < N) & (m[None, :] < M))


@triton.jit
def mx_kernel(
    A, W, SA, SW, ACC, N, M, K, kind: tl.constexpr, per_byte: tl.constexpr, mistake: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    acc = tl.zeros((BN, BM), tl.float32)
    for block in range(0, K // BK):
        k = block * (BK // per_byte) + tl.arange(0, BK // per_byte)
        scales = block * (BK // 32) + tl.arange(0, BK // 32)
        a = tl.load(A + n[:, None] * (K // per_byte) + k[None, :])
        w = tl.load(W + m[None, :] * (K // per_byte) + k[:, None])
        sa = tl.load(SA + n[:, None] * (K // 32) + scales[None, :])
        of_w = scales // 2 * 2 if mistake == "scale_of_64" else scales
        sw = tl.load(SW + m[:, None] * (K // 32) + of_w[None, :])
        acc = tl.dot_scaled(a, sa, kind, w, sw, kind, acc)
        tl.store(ACC + block * N * M + n[:, None] * M + m[None, :], acc)


@triton.jit
def grouped_kernel(A, W, EXPERT, Y, N, M, K, mistake: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, KP: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    k = tl.arange(0, KP)
    expert = tl.load(EXPERT + n, mask=n < N, other=-1.0)
    first = tl.max(tl.where(tl.arange(0, BN) == 0, expert, -1.0), 0)
    y = tl.zeros((BN, BM), tl.float32)
    for g in range(0, 3):
        here = (first == g) & (n < N) if mistake == "expert_of_first_row" else expert == g
        a = tl.load(A + n[:, None] * K + k[None, :], mask=here[:, None] & (k[None, :] < K), other=0.0)
        w = tl.load(W + (g * M + m[None, :]) * K + k[:, None], mask=(m[None, :] < M) & (k[:, None] < K), other=0.0)
        y = tl.dot(a, w, y)
    tl.store(Y + n[:, None] * M + m[None, :], y.to(tl.float16), mask=(n[:, None] < N) & (m[None, :] < M))


@triton.jit
def qk_norm_kernel(X, W, COS, SIN, Y, H, mistake: tl.constexpr, D: tl.constexpr):
    t = tl.program_id(0)
    h = tl.program_id(1)
    d = tl.arange(0, D // 2)
    base = X + (t * H + h) * D
    low = tl.load(base + d).to(tl.float32)
    high = tl.load(base + D // 2 + d).to(tl.float32)
    of = X + t * H * D if mistake == "heads_but_the_first" else base
    x = tl.load(of + tl.arange(0, D)).to(tl.float32)
    r = tl.rsqrt(tl.sum(x * x, 0) / D + 1e-6)
    low = low * r * tl.load(W + d).to(tl.float32)
    high = high * r * tl.load(W + D // 2 + d).to(tl.float32)
    cosine = tl.load(COS + t * (D // 2) + d)
    sine = tl.load(SIN + t * (D // 2) + d)
    tl.store(Y + (t * H + h) * D + d, (low * cosine - high * sine).to(tl.float16))
    tl.store(Y + (t * H + h) * D + D // 2 + d, (high * cosine + low * sine).to(tl.float16))


@triton.jit
def quantised_norm_kernel(X, RES, W, BIAS, MEAN, R, S, Q, DIM, mistake: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    there = d < DIM
    h = tl.load(X + t * DIM + d, mask=there, other=0.0).to(tl.float32)
    h += tl.load(RES + t * DIM + d, mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(h, 0) / DIM
    centred = h - mean
    if mistake != "tail_in_variance":
        centred = tl.where(there, centred, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred, 0) / DIM + 1e-5)
    y = centred * r * tl.load(W + d, mask=there, other=0.0) + tl.load(BIAS + d, mask=there, other=0.0)
    s = tl.max(tl.abs(y), 0) / 448.0
    tl.store(MEAN + t, mean)
    tl.store(R + t, r)
    tl.store(S + t, s)
    q = tl.minimum(tl.maximum(y / s, -448.0), 448.0)
    tl.store(Q + t * DIM + d, q.to(tl.float8e4nv), mask=there)


@triton.jit
def solved(a, right, i, C: tl.constexpr):
    """Row after row: right - a times the rows before."""
    x = tl.zeros_like(right)
    for r in range(0, C):
        row = tl.sum(tl.where(i[:, None] == r, a, 0.0), 0)
        known = tl.sum(row[:, None] * x, 0)
        own = tl.sum(tl.where(i[:, None] == r, right, 0.0), 0)
        x = tl.where(i[:, None] == r, (own - known)[None, :], x)
    return x


@triton.jit
def delta_rule_kernel(
    Q, K, V, BETA, G, A, KS, VS, S, NEW, H, O, chunks, mistake: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    i = tl.arange(0, C)
    d = tl.arange(0, D)
    square = i[:, None] * C + i[None, :]
    h = tl.zeros((D, D), tl.float32)
    for c in range(0, chunks):
        at = b * chunks + c
        rows = at * C * D + i[:, None] * D + d[None, :]
        q, k, v = tl.load(Q + rows), tl.load(K + rows), tl.load(V + rows)
        beta, g = tl.load(BETA + at * C + i), tl.load(G + at * C + i)
        last = tl.sum(tl.where(i == C - 1, g, 0.0), 0)
        decay = tl.exp(g[:, None] - g[None, :])
        a = tl.dot(k, tl.trans(k), input_precision="ieee") * beta[:, None]
        if mistake != "gate_missing_in_a":
            a *= decay
        a = tl.where(i[:, None] > i[None, :], a, 0.0)
        ks = solved(a, k * (beta * tl.exp(g))[:, None], i, C)
        vs = solved(a, v * beta[:, None], i, C)
        s = tl.where(i[:, None] >= i[None, :], tl.dot(q, tl.trans(k), input_precision="ieee") * decay, 0.0)
        new = vs - tl.dot(ks, h, input_precision="ieee")
        before = h
        h = h * tl.exp(last) + tl.dot(tl.trans(k * tl.exp(last - g)[:, None]), new, input_precision="ieee")
        carried = h if mistake == "state_after_chunk" else before
        o = tl.dot(q * tl.exp(g)[:, None], carried, input_precision="ieee") + tl.dot(s, new, input_precision="ieee")
        tl.store(A + at * C * C + square, a)
        tl.store(S + at * C * C + square, s)
        tl.store(KS + rows, ks)
        tl.store(VS + rows, vs)
        tl.store(NEW + rows, new)
        tl.store(O + rows, o)
        tl.store(H + ((c * tl.num_programs(0) + b) * D + d[:, None]) * D + d[None, :], h)


@triton.jit
def mamba2_kernel(
    X, DT, DECAY, KEPT, READ, SKIP, STATE, Y, T, heads, mistake: tl.constexpr, C: tl.constexpr, N: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    h = tl.program_id(1)
    i = tl.arange(0, C)
    n = tl.arange(0, N)
    p = tl.arange(0, P)
    decay = tl.load(DECAY if mistake == "decay_of_first_head" else DECAY + h)
    skip = tl.load(SKIP + h)
    state = tl.zeros((N, P), tl.float32)
    for chunk in range(0, tl.cdiv(T, C)):
        t = b * T + chunk * C + i
        there = chunk * C + i < T
        x = tl.load(X + (t[:, None] * heads + h) * P + p[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        kept = tl.load(KEPT + t[:, None] * N + n[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        read = tl.load(READ + t[:, None] * N + n[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        dt = tl.load(DT + t * heads + h, mask=there, other=0.0)
        g = tl.cumsum(dt * decay, 0)
        last = tl.sum(tl.where(i == C - 1, g, 0.0), 0)
        s = tl.dot(read, tl.trans(kept), input_precision="ieee") * tl.exp(g[:, None] - g[None, :]) * dt[None, :]
        s = tl.where(i[:, None] >= i[None, :], s, 0.0)
        y = tl.dot(read * tl.exp(g)[:, None], state, input_precision="ieee") + tl.dot(s, x, input_precision="ieee")
        if mistake != "skip_missing":
            y += skip * x
        weight = tl.where(there, dt * tl.exp(last - g), 0.0)
        state = state * tl.exp(last) + tl.dot(tl.trans(kept * weight[:, None]), x, input_precision="ieee")
        at = ((chunk * tl.num_programs(0) + b) * heads + h) * N
        tl.store(STATE + (at + n[:, None]) * P + p[None, :], state)
        tl.store(Y + (t[:, None] * heads + h) * P + p[None, :], y.to(tl.float16), mask=there[:, None])


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def uniform(*shape):
    return torch.rand(*shape, device="cuda")


def block_scaled(mistake):
    n, m, k = 40, 96, 192
    a, w = (normal(rows, k, dtype=torch.float32).to(torch.float8_e4m3fn) for rows in (n, m))
    sa, sw = uniform(n, 3) + 0.1, uniform(2, 3) + 0.1
    acc, y = empty(3, n, m), empty(n, m, dtype=torch.bfloat16)
    block_scaled_kernel[(2, 2)](a, w, sa, sw, acc, y, n, m, k, mistake, 32, 64, 64)
    return BLOCK_SCALED, dict(a=a, w=w, sa=sa, sw=sw, acc=acc, y=y)


def mx(program, kind, per_byte, mistake):
    n, m, k = 64, 64, 128
    if kind == "e2m1":
        a, w = (torch.randint(0, 256, (rows, k // 2), device="cuda", dtype=torch.uint8) for rows in (n, m))
    else:
        a, w = (normal(rows, k, dtype=torch.float32).to(torch.float8_e4m3fn) for rows in (n, m))
    sa, sw = (torch.randint(122, 132, (rows, k // 32), device="cuda", dtype=torch.uint8) for rows in (n, m))
    acc = empty(2, n, m)
    mx_kernel[(2, 2)](a, w, sa, sw, acc, n, m, k, kind, per_byte, mistake, 32, 32, 64)
    if kind == "e2m1":
        a, w = (torch.stack([x & 15, x >> 4], -1).flatten(1) for x in (a, w))
    return program, dict(a=a, w=w, sa=sa, sw=sw, acc=acc)


def grouped(mistake):
    n, m, k = 56, 40, 48
    a, w = normal(n, k), normal(3, m, k)
    expert = torch.tensor([0] * 13 + [1] * 22 + [2] * 15 + [-1] * 6, device="cuda", dtype=torch.float32)
    y = empty(n, m, dtype=torch.float16)
    grouped_kernel[(4, 2)](a, w, expert, y, n, m, k, mistake, 16, 32, 64)
    return GROUPED, dict(a=a, w=w, expert=expert, y=y)


def qk_norm(mistake):
    t, h, d = 12, 3, 64
    x, w = normal(t, h, d), normal(d)
    angle = torch.arange(t, device="cuda")[:, None] / 10000.0 ** (torch.arange(d // 2, device="cuda") * 2 / d)
    cosine, sine = angle.cos().float(), angle.sin().float()
    y = empty(t, h, d, dtype=torch.float16)
    qk_norm_kernel[(t, h)](x, w, cosine, sine, y, h, mistake, d)
    return QK_NORM, dict(x=x, w=w, cosine=cosine, sine=sine, y=y)


def quantised_norm(mistake):
    t, d = 16, 200
    x, res = normal(t, d) + 1, normal(t, d)
    w, bias = normal(d, dtype=torch.float32), normal(d, dtype=torch.float32)
    mean, r, s, q = empty(t), empty(t), empty(t), empty(t, d, dtype=torch.float8_e4m3fn)
    quantised_norm_kernel[(t,)](x, res, w, bias, mean, r, s, q, d, mistake, 256)
    return QUANTISED_NORM, dict(x=x, res=res, w=w, bias=bias, mean=mean, r=r, s=s, q=q)


def delta_rule(mistake):
    b, c, rows, d = 2, 3, 16, 16
    k = normal(b, c, rows, d, dtype=torch.float32)
    inputs = dict(q=normal(b, c, rows, d, dtype=torch.float32) / 4, k=k / k.norm(dim=-1, keepdim=True), v=normal(b, c, rows, d, dtype=torch.float32),
                  beta=uniform(b, c, rows), g=-(uniform(b, c, rows) * 0.2).cumsum(-1))  # fmt: skip
    square, values = (b, c, rows, rows), (b, c, rows, d)
    stored = dict(a=empty(*square), ks=empty(*values), vs=empty(*values), s=empty(*square), new=empty(*values), h=empty(c, b, d, d), o=empty(*values))
    delta_rule_kernel[(b,)](*inputs.values(), *stored.values(), c, mistake, rows, d)
    return DELTA_RULE, {**inputs, **stored}


def mamba2(mistake):
    b, t, heads, n, p = 2, 43, 3, 16, 16
    inputs = dict(x=normal(b, t, heads, p), dt=uniform(b, t, heads) * 0.3, decay=-uniform(heads) - 0.5, kept=normal(b, t, n), read=normal(b, t, n),
                  skip=normal(heads, dtype=torch.float32))  # fmt: skip
    stored = dict(state=empty(3, b, heads, n, p), y=empty(b, t, heads, p, dtype=torch.float16))
    mamba2_kernel[(b, heads)](*inputs.values(), *stored.values(), t, heads, mistake, 16, n, p)
    return MAMBA2, {**inputs, **stored}


#: What runs a kernel, and its mistakes.
KERNELS = {
    "block_scaled_gemm": (block_scaled, ["scale_of_first_block"]),
    "mxfp8_gemm": (lambda mistake: mx(MX_FP8, "e4m3", 1, mistake), ["scale_of_64"]),
    "mxfp4_gemm": (lambda mistake: mx(MX_FP4, "e2m1", 2, mistake), []),
    "grouped_gemm": (grouped, ["expert_of_first_row"]),
    "qk_norm_rotary": (qk_norm, ["heads_but_the_first"]),
    "quantised_layer_norm": (quantised_norm, ["tail_in_variance"]),
    "gated_delta_rule": (delta_rule, ["gate_missing_in_a", "state_after_chunk"]),
    "mamba2": (mamba2, ["decay_of_first_head", "skip_missing"]),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    code = 0
    for name, (run, mistakes) in KERNELS.items():
        for mistake in ["", *mistakes]:
            torch.manual_seed(0)
            try:
                program, arrays = run(mistake)
            except Exception as error:  # one that this version of Triton does not compile costs no other
                print(f"{name}: {error}", file=sys.stderr)
                code = 2
                continue
            codes = {key: program.split(f"{key}[")[1].split(": ")[1].split(";")[0].split()[0] for key, x in arrays.items() if x.dtype == torch.uint8}
            keep(folder, f"triton_{name}_{mistake or 'healthy'}", program, dtypes=codes, **arrays)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    return code


if __name__ == "__main__":
    sys.exit(main())
