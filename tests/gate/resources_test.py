#!/usr/bin/env python3
"""Tests how resources.py reads the compiler's report and holds it against limits.

usage: resources_test.py ROOT [NVCC]

With NVCC a kernel that must spill is compiled, too.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
NVCC = sys.argv.pop(1) if len(sys.argv) > 1 else None
SCRIPT = ROOT / "kernels/gate/resources.py"

specification = importlib.util.spec_from_file_location("resources", SCRIPT)
resources = importlib.util.module_from_spec(specification)
specification.loader.exec_module(resources)

# As ptxas 13.0 writes it; a called function has properties of its own.
REPORT = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_Z6spillsPf' for 'sm_90'
ptxas info    : Function properties for _Z6spillsPf
    112 bytes stack frame, 140 bytes spill stores, 136 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 112 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Compile time = 63.477 ms
ptxas info    : Compiling entry function '_Z4goodPf' for 'sm_90'
ptxas info    : Function properties for _Z4goodPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Function properties for _Z6calledf
    16 bytes stack frame, 0 bytes spill stores, 8 bytes spill loads
"""

SPILLING = """\
extern "C" __global__ void __maxnreg__(16) spills(float* data) {
    __shared__ float shared[256];
    shared[threadIdx.x] = data[threadIdx.x];
    float value[64];
    _Pragma("unroll") for (int i = 0; i < 64; ++i) value[i] = data[i * 32 + threadIdx.x];
    __syncthreads();
    _Pragma("unroll") for (int i = 0; i < 64; ++i) data[i * 32 + threadIdx.x] = value[i] * value[63 - i] * shared[i];
}
"""


def row(**changes):
    return {"source": "scalar.cu", "kernel": "k", "configuration": "Config<1>", "build": "plain", "registers": 33,
            "stack_bytes": 0, "spill_bytes": 0, "static_shared_bytes": 16, "dynamic_shared_bytes": 100, **changes}


class Report(unittest.TestCase):
    def test_reads_every_function_and_figure(self):
        figures = ("function", "entry", "registers", "stack_bytes", "spill_bytes", "static_shared_bytes")
        self.assertEqual([tuple(function[figure] for figure in figures) for function in resources.parse_ptxas(REPORT)],
                         [("_Z6spillsPf", True, 32, 112, 140, 4096), ("_Z4goodPf", True, 18, 0, 0, 0),
                          ("_Z6calledf", False, 0, 16, 8, 0)])

    def test_names_kernel_and_configuration(self):
        for demangled, expected in [
            ("void a::plain::k<a::Config<32, 64> >(a::Args)", ("k", "a::Config<32, 64>")),
            ("void a::hooked::k<a::Config<32, a::B<1> >, __half, false>(a::Args, a::Sink)",
             ("k", "a::Config<32, a::B<1> >, __half, false")),
            ("a::plain::k(a::View<float>)", ("k", "")),
            ("spills", ("spills", "")),
        ]:
            self.assertEqual(resources.describe_function(demangled), expected)
        self.assertEqual(resources.short("a::Config<32, a::b::C>, __half"), "Config<32, C>, __half")
        self.assertEqual(resources.short("a::Config<(int)64, (bool)1, (bool)0, (unsigned int)8>"),
                         "Config<64, true, false, 8>")


    def test_a_function_that_several_kernels_call_has_one_row(self):
        called = row(kernel="called", registers=0, stack_bytes=8)
        again = {**called, "stack_bytes": 0, "spill_bytes": 4}
        self.assertEqual(resources.largest_of_each([called, row(), again]),
                         [{**called, "stack_bytes": 8, "spill_bytes": 4}, row()])


