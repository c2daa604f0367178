#!/usr/bin/env python3
"""Runs kernels of flash-linear-attention on a GPU, and keeps what they were given and what they returned.

usage: flash_linear_attention.py CHECKOUT KERNEL OUT.npz [--tokens N] [--chunk N]
       [--warps N] [--stages N]

KERNEL: delta_rule_backward, gated_inverse, short_convolution_backward. --warps and --stages leave the autotuner
the configurations of so many warps and stages. Needs PyTorch and Triton. ../programs/judge.py holds the archive against the program in it.
"""

import argparse
import importlib
import os
import pathlib
import sys
import types

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
import record  # noqa: E402

# Arrays [batch, tokens, heads, ...] are given as [batch, chunks, chunk, heads, ...], which .view() makes of them.
DELTA_RULE_BACKWARD = """
axes   b: batch; n: chunks; i: chunk; j: chunk; m: chunk; h: heads; d: dim; e: value_dim
input  k[b, n, i, h, d]: bf16; v[b, n, i, h, e]: bf16; beta[b, n, i, h]: bf16; A[b, n, i, h, j]: bf16
input  dw[b, n, i, h, d]: bf16; du[b, n, i, h, e]: bf16
stage  kb[b, n, i, h, d]: bf16 = k * beta
stage  vb[b, n, i, h, e]: bf16 = v * beta
stage  dkb[b, n, i, h, d] = sum(j: A[b, n, j, h, i] * dw[b, n, j, h, d]) in tensor_core_f32
stage  dvb[b, n, i, h, e] = sum(j: A[b, n, j, h, i] * du[b, n, j, h, e]) in tensor_core_f32
stage  dv[b, n, i, h, e]: bf16 = dvb * beta
stage  dA[b, n, i, h, j]: bf16 = sum(e: du * vb[b, n, j, h, e]) in tensor_core_f32
         + sum(d: dw * kb[b, n, j, h, d]) in tensor_core_f32 where j < i else 0.0
stage  dAA[b, n, i, h, j]: bf16 = sum(m: dA[b, n, i, h, m] * A[b, n, j, h, m]) in tensor_core_f32
stage  dL[b, n, i, h, j]: bf16 = -sum(m: A[b, n, m, h, i] * dAA[b, n, m, h, j]) in tensor_core_f32 where j < i else 0.0
stage  dkL[b, n, i, h, d] = sum(j: dL * k[b, n, j, h, d]) in tensor_core_f32
stage  dk[b, n, i, h, d]: bf16 = bf16(dkb * beta) + sum(j: dL[b, n, j, h, i] * kb[b, n, j, h, d]) in tensor_core_f32 + dkL * beta
stage  dbeta[b, n, i, h]: bf16 = sum(e: dvb * v) + sum(d: dkb * k) + sum(d: dkL * k)
output dk, dv, dbeta
"""

GATED_INVERSE = """
axes   b: batch; t: tokens by 1; p: tokens; h: heads; d: dim; c: 64; m: 64
input  k[b, t, h, d]: bf16; beta[b, t, h]: bf16; g[b, t, h]
stage  L[b, t, h, c] = beta * sum(d: k * k[b, t / 64 * 64 + c, h, d]) in tensor_core_f32
         * exp(g - g[b, t / 64 * 64 + c, h]) where c < t % 64 else 0.0
stage  X[b, p, h, c] over t = (1.0 where c == t % 64 else 0.0)
         - sum(m: L[b, t, h, m] * (X[b, t / 64 * 64 + m, h, c] where m < t % 64 else 0.0)) in tensor_core_tf32 where p == t else X
stage  A[b, p, h, c]: bf16 = X.last
output A
"""

SHORT_CONVOLUTION_BACKWARD = """
axes   b: batch; t: tokens; d: dim; w: width
input  x[b, t, d]; dy[b, t, d]; weight[d, w]; state[b, d, w]; dfinal[b, d, w]
stage  y[b, t, d] = sum(w: weight * (x[b, t + w + 1 - width, d] where t + w + 1 >= width else state[b, d, t + w + 1]))
stage  ds[b, t, d] = dy * sigmoid(y) * (1.0 + y * (1.0 - sigmoid(y)))
stage  dx[b, t, d] = sum(w: weight * ds[b, t + width - 1 - w, d] where t + width - 1 - w < tokens else 0.0)
         + (dfinal[b, d, t + width - tokens] where t + width > tokens else 0.0)
stage  dweight[d, w] = sum(b, t: ds * (x[b, t + w + 1 - width, d] where t + w + 1 >= width else state[b, d, t + w + 1]))
stage  dstate[b, d, w] = sum(t: ds * weight[d, w - 1 - t] where t < w else 0.0)
         + (dfinal[b, d, w - tokens] where w >= tokens else 0.0) where w > 0 else 0.0
output dx, dweight, dstate
"""


