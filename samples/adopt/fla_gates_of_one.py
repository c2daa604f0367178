#!/usr/bin/env python3
"""Runs the gated delta rule of flash-linear-attention where gates are 1, and keeps what each launch returned.

usage: fla_gates_of_one.py CHECKOUT KERNEL OUT.npz [--gates ones|half|none] [--chunks N] [--seed N]

KERNEL: wy_representation (issue 104), gated_delta_rule (issue 389). --gates: all are 1, half of them, or none.
Needs PyTorch and Triton. ../programs/judge.py holds the archive against the program in it.
"""

import argparse
import pathlib

import torch
from flash_linear_attention import chunked, module_of, record, unit

WY_REPRESENTATION = """
axes   b: batch; n: chunks; i: chunk by 1; p: chunk; j: chunk; m: chunk; z: heads; d: dim; e: value_dim
input  k[b, n, i, z, d]: bf16; v[b, n, i, z, e]: bf16; beta[b, n, i, z]: bf16; decay[b, n, i, z]
stage  g[b, n, i, z] = sum(j: decay[b, n, j, z] where j <= i else 0.0)
stage  kb[b, n, i, z, d]: bf16 = k * beta
stage  vb[b, n, i, z, e]: bf16 = v * beta
stage  L[b, n, i, z, j] = sum(d: kb * k[b, n, j, z, d]) in tensor_core_f32 where j < i else 0.0
stage  X[b, n, p, z, j] over i = (1.0 where j == i else 0.0)
         - sum(m: L[b, n, i, z, m] * (X[b, n, m, z, j] where m < i else 0.0)) where p == i else X
stage  Aw[b, n, p, z, j]: bf16 = X.last
stage  G[b, n, i, z, j] = L * exp(g - g[b, n, j, z]) where j < i else 0.0
stage  Y[b, n, p, z, j] over i = (1.0 where j == i else 0.0)
         - sum(m: G[b, n, i, z, m] * (Y[b, n, m, z, j] where m < i else 0.0)) where p == i else Y
stage  Au[b, n, p, z, j]: bf16 = Y.last
stage  w[b, n, i, z, d]: bf16 = sum(m: Aw[b, n, i, z, m] * kb[b, n, m, z, d]) in tensor_core_f32
stage  u[b, n, i, z, e]: bf16 = sum(m: Au[b, n, i, z, m] * vb[b, n, m, z, e]) in tensor_core_f32
output Aw, Au, w, u
"""

GATED_DELTA_RULE = """
axes   b: batch; n: chunks by 1; i: chunk by 1; p: chunk; j: chunk; m: chunk; z: heads; d: dim; e: value_dim
input  q[b, n, i, z, d]: f16; k[b, n, i, z, d]: f16; v[b, n, i, z, e]: f16; beta[b, n, i, z]: f16; decay[b, n, i, z]
stage  g[b, n, i, z] = sum(j: decay[b, n, j, z] where j <= i else 0.0)
stage  kb[b, n, i, z, d]: f16 = k * beta
stage  L[b, n, i, z, j] = sum(d: kb * k[b, n, j, z, d]) in tensor_core_f32 * exp(g - g[b, n, j, z]) where j < i else 0.0
stage  X[b, n, p, z, j] over i = (1.0 where j == i else 0.0)
         - sum(m: L[b, n, i, z, m] * (X[b, n, m, z, j] where m < i else 0.0)) where p == i else X
stage  A[b, n, p, z, j]: f16 = X.last
stage  kg[b, n, i, z, d]: f16 = kb * exp(g)
stage  vb[b, n, i, z, e]: f16 = v * beta
stage  w[b, n, p, z, d]: f16 = sum(m: A[b, n, p, z, m] * kg[b, n, m, z, d]) in tensor_core_f32
stage  u[b, n, p, z, e]: f16 = sum(m: A[b, n, p, z, m] * vb[b, n, m, z, e]) in tensor_core_f32
stage  h[b, n, z, d, e]: f16 = S.before
stage  left[b, n, p, z, e] = u - sum(d: w * h[b, n, z, d, e]) in tensor_core_f32
stage  new[b, n, p, z, e]: f16 = left
stage  kept[b, n, p, z, e]: f16 = left * exp(g[b, n, chunk - 1, z] - g[b, n, p, z])
stage  S[b, z, d, e] over n = S * exp(g[b, n, chunk - 1, z]) + sum(p: k[b, n, p, z, d] * kept) in tensor_core_f32
stage  s[b, n, p, z, j]: f16 = sum(d: q[b, n, p, z, d] * k[b, n, j, z, d]) in tensor_core_f32
         * exp(g[b, n, p, z] - g[b, n, j, z]) where j <= p else 0.0
stage  o[b, n, p, z, e]: f16 = sum(d: q[b, n, p, z, d] * h[b, n, z, d, e]) in tensor_core_f32 * exp(g[b, n, p, z])
         + sum(j: s * new[b, n, j, z, e]) in tensor_core_f32
output S, o
"""

