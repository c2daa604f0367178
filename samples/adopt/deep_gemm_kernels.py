#!/usr/bin/env python3
"""Runs DeepGEMM's k-grouped FP8 GEMM again and again, and keeps 32 by 32 elements of each group from each run.

usage: deep_gemm_kernels.py FOLDER RUNS [NAME]

Kept are the elements around the one that differs most from its median over all runs, or the first ones where none does. Writes
FOLDER/NAME_RUN.npz. Needs DeepGEMM and PyTorch. ../programs/judge.py holds the archives against the program in them.
"""

import pathlib
import sys

import deep_gemm
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
import record  # noqa: E402

# Blocks of 128 products are added up by a tensor core, and scaled; those from first[g] to before last[g] are group g's.
K_GROUPED = """
axes   g: groups; q: blocks; k: 128; n: rows; m: cols
input  a[q, n, k]: e4m3 scale sa[q, n]; w[q, m, k]: e4m3 scale sw[q, m]; first[g]; last[g]
stage  part[q, n, m] = sum(k: a * w) in tensor_core_fp8 * sa * sw
stage  y[g, n, m] = sum(q: part where q >= first and q < last else 0.0)
output y
"""

ROWS, COLS, DEPTHS, SIDE = 768, 2048, (128, 128, 256, 256, 128, 256, 256, 256), 32


def quantised(cols):
    """[blocks, cols, 128] in e4m3, and the scale of each [blocks, cols]."""
    x = torch.randn(sum(DEPTHS) // 128, cols, 128, device="cuda")
    scale = x.abs().amax(2) / 448
    return (x / scale[:, :, None]).to(torch.float8_e4m3fn), scale


def grouped(x):
    """As the kernel takes them: [cols, depth] of each group after the other."""
    blocks = torch.tensor(DEPTHS).div(128).int().tolist()
    return torch.cat([part.transpose(0, 1).flatten() for part in x.view(torch.uint8).split(blocks)]).view(torch.float8_e4m3fn)


def run(a, sa, w, sw):
    y = torch.zeros(len(DEPTHS), ROWS, COLS, device="cuda")
    depths = torch.tensor(DEPTHS, device="cuda", dtype=torch.int32)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous((grouped(a), sa.T), (grouped(w), sw.T), y, list(DEPTHS), depths, y)
    torch.cuda.synchronize()
    return y


def main():
    folder, runs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    name = sys.argv[3] if len(sys.argv) > 3 else "deep_gemm_k_grouped"
    torch.manual_seed(0)
    (a, sa), (w, sw) = quantised(ROWS), quantised(COLS)
    ys = torch.stack([run(a, sa, w, sw) for _ in range(runs)])
    usual = ys.nanmedian(0).values
    last = torch.tensor(DEPTHS, device="cuda").cumsum(0) / 128
    first = last - torch.tensor(DEPTHS, device="cuda") / 128
    for number, y in enumerate(ys):
        changed = (y.view(torch.int32) != usual.view(torch.int32)).sum(0)
        difference = (y - usual).abs().nan_to_num(torch.inf, torch.inf).amax(0)
        row, col = (int(i) // SIDE * SIDE for i in divmod(int(difference.argmax()), COLS))
        rows, cols = slice(row, row + SIDE), slice(col, col + SIDE)
        record.keep(folder, f"{name}_{number}", K_GROUPED, a=a[:, rows].contiguous(), sa=sa[:, rows].contiguous(),
                    w=w[:, cols].contiguous(), sw=sw[:, cols].contiguous(), first=first, last=last,
                    y=y[:, rows, cols].contiguous())  # fmt: skip
        print(f"run {number}: {int(changed.sum())} elements changed, {int(changed[rows, cols].sum())} of those that are kept, "
              f"from row {row} and column {col} on")  # fmt: skip
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, DeepGEMM {deep_gemm.__version__}")


if __name__ == "__main__":
    main()