def module_of(checkout, name):
    """A module of the checkout. Packages that import every kernel when they are imported themselves are stood in for."""
    os.environ["FLA_DISABLE_BACKEND_DISPATCH"] = "1"
    for package in ("fla", "fla.ops", "fla.ops.delta_rule", "fla.ops.gated_delta_rule", "fla.modules", "fla.modules.conv",
                    "fla.modules.conv.triton"):  # fmt: skip
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(checkout / package.replace(".", "/"))]
    sys.modules["fla"].__version__ = ""
    return importlib.import_module(name)


def autotuner_of(kernel, options):
    while not hasattr(kernel, "configs"):
        kernel = kernel.fn
    wanted = [("num_warps", options.warps), ("num_stages", options.stages)]
    kernel.configs = [config for config in kernel.configs if all(n in (None, getattr(config, name)) for name, n in wanted)]
    return kernel


def unit(x):
    return torch.nn.functional.normalize(x.float(), dim=-1).to(x.dtype)


def chunked(x, chunk):
    return x.view(x.shape[0], -1, chunk, *x.shape[2:])


def inverse(k, beta, chunk):
    """(1 + beta k k^T below the diagonal)^-1 of each chunk, as [batch, tokens, heads, chunk]."""
    k, beta = chunked(k, chunk).double().transpose(2, 3), chunked(beta, chunk).double().transpose(2, 3)
    below = (beta[..., None] * k @ k.transpose(-1, -2)).tril(-1)
    return torch.linalg.inv(torch.eye(chunk, device=k.device).double() + below).transpose(2, 3).flatten(1, 2).contiguous()


def delta_rule_backward(checkout, options):
    kernels = module_of(checkout, "fla.ops.delta_rule.wy_fast")
    autotuner = autotuner_of(kernels.prepare_wy_repr_bwd_kernel, options)
    dtype, shape, chunk = torch.bfloat16, (1, options.tokens, 1, 32), options.chunk
    k, v, dw, du = (record.normal(*shape, dtype=dtype) for _ in range(4))
    k, beta = unit(k), torch.sigmoid(record.normal(*shape[:3], dtype=dtype))
    given = dict(k=k, v=v, beta=beta, A=inverse(k, beta, chunk).to(dtype), dw=dw, du=du)
    dk, dv, dbeta = kernels.prepare_wy_repr_bwd(**given, cu_seqlens=None)
    arrays = given | dict(dk=dk, dv=dv, dbeta=dbeta) | getattr(kernels.prepare_wy_repr_bwd, "stages", {})
    return DELTA_RULE_BACKWARD, {name: chunked(array, chunk) for name, array in arrays.items()}, autotuner.best_config


def gated_inverse(checkout, options):
    kernels = module_of(checkout, "fla.ops.gated_delta_rule.chunk_fwd")
    autotuner = autotuner_of(kernels.chunk_gated_delta_rule_fwd_kkt_solve_kernel, options)
    k, v = (record.normal(1, options.tokens, 1, 32, dtype=torch.bfloat16) for _ in range(2))
    k, beta = unit(k), torch.sigmoid(record.normal(1, options.tokens, 1, dtype=torch.bfloat16))
    decay = -torch.rand(1, options.tokens, 1, device="cuda") * 60
    g = torch.cat([part.cumsum(1) for part in decay.split(64, 1)], 1)
    _, _, inverted = kernels.chunk_gated_delta_rule_fwd_intra(k=k, v=v, g=g, beta=beta)
    return GATED_INVERSE, dict(k=k, beta=beta, g=g, A=inverted), autotuner.best_config


def short_convolution_backward(checkout, options):
    kernels = module_of(checkout, "fla.modules.conv.triton.ops")
    x, dy = (record.normal(2, options.tokens, 48, dtype=torch.float32) for _ in range(2))
    state, dfinal = (record.normal(2, 48, 4, dtype=torch.float32) for _ in range(2))
    weight = record.normal(48, 4, dtype=torch.float32)
    dx, dweight, _, _, dstate = kernels.causal_conv1d_bwd(
        x=x, dy=dy, dht=dfinal, weight=weight, initial_state=state, activation="swish")  # fmt: skip
    arrays = dict(x=x, dy=dy, weight=weight, state=state, dfinal=dfinal, dx=dx, dweight=dweight, dstate=dstate)
    return SHORT_CONVOLUTION_BACKWARD, arrays, None


def main():
    kernels = (delta_rule_backward, gated_inverse, short_convolution_backward)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("kernel", choices=[kernel.__name__ for kernel in kernels])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--warps", type=int)
    parser.add_argument("--stages", type=int)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    run = globals()[arguments.kernel]
    program, arrays, config = run(arguments.checkout, arguments)
    record.keep(arguments.out.parent, arguments.out.stem, program, **arrays)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {record.triton.__version__}: {config}")


if __name__ == "__main__":
    main()
