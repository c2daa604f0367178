#!/usr/bin/env python3
"""Runs kernels of vLLM on a GPU, and keeps what they were given and what they returned.

usage: vllm_kernels.py qk_norm_rotary LIBRARY OUT.npz [HEADS_PER_WARP]
       vllm_kernels.py mamba2_states CHECKOUT OUT.npz

LIBRARY is made of vllm_qk_norm.cu, as vllm.md says. Needs PyTorch and Triton. ../programs/judge.py holds the archive against
the program in it.
"""

import ctypes
import importlib
import pathlib
import sys
import types

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
import record  # noqa: E402

QK_NORM_ROTARY = """
axes   t: tokens; h: heads; d: dim; r: rotary
input  x[t, h, d]: bf16; w[h, d]: bf16; cos_sin[t, r]: bf16
stage  rms[t, h] = rsqrt(sum(d: x * x) / dim + 1.0e-6)
stage  z[t, h, d] = x * (rms * w)
stage  y[t, h, d]: bf16 = z * cos_sin[t, d % (rotary / 2)] + cos_sin[t, rotary / 2 + d % (rotary / 2)]
         * (-z[t, h, d + rotary / 2] where d < rotary / 2 else z[t, h, d - rotary / 2]) where d < rotary else z
output y
"""

MAMBA2_STATES = """
axes   t: tokens; h: heads; c: chunks; i: chunk; p: head_dim; n: state_dim
input  x[t, h, p]: bf16; B[t, n]: bf16; dt[h, c, i]; dA_cumsum[h, c, i]
stage  left[h, c, i] = dA_cumsum[h, c, chunk - 1] - dA_cumsum
stage  states[c, h, p, n] = sum(i: x[c * chunk + i, h, p] * bf16(B[c * chunk + i, n]
         * (exp(min(left[h, c, i], 0.0)) * dt[h, c, i]))) in tensor_core_f32
output states
"""


@triton.jit
def softplus(x):
    return tl.log(1.0 + tl.exp(x))


def qk_norm_rotary(library, heads_per_warp):
    tokens, q_heads, k_heads, v_heads, dim, rotary = 3, 4, 2, 1, 128, 64
    qkv = record.normal(tokens, q_heads + k_heads + v_heads, dim, dtype=torch.bfloat16)
    q_weight, k_weight = ((1 + 0.1 * torch.randn(dim, device="cuda")).bfloat16() for _ in range(2))
    positions = torch.arange(tokens, device="cuda")
    angles = positions[:, None] * 10000 ** (-torch.arange(rotary // 2, device="cuda") / (rotary / 2))
    cos_sin = torch.cat([angles.cos(), angles.sin()], 1).bfloat16()
    out = qkv.clone()
    torch.cuda.synchronize()
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (out, q_weight, k_weight, cos_sin, positions)]
    run = ctypes.CDLL(str(library.resolve())).qk_norm_rotary
    if run(*pointers, tokens, q_heads, k_heads, v_heads, rotary, heads_per_warp):
        sys.exit("the kernel did not run")
    heads = q_heads + k_heads
    w = torch.stack([q_weight] * q_heads + [k_weight] * k_heads)
    return QK_NORM_ROTARY, dict(x=qkv[:, :heads], w=w, cos_sin=cos_sin, y=out[:, :heads])


def mamba2_kernels(checkout):
    """ssd_chunk_state.py of the checkout, behind modules that stand in for the packages around it."""
    package = "vllm.model_executor.layers.mamba.ops"
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers", "vllm.model_executor.layers.mamba", package):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(checkout / name.replace(".", "/"))]
    for name, members in (("vllm.triton_utils", dict(tl=tl, triton=triton)), (package + ".mamba_ssm", dict(softplus=softplus))):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    return importlib.import_module(package + ".ssd_chunk_state")


def mamba2_states(checkout):
    """With decays so large that sums of them, added up in parallel, rise here and there by a rounding."""
    kernels, tokens, heads, chunk = mamba2_kernels(checkout), 256, 2, 256
    ends = torch.tensor([0, tokens], device="cuda", dtype=torch.int32)
    for seed in range(1000):
        torch.manual_seed(seed)
        dt = torch.rand(tokens, heads, device="cuda") * 0.1
        dt[torch.rand(tokens, heads, device="cuda") < 0.5] *= 1e-9
        sums, dt = kernels._chunk_cumsum_fwd(dt, -torch.tensor([1.0, 1e7], device="cuda"), chunk, ends)
        left = sums[:, :, -1:] - sums
        if left.max() > 1:
            break
    x, B = record.normal(tokens, heads, 16, dtype=torch.bfloat16), record.normal(tokens, 1, 16, dtype=torch.bfloat16)
    states = kernels._chunk_state_fwd(B, x, dt, sums, ends)
    print(f"seed {seed}: a sum rises by {left.max().item()}")
    return MAMBA2_STATES, dict(x=x, B=B[:, 0], dt=dt, dA_cumsum=sums, states=states)


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in ("qk_norm_rotary", "mamba2_states"):
        sys.exit(__doc__)
    torch.manual_seed(0)
    place, out = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if sys.argv[1] == "qk_norm_rotary":
        program, arrays = qk_norm_rotary(place, int(sys.argv[4]) if len(sys.argv) == 5 else 2)
    else:
        program, arrays = mamba2_states(place)
    record.keep(out.parent, out.stem, program, **arrays)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")


if __name__ == "__main__":
    main()
