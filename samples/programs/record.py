#!/usr/bin/env python3
"""Runs kernels that are no attention on a GPU, and keeps what they were given and what they stored.

usage: record.py FOLDER

Needs PyTorch and Triton. Writes an archive of NumPy for each kernel: its program, and its arrays as bits, each named with its
dtype. Some of the Triton kernels have a mistake, which their name says. judge.py holds them against their programs.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3"}

GEMM = """
axes   n: rows by 32; m: cols by 32; k: depth by 64
input  a[n, k]: f16; w[m, k]: f16; bias[m]
stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
stage  y[n, m]: f16 = silu(acc + bias)
output y
"""

LINEAR_ATTENTION = """
axes   b: batch; i: tokens by 16; j: tokens by 16; d: key_dim; e: value_dim
input  q[b, i, d]: f16; k[b, i, d]: f16; v[b, i, e]: f16
input  g[b, i]   # sums of log decays, from the chunk's first token on
stage  h[b, d, e] over i = h * exp(g[b, min(i + 15, tokens - 1)])
         + sum(i: k * exp(g[b, min(i / 16 * 16 + 15, tokens - 1)] - g) * v)
stage  s[b, i, j] = sum(d: q * k[b, j, d]) * exp(g - g[b, j]) where j <= i and j / 16 == i / 16 else 0.0
stage  o[b, i, e]: f16 = sum(d: q * exp(g) * h.before) + sum(j: s * v[b, j, e])
output o, h
"""

SCALED_GEMM = """
axes   n: rows by 64; m: cols by 64; k: depth
input  a[n, k]: e4m3 scale sa[n]; w[m, k]: e4m3 scale sw[m]
stage  y[n, m]: bf16 = sum(k: a * w) in tensor_core_fp8 * sa * sw
output y
"""

LINEAR = """
axes   n: rows by 64; m: cols by 64; k: depth
input  a[n, k]: bf16; w[m, k]: bf16; bias[m]: bf16
stage  y[n, m]: bf16 = sum(k: a * w) in tensor_core_f32 + bias
output y
"""

RMS_NORM = """
axes   t: tokens; d: dim
input  x[t, d]: f16; w[d]: f16
stage  y[t, d]: f16 = x * rsqrt(sum(d: x * x) / dim + 1.0e-6) * w
output y
"""

LAYER_NORM = """
axes   t: tokens; d: dim
input  x[t, d]: f16; w[d]: f16; bias[d]: f16
stage  mean[t] = sum(d: x) / dim
stage  var[t] = sum(d: (x - mean) * (x - mean)) / dim
stage  y[t, d]: f16 = (x - mean) * rsqrt(var + 1.0e-5) * w + bias
output y
"""

SOFTMAX = """
axes   t: tokens; d: dim
input  x[t, d]: f16
stage  m[t] = max(d: x)
stage  y[t, d]: f16 = exp(x - m) / sum(d: exp(x - m))
output y
"""

CROSS_ENTROPY = """
axes   t: tokens; c: classes
input  x[t, c]; target[t, c]
stage  m[t] = max(c: x)
stage  loss[t] = m + log(sum(c: exp(x - m))) - sum(c: x * target)
output loss
"""


@triton.jit
def gemm_kernel(
    A, W, BIAS, ACC, Y, N, M, K,
    mistake: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    acc = tl.zeros((BN, BM), tl.float32)
    for block in range(0, tl.cdiv(K, BK)):
        k = block * BK + tl.arange(0, BK)
        end = K // BK * BK if mistake == "tail_left_out" else K
        a = tl.load(A + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < end), other=0.0)
        row = m + 1 if mistake == "next_row_of_w" else m
        w = tl.load(W + row[None, :] * K + k[:, None], mask=(row[None, :] < M) & (k[:, None] < K), other=0.0)
        if mistake == "not_carried":
            acc = tl.dot(a, w)
        else:
            acc = tl.dot(a, w, acc)
        tl.store(ACC + block * N * M + n[:, None] * M + m[None, :], acc, mask=(n[:, None] < N) & (m[None, :] < M))
    x = acc
    if mistake != "bias_missing":
        x += tl.load(BIAS + m, mask=m < M, other=0.0)[None, :]
    tl.store(Y + n[:, None] * M + m[None, :], (x * tl.sigmoid(x)).to(Y.dtype.element_ty),
             mask=(n[:, None] < N) & (m[None, :] < M))  # fmt: skip


@triton.jit
def linear_attention_kernel(
    Q, K, V, G, H, O, T, mistake: tl.constexpr, D: tl.constexpr, E: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    i = tl.arange(0, CHUNK)
    d = tl.arange(0, D)
    e = tl.arange(0, E)
    h = tl.zeros((D, E), tl.float32)
    for chunk in range(0, tl.cdiv(T, CHUNK)):
        t = chunk * CHUNK + i
        there = t < T
        q = tl.load(Q + (b * T + t[:, None]) * D + d[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        k = tl.load(K + (b * T + t[:, None]) * D + d[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        v = tl.load(V + (b * T + t[:, None]) * E + e[None, :], mask=there[:, None], other=0.0).to(tl.float32)
        g = tl.load(G + b * T + t, mask=there, other=0.0)
        last = tl.load(G + b * T + tl.minimum(chunk * CHUNK + CHUNK - 1, T - 1))
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * tl.exp(g[:, None] - g[None, :])
        if mistake == "diagonal_hidden":
            s = tl.where(i[:, None] > i[None, :], s, 0.0)
        else:
            s = tl.where(i[:, None] >= i[None, :], s, 0.0)
        o = tl.dot(q * tl.exp(g)[:, None], h, input_precision="ieee") + tl.dot(s, v, input_precision="ieee")
        decay = 1.0 if mistake == "state_not_decayed" else tl.exp(last)
        kept = k * tl.where(there, tl.exp(last - g), 0.0)[:, None]
        h = h * decay + tl.dot(tl.trans(kept), v, input_precision="ieee")
        tl.store(H + ((chunk * tl.num_programs(0) + b) * D + d[:, None]) * E + e[None, :], h)
        tl.store(O + (b * T + t[:, None]) * E + e[None, :], o.to(O.dtype.element_ty), mask=there[:, None])


def bits(tensor):
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.detach().contiguous().cpu().view(integers).numpy()


def keep(folder, name, program, dtypes=None, **arrays):
    """`dtypes`: what tensors of uint8 hold codes of."""
    named = {key: (dtypes or {}).get(key) or NAMES[tensor.dtype] for key, tensor in arrays.items()}
    stored = {f"{key}:{named[key]}": bits(tensor) for key, tensor in arrays.items()}
    np.savez_compressed(folder / f"{name}.npz", program=np.array(program.strip() + "\n"), **stored)


def normal(*shape, dtype=torch.float16, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def gemms(folder):
    n, m, k = 40, 72, 100
    a, w, bias = normal(n, k), normal(m, k), normal(m, dtype=torch.float32)
    for mistake in ("", "tail_left_out", "next_row_of_w", "not_carried", "bias_missing"):
        acc = torch.empty(triton.cdiv(k, 64), n, m, device="cuda")
        y = torch.empty(n, m, device="cuda", dtype=torch.float16)
        gemm_kernel[(triton.cdiv(n, 32), triton.cdiv(m, 32))](a, w, bias, acc, y, n, m, k, mistake, 32, 32, 64)
        keep(folder, f"triton_gemm_{mistake or 'healthy'}", GEMM, a=a, w=w, bias=bias, acc=acc, y=y)


def linear_attentions(folder):
    b, t, d, e = 2, 43, 16, 16
    q, k, v = normal(b, t, d), normal(b, t, d), normal(b, t, e)
    decay = -torch.rand(b, t, device="cuda") * 0.1
    g = torch.cat([decay[:, c : c + 16].cumsum(1) for c in range(0, t, 16)], 1)
    for mistake in ("", "diagonal_hidden", "state_not_decayed"):
        h = torch.empty(triton.cdiv(t, 16), b, d, e, device="cuda")
        o = torch.empty(b, t, e, device="cuda", dtype=torch.float16)
        linear_attention_kernel[(b,)](q, k, v, g, h, o, t, mistake, d, e, 16)
        keep(folder, f"triton_linear_attention_{mistake or 'healthy'}", LINEAR_ATTENTION, q=q, k=k, v=v, g=g, h=h, o=o)


def of_torch(folder):
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    a, w, bias = (normal(*shape, dtype=torch.bfloat16) for shape in ((48, 136), (40, 136), (40,)))
    keep(folder, "torch_linear", LINEAR, a=a, w=w, bias=bias, y=F.linear(a, w, bias))
    a, w = normal(64, 256, dtype=torch.float32), normal(48, 256, dtype=torch.float32)
    sa, sw = (x.abs().amax(1, keepdim=True) / 448 for x in (a, w))
    a, w = (a / sa).to(torch.float8_e4m3fn), (w / sw).to(torch.float8_e4m3fn)
    y = torch._scaled_mm(a, w.t(), scale_a=sa, scale_b=sw.t().contiguous(), out_dtype=torch.bfloat16)
    keep(folder, "torch_scaled_gemm", SCALED_GEMM, a=a, w=w, sa=sa[:, 0], sw=sw[:, 0], y=y)
    x, w, bias = normal(16, 300), normal(300), normal(300)
    keep(folder, "torch_rms_norm", RMS_NORM, x=x, w=w, y=F.rms_norm(x, (300,), w, 1e-6))
    keep(folder, "torch_layer_norm", LAYER_NORM, x=x, w=w, bias=bias, y=F.layer_norm(x, (300,), w, bias, 1e-5))
    x = normal(16, 300, scale=3.0)
    keep(folder, "torch_softmax", SOFTMAX, x=x, y=torch.softmax(x, -1))
    x = x.float()
    index = torch.randint(0, 300, (16,), device="cuda")
    loss = F.cross_entropy(x, index, reduction="none")
    keep(folder, "torch_cross_entropy", CROSS_ENTROPY, x=x, target=F.one_hot(index, 300).float(), loss=loss)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    gemms(folder)
    linear_attentions(folder)
    of_torch(folder)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")


if __name__ == "__main__":
    main()
