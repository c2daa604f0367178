#!/usr/bin/env python3
"""Tests tile-run: what it writes, prints and returns, on a machine with or without a GPU.

usage: test_tile_run.py TILE_RUN
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
SCALAR = ["--kernel", "scalar", "--engine", "cpu"]
SMALL = ["--shape", "1,2,40,70,64"]


class TileRun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "run.h5"

    def run_it(self, *arguments, **environment):
        return subprocess.run([TILE_RUN, *arguments], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **environment})

    def record(self, *arguments, **environment):
        run = self.run_it("record", *arguments, "-o", self.file, **environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run

    def assert_refused(self, arguments, *words, **environment):
        run = self.run_it(*arguments, **environment)
        self.assertEqual(run.returncode, 2, (arguments, run.stdout, run.stderr))
        self.assertEqual(run.stdout, "", arguments)
        self.assertEqual(run.stderr.count("\n"), 1, (arguments, run.stderr))
        self.assertTrue(run.stderr.startswith("tile-run: "), run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [], arguments)

    def test_lists_everything(self):
        text = self.run_it("list")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        listed = json.loads(self.run_it("list", "--json").stdout)
        self.assertEqual([kernel["name"] for kernel in listed["kernels"]], ["scalar", "wmma", "stable", "fast", "fp8", "cublas"])
        self.assertEqual(listed["kernels"][0]["engines"], ["cuda", "cpu"])
        for name in [entry["name"] for entry in listed["inputs"] + listed["faults"]]:
            self.assertIn(f"  {name} ", text.stdout)
        for kernel in ("scalar", "wmma", "stable", "fast", "fp8", "cublas"):
            self.assertGreaterEqual(sum(kernel in fault["kernels"] for fault in listed["faults"]), 10)

    def test_numbers_that_are_none(self):
        for value in ("nan", "-nan", "inf", "-inf", "1e999"):
            self.assert_refused(["record", *SCALAR, *SMALL, f"--time-limit={value}", "-o", self.file], "--time-limit")
            self.assert_refused(["sweep", f"--time-budget={value}"], "--time-budget")
            self.assert_refused(["record", *SCALAR, *SMALL, f"--sink-bytes={value}", "-o", self.file], "--sink-bytes")

    def test_a_nan_that_is_stored_is_not_unwritten(self):
        """What lies behind the inputs is a NaN with the bits of an output that nobody wrote."""
        for options in (["--fault", "nan_times_zero"], ["--input", "non_finite"]):
            self.record(*SCALAR, *SMALL, *options)
            with h5py.File(self.file) as file:
                for name in ("/outputs/o", "/outputs/lse"):
                    values = file[name][...].astype(numpy.float32)
                    self.assertEqual((values.view(numpy.uint32) == 0x7FD17E5C).sum(), 0, (options, name))
                self.assertTrue(numpy.isnan(file["/outputs/o"][...].astype(numpy.float32)).any(), options)

    def test_records_and_says_what_to_do_next(self):
        run = self.record(*SCALAR, *SMALL, "--causal", "--seed", "7")
        self.assertIn(f"next: tile-diff {self.file}", run.stdout)
        self.assertIn(f"{self.file.stat().st_size} bytes", run.stdout)
        self.assertEqual(run.stderr, "")
        with h5py.File(self.file) as file:
            self.assertEqual(file["/outputs/o"].shape, (1, 2, 40, 64))
            self.assertEqual(file["/tiles/s"].chunks, (1, 1, 32, 64))
            # Row 0 sees 31 keys: seqlen_kv - seqlen_q + 1. No row of its block sees KV tile 1.
            s = file["/tiles/s"][0, 0, 0]
            self.assertTrue(numpy.isfinite(s[:31]).all() and numpy.isneginf(s[31:64]).all())
            self.assertTrue(numpy.isnan(s[64:]).all())
            # Independent of this project: o of row 0 of head 1.
            q, k, v = (file[f"/inputs/{name}"][0, 1].astype("f8") for name in "qkv")
            p = numpy.exp(k[:31] @ q[0] / 8)
            self.assertTrue(numpy.allclose(file["/outputs/o"][0, 1, 0], p @ v[:31] / p.sum(), atol=2e-3))
            self.assertTrue(numpy.allclose(file["/outputs/lse"][0, 1, 0], numpy.log(p.sum()), atol=1e-5))

    def test_select_leaves_out_the_rest(self):
        self.record(*SCALAR, *SMALL, "--select", "head=1:stage=s,o")
        with h5py.File(self.file) as file:
            self.assertTrue(numpy.isnan(file["/tiles/p"][:]).all())
            self.assertTrue(numpy.isnan(file["/tiles/s"][0, 0]).all())
            self.assertTrue(numpy.isfinite(file["/tiles/s"][0, 1]).all())

    def test_an_empty_select_is_everything(self):
        self.record(*SCALAR, *SMALL, "--select", "", TILESCOPE_SELECT="stage=m")
        with h5py.File(self.file) as file:
            self.assertTrue(numpy.isfinite(file["/tiles/m"][:]).all())
            self.assertTrue(numpy.isfinite(file["/tiles/s"][:]).all())

    def test_select_defaults_to_the_environment(self):
        self.record(*SCALAR, *SMALL, TILESCOPE_SELECT="stage=m")
        with h5py.File(self.file) as file:
            self.assertTrue(numpy.isnan(file["/tiles/s"][:]).all())
            self.assertTrue(numpy.isfinite(file["/tiles/m"][:]).all())

    def test_a_fault_changes_the_numbers(self):
        self.record(*SCALAR, *SMALL)
        with h5py.File(self.file) as file:
            healthy = file["/outputs/lse"][:]
        run = self.record(*SCALAR, *SMALL, "--fault", "lse_base2")
        self.assertIn("fault lse_base2 planted in lse", run.stdout)
        with h5py.File(self.file) as file:
            self.assertTrue(numpy.allclose(file["/outputs/lse"][:], healthy / numpy.log(2), rtol=1e-6))

    def test_without_a_gpu_the_scalar_kernel_runs_on_the_cpu(self):
        run = self.record("--kernel", "scalar", *SMALL, **NO_GPU)
        self.assertIn("on CPU", run.stdout)
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("so it ran on the CPU", run.stderr)

    def test_without_a_kernel_the_scalar_one_runs_on_the_cpu(self):
        self.record(*SMALL, "--engine", "cpu")
        with h5py.File(self.file) as file:
            self.assertEqual(file.attrs["kernel"], "scalar")
            self.assertIn("--kernel scalar", file.attrs["command"])

    def test_a_race_is_not_played_on_the_cpu(self):
        for fault in ("load_before_barrier", "qk_barrier_missing"):
            self.assert_refused(["record", *SCALAR, *SMALL, "--fault", fault, "-o", "run.h5"], fault, "--engine cuda")

    def test_without_a_gpu_wmma_cannot_run(self):
        for options, *words in [(["--kernel", "wmma"], "wmma", "GPU", "--kernel scalar"),
                                (["--kernel", "scalar", "--engine", "cuda"], "--engine cpu"),
                                (["--kernel", "wmma", "--engine", "cpu"], "--engine cpu", "wmma")]:
            self.assert_refused(["record", *options, *SMALL, "-o", "run.h5"], *words, **NO_GPU)
        self.assert_refused(["prove-inert", "--kernel", "scalar", *SMALL], "prove-inert: ", "GPU", **NO_GPU)
        self.assert_refused(["prove-inert", *SCALAR, *SMALL], "prove-inert: ", "GPU")

    def test_every_other_check_runs_on_the_cpu(self):
        for check in (["poison"], ["repeat", "--runs", "2"], ["watch"], ["flight", "--keep", "2", "--launches", "3"]):
            for kernel in ("scalar", "stable"):
                run = self.run_it(*check, "--kernel", kernel, "--engine", "cpu", *SMALL)
                self.assertEqual((run.returncode, run.stderr), (0, ""), (kernel, check))

    def test_without_a_gpu_cublas_cannot_run(self):
        self.assert_refused(["record", "--kernel", "cublas", *SMALL, "-o", "run.h5"], "cublas", "GPU", **NO_GPU)
        self.assert_refused(["record", "--kernel", "cublas", "--engine", "cpu", *SMALL, "-o", "run.h5"], "--engine cpu",
                            "cublas")

    def test_it_starts_without_cublas(self):
        needed = subprocess.run(["ldd", TILE_RUN], capture_output=True, text=True, check=True).stdout
        self.assertIn("libc.so", needed)
        self.assertNotIn("cublas", needed)

    def test_bad_usage_is_one_line(self):
        output = ["-o", "run.h5"]
        for arguments, *words in [
            ([], "--shape"),
            (SMALL, "-o"),
            (["--bogus"], "--bogus", "--help"),
            (output, "--shape"),
            (["--json", *SCALAR, *SMALL, *output], "--json", "tile-run list"),
            (["--kernel", "flash", *SMALL, *output], "flash", "scalar, wmma, stable, fast, fp8, cublas"),
            ([*SCALAR, *output], "--shape"),
            ([*SCALAR, "--shape", "1,2,40", *output], "--shape"),
            ([*SCALAR, "--shape", "1,2,x,70,64", *output], "--shape"),
            ([*SCALAR, "--shape", "1,2,40,70,64,1", *output], "--shape"),
            ([*SCALAR, "--shape", "1,2,0,70,64", *output], "--shape", "seqlen_q"),
            ([*SCALAR, "--shape", "1,-2,40,70,64", *output], "--shape"),
            ([*SCALAR, "--shape", "1,2,40,70,96", *output], "head_dim 96", "64 or 128"),
            ([*SCALAR, "--shape", "1,2,2000000000,70,64", *output], "--shape"),
            ([*SCALAR, "--shape", "70000,2,40,70,64", *output], "--shape"),
            ([*SCALAR, "--shape", "99999999999999999999,2,40,70,64", *output], "--shape"),
            ([*SCALAR, "--shape", "60000,60000,40,70,64", *output], "memory"),
            ([*SCALAR, *SMALL, "--heads-kv", "3", *output], "heads_kv"),
            ([*SCALAR, *SMALL, "--heads-kv", "0", *output], "heads_kv"),
            ([*SCALAR, *SMALL, "--config", "64x64x1", *output], "--config", "32x64x2"),
            ([*SCALAR, *SMALL, "--dtype", "bf16", *output], "--dtype", "bf16", "fast"),
            (["--kernel", "wmma", *SMALL, "--dtype", "bf16", *output], "--dtype", "wmma", "fast"),
            ([*SCALAR, *SMALL, "--dtype", "fp8", *output], "--dtype"),
            (["--kernel", "fast", *SMALL, "--dtype", "bf16", "--fault", "lse_base2", *output], "--fault", "f16"),
            (["--kernel", "fast", *SMALL, "--config", "64x64x2", "--fault", "parity_kept", *output], "64x64x2", "128x128x2xwgmma"),
            (["--kernel", "fast", *SMALL, "--config", "128x128x2xwgmma", "--fault", "lse_base2", *output], "use --config 64x64x2"),
            (["--kernel", "fast", *SMALL, "--fault", "parity_kept", *output], "GPU"),
            ([*SCALAR, *SMALL, "--fault", "none", *output], "--fault", "tile-run list"),
            ([*SCALAR, *SMALL, "--fault", "wrong_ldm", *output], "--fault", "tile-run list"),
            ([*SCALAR, *SMALL, "--fault", "p_bf16", "--config", "16x64x1", *output], "32x64x2"),
            ([*SCALAR, *SMALL, "--causal-alignment", "middle", *output], "middle"),
            ([*SCALAR, *SMALL, "--input", "zeros", *output], "zeros", "ramped"),
            ([*SCALAR, *SMALL, "--seed", "-1", *output], "--seed"),
            ([*SCALAR, *SMALL, "--select", "row=1", *output], "--select", "row"),
            ([*SCALAR, *SMALL, "--select", "head=9", *output], "select"),
            ([*SCALAR, *SMALL, "--sink-bytes", "many", *output], "--sink-bytes"),
            ([*SCALAR, *SMALL, "--sink-bytes", "-5", *output], "--sink-bytes"),
            ([*SCALAR, *SMALL, "--engine", "tpu", *output], "tpu"),
            (["--kernel", "scalar", "--engine", "cpu", *SMALL], "-o"),
            ([*SCALAR, *SMALL, "-o", "missing/run.h5"], "missing/run.h5"),
            ([*SCALAR, *SMALL, "-o", "."], "."),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(["record", *arguments], *words, **NO_GPU)
        self.assert_refused(["prove-inert", *SCALAR, *SMALL, *output], "-o", **NO_GPU)
        self.assert_refused(["flight", "--kernel", "fp8", *SMALL, "--keep", "2"], "flight", "fp8", "--seed", **NO_GPU)

    def test_a_full_sink_says_so(self):
        run = self.record(*SCALAR, *SMALL, "--sink-bytes", "100k")
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertIn("no room for all tiles of k, v, s, p, acc,", run.stderr)
        with h5py.File(self.file) as file:
            self.assertGreater(file["/capture/acc"].attrs["elements_dropped"], 0)
            self.assertEqual(file["/capture/q"].attrs["elements_dropped"], 0)

    def test_a_sink_file_changes_nothing_in_the_recording(self):
        sink = self.folder / "run.sink"
        self.record(*SCALAR, *SMALL)
        plain = self.bits_of(self.file)
        run = self.record(*SCALAR, *SMALL, "--sink-memory", "file", "--sink-file", sink)
        self.assertEqual(run.stderr, f"tile-run: tiles are in {sink} until they are recorded; "
                                     "tile-diff reads it if this run is killed\n")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run.h5"])
        self.assertEqual(self.bits_of(self.file), plain)
        with h5py.File(self.file) as file:
            self.assertEqual(file["capture"].attrs["ended"], "completed")
            self.assertIn("--sink-memory file", file.attrs["command"])

    def test_a_sink_file_lies_in_shared_memory_by_default(self):
        run = self.record(*SCALAR, *SMALL, "--sink-memory", "file")
        path = pathlib.Path(run.stderr.split(" are in ")[1].split(" until ")[0])
        self.assertRegex(str(path), r"^/dev/shm/tilescope-\d+\.sink$")
        self.assertFalse(path.exists())

    def test_a_recording_that_cannot_be_written_is_recovered_from_the_sink_file(self):
        sink = self.folder / "run.sink"
        run = self.run_it("record", *SCALAR, *SMALL, "--sink-memory", "file", "--sink-file", sink, "-o", "missing/run.h5")
        self.assertEqual(run.returncode, 2)
        recovered = self.run_it("recover", sink, "-o", self.file)
        self.assertEqual((recovered.returncode, recovered.stderr), (0, ""))
        self.assertIn(f"next: tile-diff {self.file}", recovered.stdout)
        left = self.bits_of(self.file)
        self.record(*SCALAR, *SMALL)
        self.assertEqual(left, self.bits_of(self.file))

    def test_bad_usage_of_sink_files_is_one_line(self):
        output = ["-o", "run.h5"]
        in_file = ["--sink-memory", "file"]
        for arguments, *words in [
            (["record", *SCALAR, *SMALL, "--sink-file", "run.sink", *output], "--sink-file", "--sink-memory file"),
            (["repeat", *SCALAR, *SMALL, *in_file, "--runs", "2"], "--sink-memory: file", "device"),
            (["poison", *SCALAR, *SMALL, *in_file], "--sink-memory: file", "device"),
            (["record", *SCALAR, *SMALL, "--sink-memory", "disk", *output], "disk"),
            (["recover", "run.sink"], "-o"),
            (["recover", *output], "sink"),
            (["recover", "run.sink", *output], "run.sink", "No such file"),
            (["recover", "run.sink", *SCALAR, *output], "--kernel", "tile-run recover has no such option"),
        ]:
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, *words, **NO_GPU)
        run = self.run_it("record", *SCALAR, *SMALL, *in_file, "--sink-file", "missing/run.sink", *output)
        self.assertEqual(run.returncode, 2)
        self.assertIn("tile-run: missing/run.sink: cannot be created", run.stderr)

    def bits_of(self, path):
        with h5py.File(path) as file:
            names = [f"tiles/{name}" for name in file["tiles"]] + [f"outputs/{name}" for name in file["outputs"]]
            return {name: file[name][:].tobytes() for name in names}


if __name__ == "__main__":
    unittest.main()
