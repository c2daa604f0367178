#!/usr/bin/env python3
"""Judges the backward kernels of PyTorch with tile-diff: random healthy problems, each written as a backward dump with
outputs alone, of which no element may be outside its budget, nor one of o and lse, which come from PyTorch's forward
kernels; and the null test, in which zeros, a constant and the column means stand in place of dq, dk and dv and must
be flagged.

Needs a GPU, PyTorch, h5py and tile-diff. Exit codes: 0 all as it should be, 1 a healthy kernel is outside or a null
passes, 2 nothing could be judged. Dumps of what fails are kept, and the command that repeats it is printed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import typing

try:
    import h5py
    import numpy as np
    import torch
except ImportError as missing:
    print(f"bench_backward: {missing}; needs a Python with PyTorch, h5py and NumPy", file=sys.stderr)
    sys.exit(2)

DEVICE = "cuda"
BLOCK = 64
GRADIENTS = ("dq", "dk", "dv")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Backend:
    """An operator whose autograd runs the kernel, and what a dump declares of that kernel."""

    operator: str
    arguments: typing.Callable  # of the operator after q, k and v, from is_causal
    alignment: str  # of its causal mask
    exponential: str
    ds_from_cast_p: bool
    scales_ds: bool  # sm_scale is multiplied to ds before its cast, not to the sums after


# What the kernels do: PyTorch's flash_attn/flash_bwd_kernel.h (base two, ds of P in float32, sm_scale at the end) and
# mem_eff_attention/kernel_backward.h (expf, ds of P read back in its dtype, sm_scale in ds). cuDNN's source is closed:
# the order of its graph is that of cudnn-frontend's SDPA backward node.
BACKENDS = {
    "flash": Backend("_scaled_dot_product_flash_attention", lambda causal: (0.0, causal), "bottom_right", "ex2_approx",
                     ds_from_cast_p=False, scales_ds=False),
    "efficient": Backend("_scaled_dot_product_efficient_attention", lambda causal: (None, True, 0.0, causal),
                         "top_left", "expf", ds_from_cast_p=True, scales_ds=True),
    "cudnn": Backend("_scaled_dot_product_cudnn_attention", lambda causal: (None, True, 0.0, causal), "top_left",
                     "ex2_approx", ds_from_cast_p=False, scales_ds=True),
}


@dataclasses.dataclass(frozen=True)
class Problem:
    seed: int
    dtype: str
    batch: int
    heads: int
    group: int
    seqlen_q: int
    seqlen_kv: int
    head_dim: int
    causal: bool
    kind: str

    @property
    def scale(self):
        """As the kernels have it, in float32."""
        return float(np.float32(1) / np.sqrt(np.float32(self.head_dim)))

    def __str__(self):
        return (f"{self.dtype} B {self.batch} H {self.heads} (groups of {self.group}) Sq {self.seqlen_q} "
                f"Skv {self.seqlen_kv} D {self.head_dim} {'causal' if self.causal else 'no mask'} {self.kind}")


# ---- inputs

def ramped(name, noise):
    """Feature 0 adds key / 32 to every score."""
    if name in ("q", "k"):
        noise = 0.5 * noise
    if name == "q":
        noise[..., 0] = 0.5 * noise.shape[-1] ** 0.5
    if name == "k":
        noise[..., 0] = torch.arange(noise.shape[2]) / 16
    return noise


def large(name, noise):
    return noise * {"q": 4, "k": 4, "v": 4, "dout": 8}[name]


def with_mean(name, noise):
    return noise + {"q": 0.5, "k": 0.5, "v": 2, "dout": 1}[name]


def sparse_dout(name, noise):
    if name == "dout":
        noise = torch.where(noise.abs() > 2.5, noise, torch.zeros_like(noise))
        noise[:, :, -1, 0] = 1
    return noise


def constant_dout(name, noise):
    return torch.ones_like(noise) if name == "dout" else noise


KINDS = {"normal": lambda name, noise: noise, "ramped": ramped, "mean": with_mean, "large": large,
         "sparse_dout": sparse_dout, "constant_dout": constant_dout}
# Of the others, scores or dout may leave a row with one key, and then dq and dk are 0.
NULL_KINDS = ("normal", "mean", "constant_dout")
LEAST_NULL_LENGTH = 16


def random_problem(seed):
    draw = random.Random(seed)

    def seqlen():
        any_length, around_a_tile = draw.randint(1, 600), BLOCK * draw.randint(1, 9) + draw.choice([-1, 0, 1])
        return draw.choice([any_length, any_length, around_a_tile, around_a_tile, draw.randint(1, 20)])

    heads_kv = draw.choice([1, 1, 2, 4])
    group = draw.choice([1, 2, 4, 8 // heads_kv]) if heads_kv < 4 else draw.choice([1, 2])
    seqlen_q = seqlen()
    return Problem(seed=seed, dtype=draw.choice(list(DTYPES)), batch=draw.choice([1, 2]), heads=heads_kv * group,
                   group=group, seqlen_q=seqlen_q, seqlen_kv=draw.choice([seqlen_q, seqlen()]),
                   head_dim=draw.choice([64, 128]), causal=draw.random() < 0.5, kind=draw.choice(list(KINDS)))


def make_inputs(problem):
    """{q, k, v, dout}; made on the CPU, so that a seed means the same everywhere. Each KV head is repeated for its
    query heads, and so dk and dv are those of a query head."""
    generator = torch.Generator().manual_seed(problem.seed)
    tensors = {}
    for name in ("q", "k", "v", "dout"):
        of_keys = name in ("k", "v")
        heads = problem.heads // problem.group if of_keys else problem.heads
        seqlen = problem.seqlen_kv if of_keys else problem.seqlen_q
        noise = torch.randn((problem.batch, heads, seqlen, problem.head_dim), generator=generator)
        tensor = KINDS[problem.kind](name, noise).to(DTYPES[problem.dtype])
        if of_keys:
            tensor = tensor.repeat_interleave(problem.group, dim=1)
        tensors[name] = tensor.to(DEVICE).contiguous()
    return tensors


# ---- the kernels

def run_backend(backend, problem, inputs):
    """Adds o, lse, dq, dk and dv of PyTorch's kernels to the inputs. RuntimeError where it has none for the call."""
    leaves = [inputs[name].detach().requires_grad_() for name in ("q", "k", "v")]
    outputs = getattr(torch.ops.aten, backend.operator)(*leaves, *backend.arguments(problem.causal),
                                                        scale=problem.scale)
    gradients = torch.autograd.grad(outputs[0], leaves, inputs["dout"])
    # Some pad the rows of lse, some give it a fourth dimension.
    lse = outputs[1].detach().reshape(problem.batch, problem.heads, -1)[:, :, :problem.seqlen_q]
    return {**inputs, "o": outputs[0].detach(), "lse": lse.float(), **dict(zip(GRADIENTS, gradients))}