class Limits(unittest.TestCase):
    def test_what_keeps_its_limits_is_not_found(self):
        self.assertEqual(resources.judge([row()], [row()]), [])
        self.assertEqual(resources.judge([row(registers=1, dynamic_shared_bytes=0)], [row()]), [])

    def test_every_figure_is_held(self):
        for figure in resources.FIGURES:
            found = resources.judge([row(**{figure: 1000})], [row()])
            self.assertEqual(found, [f"k <Config<1>> plain: {figure} 1000, limit {row()[figure]}"])

    def test_neither_side_may_lack_a_kernel(self):
        hooked = row(build="hooked")
        self.assertIn("hooked: has no limits", resources.judge([row(), hooked], [row()])[0])
        self.assertIn("hooked: has limits and is not compiled", resources.judge([row()], [row(), hooked])[0])

    def test_what_is_not_compiled_is_not_held_where_another_configuration_is(self):
        limits = [row(), row(build="hooked"), row(configuration="Config<2>"), row(configuration="Config<2>", build="hooked")]
        self.assertEqual(resources.limits_of_compiled(limits[:2], limits), limits[:2])
        self.assertEqual(resources.limits_of_compiled(limits, limits), limits)
        # A build that lacks a configuration is still held to it.
        self.assertEqual(resources.limits_of_compiled(limits[:1], limits), limits[:2])
        for other in ({"source": "wmma.cu"}, {"kernel": "other", "configuration": "Config<2>"}):
            with self.assertRaisesRegex(resources.Unjudged, "no configuration of it is compiled"):
                resources.limits_of_compiled(limits[:2], [*limits, row(**other)])

    def test_new_limits_leave_room_up_to_the_next_unit_of_registers(self):
        self.assertEqual([limit["registers"] for limit in resources.limits_from([row(), row(registers=40)])], [40, 40])

    def read_limits(self, there, **limits):
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch, "limits.json")
            path.write_text(json.dumps(limits))
            return resources.read_limits(path, there)

    def test_kernels_without_hooks_never_get_leave_to_spill(self):
        spilling = [row(spill_bytes=4), row(spill_bytes=4, build="hooked")]
        self.assertEqual([limit["spill_bytes"] for limit in resources.limits_from(spilling)], [0, 4])
        with self.assertRaisesRegex(resources.Unjudged, "spill nothing"):
            self.read_limits({"scalar.cu"}, sources={"scalar.cu": {}}, limits=spilling[:1])

    def test_every_source_is_held(self):
        limits = {"sources": {"a.cu": {}, "b.cu": {}}, "limits": []}
        self.assertEqual(self.read_limits({"a.cu", "b.cu"}, **limits), limits)
        for there, words in [({"a.cu", "b.cu", "c.cu"}, "kernels/attention/c.cu"), ({"a.cu"}, "kernels/attention/b.cu, which is not there")]:
            with self.assertRaisesRegex(resources.Unjudged, words):
                self.read_limits(there, **limits)

    def test_the_limits_of_the_repository_can_be_read(self):
        sources = {path.name for path in (ROOT / "kernels/attention").glob("*.cu")}
        limits = resources.read_limits(resources.LIMITS, sources)
        self.assertEqual({limit["source"] for limit in limits["limits"]}, set(limits["sources"]))

    def test_without_a_compiler_nothing_is_judged(self):
        done = subprocess.run([sys.executable, SCRIPT, "--nvcc", ""], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "resources.py: nvcc: not found; install CUDA or give --nvcc\n")


@unittest.skipIf(NVCC is None, "no nvcc")
class Compiled(unittest.TestCase):
    def test_a_kernel_that_must_spill_is_seen(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch, "spills.cu")
            source.write_text(SPILLING)
            done = subprocess.run([NVCC, "-arch=sm_90", "-cubin", "-Xptxas", "-v", source, "-o", f"{scratch}/cubin"],
                                  capture_output=True, text=True, check=True)
            [function] = resources.parse_ptxas(done.stdout + done.stderr)
            self.assertTrue(function["entry"])
            self.assertEqual(function["static_shared_bytes"], 1024)
            self.assertGreater(function["spill_bytes"], 0)
            self.assertGreater(function["stack_bytes"], 0)
            self.assertTrue(0 < function["registers"] <= 24)

    def test_the_size_of_shared_memory_is_the_compilers(self):
        with tempfile.TemporaryDirectory() as scratch:
            values = resources.dynamic_shared(NVCC, ["-arch=sm_90"], "cstdint",
                                              ["sizeof(std::uint64_t[37])", "0", "1 << 17"], scratch)
            self.assertEqual(values, [296, 0, 131072])


if __name__ == "__main__":
    unittest.main()
