#!/usr/bin/env python3
"""Tests measure_sdpa.py with stand-ins for PyTorch on a GPU and for the library of bundled kernels: what is written of
backends, launches and versions, what is launched, and that it takes turns.

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
import contextlib, ctypes, os, types
__version__ = "2.11.0"
version = types.SimpleNamespace(cuda="13.0")
float16 = bfloat16 = None
in_force, stream_of = [None], [None]
KERNELS = {"FLASH_ATTENTION": ["pytorch_flash::flash_fwd_splitkv_kernel", "pytorch_flash::flash_fwd_splitkv_combine_kernel"],
           "CUDNN_ATTENTION": ["Memset (Device)", "cudnn_generated_fort_native_sdpa_sm90_knob_3"],
           "EFFICIENT_ATTENTION": ["fmha_cutlassF_f16_aligned_64x64_rf_sm80"], "MATH": ["gemm", "softmax", "gemm"],
           None: ["pytorch_flash::flash_fwd_kernel"]}


class Tensor:
    def __init__(self, size): self.size = self.shape = size
    def data_ptr(self): return 4096
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
    def replay(self):
        assert stream_of[0] == "own"
        replayed.append(graphs.setdefault(id(self), len(graphs)))
        if "REPLAYED" in os.environ:
            open(os.environ["REPLAYED"], "w").write(" ".join(map(str, replayed)))


def attention(q, k, v, is_causal, enable_gqa=False):
    assert stream_of[0] == "own"
    launches.extend(KERNELS[in_force[0]])
    if in_force[0] == "MATH" and is_causal:
        raise RuntimeError("No available kernel")
    return q


launches, replayed, graphs = [], [], {}
float32 = None
empty_like = lambda tensor: tensor
empty = lambda size, dtype, device: Tensor(size)
randn = lambda size, device: Tensor(size)
manual_seed = lambda seed: None
isfinite = lambda tensor: types.SimpleNamespace(all=lambda: True)
no_grad = contextlib.nullcontext
autograd = types.SimpleNamespace(DeviceType=types.SimpleNamespace(CUDA="cuda"))
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
cuda = types.SimpleNamespace(
    is_available=lambda: True, Event=Event, ExternalStream=lambda handle: {2: "own"}[handle], stream=stream, synchronize=lambda: None,
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


LIBRARY = """\
#include <cstdio>
#include <cstring>
#include "kernels/gate/launch_library.h"
int tilescope_launch(const TilescopeCall* call, char* error, std::size_t bytes) {
    std::fprintf(stderr, "%s '%s' %s %d %d %d %d %d %d %d %p %p\\n", call->kernel, call->config, call->dtype, int(call->batch),
                 int(call->heads), int(call->heads_kv), int(call->seqlen_q), int(call->seqlen_kv), int(call->head_dim),
                 int(call->causal), call->q, static_cast<void*>(call->lse));
    if (std::strcmp(call->kernel, "wmma") != 0) return 0;
    std::strncpy(error, "it does not like this", bytes);
    return 1;
}
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

    def run_measure(self, *arguments, **environment):
        return subprocess.run([sys.executable, ROOT / "tests/bench/measure_sdpa.py", "--shape", "1,8,512,512,64", "--warmup-ms", "0",
                              *arguments, "-o", self.folder / "sdpa.csv"], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "PYTHONPATH": str(self.folder), **environment})

    def measure(self, *arguments, **environment):
        run = self.run_measure(*arguments, **environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run, (self.folder / "sdpa.csv").read_text().splitlines()

    def refused(self, *arguments):
        run = self.run_measure(*arguments)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run.stderr)
        return run

    def test_every_backend_and_the_one_that_is_chosen(self):
        run, lines = self.measure()
        calls = [line for line in lines if line.startswith("# a call of ")]
        key = "f16,1,8,8,512,512,64,none"
        self.assertEqual(calls, [
            f"# a call of sdpa_flash,{key} is 2 kernels, 8.000 us; by its kernels it is flash",
            f"# a call of sdpa_cudnn,{key} is 1 kernel, 4.000 us; 1 copy or memset, 1.500 us; by its kernels it is cudnn",
            f"# a call of sdpa_efficient,{key} is 1 kernel, 4.000 us; by its kernels it is efficient",
            f"# a call of sdpa_math,{key} is 3 kernels, 12.000 us; by its kernels it is math",
            f"# a call of sdpa_default,{key} is 1 kernel, 4.000 us; by its kernels it is flash"])
        self.assertIn("#   1 x pytorch_flash..flash_fwd_splitkv_combine_kernel, 4.000 us", lines)
        self.assertIn("#   2 x gemm, 8.000 us", lines)
        self.assertIn(calls[1].removeprefix("# "), run.stdout)

    def library(self):
        source, library = self.folder / "stand_in.cpp", self.folder / "stand_in.so"
        source.write_text(LIBRARY)
        subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}", source, "-o", library], check=True, timeout=60)
        return library

    def test_bundled_kernels_are_launched_beside_backends_in_turns(self):
        replayed = self.folder / "replayed"
        run, lines = self.measure("--kernel", "fast", "--kernel", "wmma", "--backend", "cudnn", "--backend", "flash", "--heads-kv", "2",
                                  "--dtype", "bf16", "--library", self.library(), "--samples", "30", REPLAYED=str(replayed))
        self.assertIn("fast '' bf16 1 8 2 512 512 64 0 0x1000 0x1000\n", run.stderr)
        self.assertIn("not measured: wmma 1,8,512,512,64 none: it does not like this", run.stderr)
        rows = [line.split(",") for line in lines if line[0] not in "#i"]
        self.assertTrue(any(line.endswith("2 x L2, graphs in turn, in random order") for line in lines))
        counts = {name: sum(row[0] == name for row in rows) for name in ("fast", "sdpa_cudnn", "sdpa_flash")}
        self.assertEqual(counts, {"fast": 30, "sdpa_cudnn": 30, "sdpa_flash": 30})
        self.assertTrue(any(line.startswith("# a call of fast,bf16,1,8,2,512,512,64,none ") for line in lines))
        # The last 90 replays are rounds of all three, not always in the same order.
        turns = replayed.read_text().split()[-90:]
        rounds = [tuple(turns[i:i + 3]) for i in range(0, 90, 3)]
        self.assertTrue(all(set(one) == {"0", "1", "2"} for one in rounds), rounds)
        self.assertGreater(len(set(rounds)), 3)

    def test_a_library_that_is_not_there(self):
        run = self.refused("--kernel", "fast", "--library", "/nowhere.so")
        self.assertIn("/nowhere.so", run.stderr)
        self.assertIn("./dev build", run.stderr)

    def test_versions_and_percentiles(self):
        _, lines = self.measure("--backend", "cudnn")
        for line in ("# device: NVIDIA X", "# cuda_runtime: 13000", "# pytorch: 2.11.0", "# cudnn: 91900",
                     "# method: events around replays of a CUDA graph, inputs rotated, 2 x L2"):
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