def float64_gradients(backend, problem, tensors):
    """dq, dk and dv by the definition, from the same o and lse."""
    q, k, v, dout, o, lse = (tensors[name].double() for name in ("q", "k", "v", "dout", "o", "lse"))
    p = (q @ k.mT * problem.scale - lse[..., None]).exp()
    if problem.causal:
        diagonal = problem.seqlen_kv - problem.seqlen_q if backend.alignment == "bottom_right" else 0
        p = torch.where(torch.ones(p.shape[2:], dtype=torch.bool, device=p.device).tril(diagonal), p, 0.0)
    ds = p * (dout @ v.mT - (dout * o).sum(-1, keepdim=True))
    return {"dq": ds @ k * problem.scale, "dk": ds.mT @ q * problem.scale, "dv": p.mT @ dout}


# ---- the dump

def bits_of(tensor):
    """As NumPy has it; the bits of bfloat16, which it has not."""
    tensor = tensor.contiguous().cpu()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def write_dump(path, name, problem, tensors):
    backend, dtype = BACKENDS[name], problem.dtype
    with h5py.File(path, "w") as f:
        f.attrs.update(format="tilescope", format_version=1, producer="bench_backward", kernel=f"PyTorch {name}",
                       command=repeat_command(problem, name))
        if torch.cuda.is_available():
            f.attrs.update(device=torch.cuda.get_device_name(),
                           compute_capability="{}.{}".format(*torch.cuda.get_device_capability()))
        f.create_group("problem").attrs.update(
            direction="backward", batch=problem.batch, heads=problem.heads, seqlen_q=problem.seqlen_q,
            seqlen_kv=problem.seqlen_kv, head_dim=problem.head_dim, block_m=BLOCK, block_n=BLOCK,
            sm_scale=problem.scale, mask="causal" if problem.causal else "none", causal_alignment=backend.alignment,
            **{f"dtype_{operand}": dtype for operand in ("q", "k", "v", "o", "dout", "p", "ds", *GRADIENTS)})
        for operand in ("q", "k", "v", "dout", "o", "lse"):
            f[f"inputs/{operand}"] = bits_of(tensors[operand])
        units = {"s": {"accumulation": "tensor_core_f32"}, "p": {"exp": backend.exponential},
                 "dp": {"accumulation": "tensor_core_f32"},
                 "ds": {"from_cast_p": backend.ds_from_cast_p, "scale": problem.scale if backend.scales_ds else 1.0}}
        shape = (problem.batch, problem.heads, problem.seqlen_q, problem.seqlen_kv)
        chunk = (1, 1, min(BLOCK, problem.seqlen_q), min(BLOCK, problem.seqlen_kv))
        for stage, attributes in units.items():
            f.create_dataset(f"tiles/{stage}", shape, "f4", chunks=chunk).attrs.update(attributes)
        for stage in GRADIENTS:
            f[f"outputs/{stage}"] = bits_of(tensors[stage])
            f[f"outputs/{stage}"].attrs.update(accumulation="tensor_core_f32", dtype=dtype)
        f.attrs["complete"] = 1