CHUNK, DIM = 64, 32


def untuned(*kernels):
    """Leaves each its first configuration: what is compared are numbers, not times."""
    for kernel in kernels:
        while not hasattr(kernel, "configs"):
            kernel = kernel.fn
        kernel.configs = kernel.configs[:1]


def inputs(options, dtype):
    shape = (1, options.chunks * CHUNK, 1, DIM)
    q, k, v = (record.normal(*shape, dtype=dtype) for _ in range(3))
    beta = torch.sigmoid(torch.rand(shape[:3], device="cuda")).to(dtype)
    gate_is_one = torch.rand(shape[:3], device="cuda") < {"ones": 2.0, "half": 0.5, "none": 0.0}[options.gates]
    decay = torch.nn.functional.logsigmoid(torch.rand(shape[:3], device="cuda")).masked_fill(gate_is_one, 0.0)
    return q, unit(k), v, beta, decay


def wy_representation(checkout, options):
    kernels = module_of(checkout, "fla.ops.gated_delta_rule.wy_fast")
    utils = module_of(checkout, "fla.ops.utils")
    untuned(utils.chunk_local_cumsum_scalar_kernel, kernels.fwd_prepare_wy_repr_kernel_chunk64, kernels.fwd_recompute_w_u_kernel)
    _, k, v, beta, decay = inputs(options, torch.bfloat16)
    g = utils.chunk_local_cumsum(decay, CHUNK, head_first=False)
    w, u, Aw, Au = kernels.fwd_prepare_wy_repr(
        k=k, v=v, beta=beta, g=g, offsets=None, indices=None, head_first=False, chunk_size=CHUNK)  # fmt: skip
    return WY_REPRESENTATION, dict(k=k, v=v, beta=beta, decay=decay, g=g, Aw=Aw, Au=Au, w=w, u=u), {}


def gated_delta_rule(checkout, options):
    utils, cumsum, solve = (module_of(checkout, f"fla.ops.utils{name}") for name in ("", ".cumsum", ".solve_tril"))
    products, states, outputs = (module_of(checkout, f"fla.ops.common.{name}") for name in
                                 ("chunk_scaled_dot_kkt", "chunk_delta_h", "chunk_o"))  # fmt: skip
    wy = module_of(checkout, "fla.ops.gated_delta_rule.wy_fast")
    untuned(cumsum.chunk_local_cumsum_scalar_kernel, solve.solve_tril_16x16_kernel, solve.merge_16x16_to_64x64_inverse_kernel,
            products.chunk_scaled_dot_kkt_fwd_kernel, wy.recompute_w_u_fwd_kernel,
            states.chunk_gated_delta_rule_fwd_kernel_h_blockdim64, outputs.chunk_fwd_kernel_o)  # fmt: skip
    q, k, v, beta, decay = inputs(options, torch.float16)
    g = utils.chunk_local_cumsum(decay, chunk_size=CHUNK)
    L = products.chunk_scaled_dot_kkt_fwd(k=k, beta=beta, g_cumsum=g, output_dtype=torch.float32)
    A = utils.solve_tril(A=L, output_dtype=k.dtype)
    w, u = wy.recompute_w_u_fwd(k=k, v=v, beta=beta, A=A, g_cumsum=g, cu_seqlens=None)
    h, new, last = states.chunk_gated_delta_rule_fwd_h(k=k, w=w, u=u, g=g, output_final_state=True)
    o = outputs.chunk_fwd_o(q=q, k=k, v=new, h=h, g=g, scale=1.0)
    of_tokens = dict(q=q, k=k, v=v, beta=beta, decay=decay, g=g, L=L, A=A, w=w, u=u, new=new, o=o)
    return GATED_DELTA_RULE, of_tokens, dict(h=h, S=last)


def main():
    kernels = (wy_representation, gated_delta_rule)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("kernel", choices=[kernel.__name__ for kernel in kernels])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--gates", choices=["ones", "half", "none"], default="half")
    parser.add_argument("--chunks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    program, of_tokens, of_chunks = globals()[arguments.kernel](arguments.checkout, arguments)
    arrays = {name: chunked(array, CHUNK) for name, array in of_tokens.items()} | of_chunks
    record.keep(arguments.out.parent, arguments.out.stem, program, **arrays)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {record.triton.__version__}")


if __name__ == "__main__":
    main()
