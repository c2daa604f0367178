#!/usr/bin/env python3
"""Tests measure_sdpa.py with a package that stands for PyTorch on a GPU: what is written of backends, launches and versions.

usage: measure_sdpa_test.py ROOT TILE_GATE
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

ROOT, TILE_GATE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
# Events are a microsecond apart at first and a little more each time; what is launched depends on the backend in force.
TORCH = """\
import contextlib, types
__version__ = "2.11.0"
version = types.SimpleNamespace(cuda="13.0")
float16 = bfloat16 = None
in_force, stream_of = [None], [None]
KERNELS = {"FLASH_ATTENTION": ["pytorch_flash::flash_fwd_splitkv_kernel", "pytorch_flash::flash_fwd_splitkv_combine_kernel"],
           "CUDNN_ATTENTION": ["Memset (Device)", "cudnn_generated_fort_native_sdpa_sm90_knob_3"],
           "EFFICIENT_ATTENTION": ["fmha_cutlassF_f16_aligned_64x64_rf_sm80"], "MATH": ["gemm", "softmax", "gemm"],
           None: ["pytorch_flash::flash_fwd_kernel"]}


class Tensor:
    def __init__(self, size): self.size = size
    def to(self, _): return self
    def clone(self): return Tensor(self.size)
    def numel(self): return self.size[0] * self.size[1] * self.size[2] * self.size[3]
    def element_size(self): return 2


class Event:
    now = 0
    def __init__(self, enable_timing): pass
    def record(self):
        Event.now += 100 + Event.now % 7
        self.time = Event.now
    def synchronize(self): pass
    def elapsed_time(self, end): return (end.time - self.time) / 1000


@contextlib.contextmanager
def stream(chosen):
    stream_of[0] = chosen
    yield
    stream_of[0] = None


class CUDAGraph:
    def replay(self): assert stream_of[0] == "own"


def attention(q, k, v, is_causal):
    assert stream_of[0] == "own"
    launches.extend(KERNELS[in_force[0]])
    if in_force[0] == "MATH" and is_causal:
        raise RuntimeError("No available kernel")
    return q


launches = []
randn = lambda size, device: Tensor(size)
manual_seed = lambda seed: None
isfinite = lambda tensor: types.SimpleNamespace(all=lambda: True)
no_grad = contextlib.nullcontext
autograd = types.SimpleNamespace(DeviceType=types.SimpleNamespace(CUDA="cuda"))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
cuda = types.SimpleNamespace(
    is_available=lambda: True, Event=Event, Stream=lambda: "own", stream=stream, synchronize=lambda: None,
    _sleep=lambda cycles: setattr(Event, "now", Event.now + cycles // 2000),
    current_stream=lambda: stream_of[0], CUDAGraph=CUDAGraph, empty_cache=lambda: None, get_device_name=lambda _: "NVIDIA X",
    graph=lambda graph, stream: contextlib.nullcontext(),
    get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=1000))
"""
FUNCTIONAL = "from torch import attention as scaled_dot_product_attention\n"
ATTENTION = """\
import contextlib, torch, types
SDPBackend = types.SimpleNamespace(**{name: name for name in torch.KERNELS if name})


@contextlib.contextmanager
def sdpa_kernel(backend):
    torch.in_force[0] = backend
    yield
    torch.in_force[0] = None
"""
PROFILER = """\
import torch, types
ProfilerActivity = types.SimpleNamespace(CUDA=1)


class profile:
    def __init__(self, activities): pass
    def __enter__(self):
        torch.launches.clear()
        return self
    def __exit__(self, *_): pass
    def events(self):
        def event(where, name, passed):
            return types.SimpleNamespace(device_type=where, name=name, time_range=types.SimpleNamespace(elapsed_us=lambda: passed))
        return [event("cpu", "aten::attention", 9.0)] + [
            event("cuda", name, 1.5 if name.startswith("Memset") else 4.0) for name in torch.launches]
"""


class MeasureSdpa(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for name, text in (("torch/__init__.py", TORCH), ("torch/nn/__init__.py", ""), ("torch/nn/functional.py", FUNCTIONAL),
                           ("torch/nn/attention.py", ATTENTION), ("torch/profiler.py", PROFILER)):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder / "torch/__init__.py").write_text(TORCH + "from torch import nn\nimport torch.nn.functional\n")

    def measure(self, *arguments):
        run = subprocess.run([sys.executable, ROOT / "tests/bench/measure_sdpa.py", "--shape", "1,8,512,512,64", "--warmup-ms", "0",
                              *arguments, "-o", self.folder / "sdpa.csv"], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "PYTHONPATH": str(self.folder)})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run, (self.folder / "sdpa.csv").read_text().splitlines()

    def test_every_backend_and_the_one_that_is_chosen(self):
        run, lines = self.measure()
        calls = [line for line in lines if line.startswith("# a call of ")]
        key = "f16,1,8,8,512,512,64,none"
        self.assertEqual(calls, [
            f"# a call of sdpa_flash,{key} is 2 kernels, 8.000 us; by its kernels it is flash",
            f"# a call of sdpa_cudnn,{key} is 1 kernels, 4.000 us; 1 copies and memsets, 1.500 us; by its kernels it is cudnn",
            f"# a call of sdpa_efficient,{key} is 1 kernels, 4.000 us; by its kernels it is efficient",
            f"# a call of sdpa_math,{key} is 3 kernels, 12.000 us; by its kernels it is math",
            f"# a call of sdpa_default,{key} is 1 kernels, 4.000 us; by its kernels it is flash"])
        self.assertIn("#   1 x pytorch_flash..flash_fwd_splitkv_combine_kernel, 4.000 us", lines)
        self.assertIn("#   2 x gemm, 8.000 us", lines)
        self.assertIn(calls[1].removeprefix("# "), run.stdout)

    def test_versions_and_percentiles(self):
        _, lines = self.measure("--backend", "cudnn")
        for line in ("# device: NVIDIA X", "# cuda_runtime: 13000", "# pytorch: 2.11.0", "# cudnn: 91900"):
            self.assertIn(line, lines)
        times = [float(line.split(",")[-1]) for line in lines if line.startswith("sdpa_cudnn,")]
        self.assertGreaterEqual(len(times), 20)
        said = next(line for line in lines if line.startswith("# microseconds of sdpa_cudnn,")).split()
        of_100 = statistics.quantiles(times, n=100, method="inclusive")
        for name, level in (("p50", 50), ("p90", 90), ("p99", 99)):
            self.assertAlmostEqual(float(said[said.index(name) + 1]), of_100[level - 1], delta=1e-3)

    def test_what_is_refused_is_said_and_the_file_is_read(self):
        run, lines = self.measure("--mask", "none", "--mask", "causal")
        self.assertIn("# not measured: sdpa_math 1,8,512,512,64 causal: No available kernel", lines)
        self.assertIn("not measured: sdpa_math", run.stderr)
        compared = subprocess.run([TILE_GATE, "latency", self.folder / "sdpa.csv", self.folder / "sdpa.csv", "--candidate",
                                   "sdpa_flash", "--baseline", "sdpa_cudnn"], capture_output=True, text=True)
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertIn("sdpa_cudnn on NVIDIA X", compared.stdout)
        self.assertIn("PyTorch 2.11.0, cuDNN 91900", compared.stdout)


if __name__ == "__main__":
    unittest.main()