# ---- judging

def judge(tile_diff, path):
    """{stage: its part of tile-diff's JSON}, and what it says of the o and lse of the forward kernel."""
    done = subprocess.run([tile_diff, "--json", "-", path], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(f"bench_backward: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    report = json.loads(done.stdout)
    stages = {stage["name"]: stage for stage in report["stages"] if stage["captured"]}
    return stages, [warning for warning in report["warnings"] if "that the kernel was given" in warning]


def places_to_explain(got, expected, draw):
    """Indices of the elements that are furthest off, absolutely and by their size, and of two drawn at random."""
    error = (got.double() - expected).abs()
    relative = error / (expected.abs() + error.square().mean().sqrt() + 1e-300)
    count = min(2, error.numel())
    flat = [*error.flatten().topk(count).indices.tolist(), *relative.flatten().topk(count).indices.tolist()]
    flat += [draw.randrange(error.numel()) for _ in range(2)]
    return [tuple(int(i) for i in np.unravel_index(i, error.shape)) for i in flat]


def used_budgets(arguments, path, tensors, expected, seed):
    """{stage: (ratios of the elements drawn, ratios of those that are furthest off)}: |got - expected| / tolerance as
    tile-diff has it, since it keeps no ratios of what is inside."""
    draw = random.Random(seed)
    places = {stage: places_to_explain(tensors[stage], expected[stage], draw) for stage in GRADIENTS}

    def ratio(stage, place):
        asked = f"--explain-tolerance={stage},{','.join(map(str, place))}"
        done = subprocess.run([arguments.tile_diff, asked, path], capture_output=True, text=True, check=True)
        found = re.search(r"\|got - expected\| / tolerance (.*)", done.stdout)[1]
        return float("inf") if found.startswith("not") else float(found)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        ratios = {stage: list(pool.map(lambda place, stage=stage: ratio(stage, place), places[stage]))
                  for stage in GRADIENTS}
    return {stage: (found[-2:], found[:-2]) for stage, found in ratios.items()}


def column_means(gradient):
    return gradient.float().mean(dim=2, keepdim=True).expand(gradient.shape).to(gradient.dtype)


NULLS = {"zeros": torch.zeros_like,
         "a constant": lambda gradient: torch.full_like(gradient, gradient.float().mean().item()),
         "column means": column_means}


class Figures:
    """What was found of one backend."""

    def __init__(self):
        self.problems = 0
        self.outputs = 0  # elements of o and lse, which are the forward kernel's
        self.not_run = []
        self.stages = {stage: {"elements": 0, "outside": 0, "drawn": [], "furthest": []} for stage in GRADIENTS}
        self.nulls = 0
        self.nulls_flagged = 0
        self.failures = 0


def repeat_command(problem, name):
    return f"python3 tests/bench/bench_backward.py --only {problem.seed} --backend {name}"


def fail(arguments, figures, path, problem, name, what):
    figures.failures += 1
    arguments.keep.mkdir(parents=True, exist_ok=True)
    kept = arguments.keep / path.name
    shutil.copy(path, kept)
    print(f"FAILED {name}, {problem}: {what}\n  kept {kept}; again: {repeat_command(problem, name)}", flush=True)


def test_healthy(arguments, figures, folder, name, problem, tensors):
    path = folder / f"{name}_{problem.seed}.h5"
    write_dump(path, name, problem, tensors)
    stages, of_forward = judge(arguments.tile_diff, path)
    figures.outputs += tensors["o"].numel() + tensors["lse"].numel()
    expected = float64_gradients(BACKENDS[name], problem, tensors)
    used = used_budgets(arguments, path, tensors, expected, problem.seed)
    for stage in GRADIENTS:
        found = figures.stages[stage]
        found["elements"] += stages[stage]["compared"]
        found["outside"] += stages[stage]["outside"]
        found["drawn"] += used[stage][0]
        found["furthest"] += used[stage][1]
    wrong = [f"{stage} {stages[stage]['outside']} of {stages[stage]['compared']} outside, first "
             f"{json.dumps(stages[stage]['first'])}" for stage in GRADIENTS if stages[stage]["outside"]]
    wrong += of_forward
    if wrong:
        fail(arguments, figures, path, problem, name, "; ".join(wrong))
    path.unlink()


def test_nulls(arguments, figures, folder, name, problem, tensors):
    for null, replace in NULLS.items():
        path = folder / f"{name}_{problem.seed}_{null.replace(' ', '_')}.h5"
        write_dump(path, name, problem, {**tensors, **{stage: replace(tensors[stage]) for stage in GRADIENTS}})
        stages, _ = judge(arguments.tile_diff, path)
        flagged = [stage for stage in GRADIENTS if stages[stage]["outside"]]
        figures.nulls += len(GRADIENTS)
        figures.nulls_flagged += len(flagged)
        if len(flagged) < len(GRADIENTS):
            passed = ", ".join(stage for stage in GRADIENTS if stage not in flagged)
            fail(arguments, figures, path, problem, name, f"{null} in place of {passed} passes")
        path.unlink()


def run_problem(arguments, all_figures, folder, problem):
    inputs = make_inputs(problem)
    for name in arguments.backend:
        figures = all_figures[name]
        try:
            tensors = run_backend(BACKENDS[name], problem, inputs)
        except RuntimeError as error:
            figures.not_run.append((problem, str(error).strip().splitlines()[0]))
            continue
        figures.problems += 1
        test_healthy(arguments, figures, folder, name, problem, tensors)
        long_enough = min(problem.seqlen_q, problem.seqlen_kv) >= LEAST_NULL_LENGTH
        if problem.kind in NULL_KINDS and long_enough:
            test_nulls(arguments, figures, folder, name, problem, tensors)


# ---- the report

def print_table(all_figures):
    print(f"\n{'kernel, stage':<16}{'problems':>9}{'elements':>12}{'outside':>9}   error / budget: "
          "median of elements drawn, largest of those furthest off")
    for name, figures in all_figures.items():
        for stage, found in figures.stages.items():
            if figures.problems == 0:
                continue
            median, largest = statistics.median(found["drawn"]), max(found["drawn"] + found["furthest"])
            print(f"{name + ' ' + stage:<16}{figures.problems:>9}{found['elements']:>12}{found['outside']:>9}   "
                  f"{median:.3g}  {largest:.3g}")
    for name, figures in all_figures.items():
        print(f"{name}: o and lse of the forward kernel, {figures.outputs} elements: judged, and named above if wrong")
        print(f"{name}: nulls flagged {figures.nulls_flagged} of {figures.nulls}")
        if figures.not_run:
            problem, why = figures.not_run[0]
            print(f"{name}: PyTorch has no kernel for {len(figures.not_run)} problems, first {problem}: {why}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tile-diff", type=pathlib.Path, default=pathlib.Path("build/bin/tile-diff"))
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="default: all of them")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000, help="of the first problem (default %(default)s)")
    parser.add_argument("--only", type=int, metavar="SEED", help="one problem")
    parser.add_argument("--jobs", type=int, default=8, help="tile-diff runs at a time (default %(default)s)")
    parser.add_argument("--dir", help="where the dumps go, some megabytes each")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/bench_backward"),
                        help="where those that fail are kept (default %(default)s)")
    arguments = parser.parse_args()
    arguments.backend = arguments.backend or list(BACKENDS)
    arguments.tile_diff = arguments.tile_diff.resolve()
    return arguments


def main():
    arguments = parse_arguments()
    if not arguments.tile_diff.is_file():
        print(f"bench_backward: {arguments.tile_diff}: not found; compile it or give --tile-diff", file=sys.stderr)
        return 2
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("bench_backward: PyTorch sees no GPU; run it on a machine that has one", file=sys.stderr)
        return 2
    seeds = range(arguments.seed, arguments.seed + arguments.problems)
    if arguments.only is not None:
        seeds = [arguments.only]
    all_figures = {name: Figures() for name in arguments.backend}
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        for seed in seeds:
            run_problem(arguments, all_figures, pathlib.Path(folder), random_problem(seed))
    print_table(all_figures)
    if not any(figures.problems for figures in all_figures.values()):
        print("bench_backward: no problem could be run", file=sys.stderr)
        return 2
    return 1 if any(figures.failures for figures in all_figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
