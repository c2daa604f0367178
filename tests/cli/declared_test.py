"""Healthy kernels whose arithmetic has to be declared: a match with the declaration, which is named without; and a
mistake on top of them is found in its stage.

usage: declared_test.py TILE_DIFF
"""

import pathlib

import h5py
import numpy as np

import declared_kernels
from declared_kernels import LOG2E, SCALE, Kernel
from tile_diff_case import DIVERGED, MATCH, UNJUDGED, TileDiffCase, main

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data/healthy_k_scaled_backward_outputs.h5"
C = float(SCALE * LOG2E)
ROOT = float(np.sqrt(SCALE * LOG2E))
#: Kernels, and what they declare.
SCALED = [
    (Kernel(k_scale=C), {"k.scale": C, "k.cast": "f16"}),
    (Kernel(q_scale=C), {"q.scale": C, "q.cast": "f16"}),
    (Kernel(q_scale=float(SCALE)), {"q.scale": float(SCALE), "q.cast": "f16"}),
    (Kernel(q_scale=ROOT, k_scale=ROOT), {"q.scale": ROOT, "q.cast": "f16", "k.scale": ROOT, "k.cast": "f16"}),
]
INTERLEAVED = (Kernel(interleaved=True), {"problem.head_grouping": "interleaved"})
IN_P = (Kernel(v_scale="token in P"), {"p.descale_v": "operand"})
FORWARD = [
    *SCALED,
    INTERLEAVED,
    IN_P,
    (Kernel(v_scale="token in P", records_scaled_p=True), {"p.descale_v": "recorded"}),
    (Kernel(v_scale="channel in acc"), {}),
    (Kernel(v_scale="channel in o"), {"acc.dequantised": "false"}),
    # Products in the subnormal numbers of f16.
    (Kernel(k_scale=C, small=3e-4), {"k.scale": C, "k.cast": "f16"}),
]
BACKWARD = [*SCALED, INTERLEAVED]
#: Kernel, mistake, stage, and whether it is a backward pass.
FAULTS = [
    (SCALED[0], "acc not rescaled", "acc", False),
    (SCALED[0], "head of k", "s", False),
    (SCALED[3], "acc not rescaled", "acc", False),
    (SCALED[0], "delta left out", "ds", True),
    (SCALED[0], "head of k", "s", True),
    (SCALED[1], "dk scaled twice", "dk", True),
    (INTERLEAVED, "acc not rescaled", "acc", False),
    (INTERLEAVED, "head of k", "s", False),
    (INTERLEAVED, "delta left out", "ds", True),
    (IN_P, "scale of the next key", "acc", False),
    (IN_P, "acc not rescaled", "acc", False),
    ((Kernel(v_scale="channel in acc"), {}), "scale left out", "acc", False),
    ((Kernel(v_scale="channel in o"), {"acc.dequantised": "false"}), "scale left out", "o", False),
]


def arguments(declared):
    return [word for name, value in declared.items() for word in ("--declare", f"{name}={value}")]


class Declared(TileDiffCase):
    def judged_as(self, declared):
        return self.judge(self.file, "--no-causes", *arguments(declared))

    def test_match(self):
        for play, kernels in ((declared_kernels.forward, FORWARD), (declared_kernels.backward, BACKWARD)):
            for kernel, declared in kernels:
                outputs = ("o", "lse", "dq", "dk", "dv")
                for only in (None, outputs) if kernel == SCALED[0][0] else (None,):
                    with self.subTest(kernel=kernel, play=play.__name__, only=only):
                        play(kernel, self.file, only=only)
                        report = self.judged_as(declared)
                        self.assertEqual(report["verdict"], "match", report["first_divergence"])

    def test_of_a_family(self):
        self.assertEqual(self.judge(RECORDED)["verdict"], "diverged")
        self.assertEqual(self.judge(RECORDED, "--like", "triton-tutorial")["verdict"], "match")

    def test_diverge_without(self):
        for kernel, declared in (*SCALED, INTERLEAVED, IN_P):
            with self.subTest(kernel=kernel):
                declared_kernels.forward(kernel, self.file)
                self.assertEqual(self.judged_as({})["verdict"], "diverged")

    def test_mistakes(self):
        for (kernel, declared), fault, stage, is_backward in FAULTS:
            with self.subTest(kernel=kernel, fault=fault, is_backward=is_backward):
                wrong = Kernel(**{**vars(kernel), "fault": fault})
                (declared_kernels.backward if is_backward else declared_kernels.forward)(wrong, self.file)
                report = self.judged_as(declared)
                self.assertEqual(report["first_divergence"]["stage"], stage, report["first_divergence"])


class Suggested(TileDiffCase):
    def expect(self, declared, file=None):
        """What the report says to declare leads to a match, and no cause is told."""
        file = file or self.file
        report = self.judge(file)
        self.assertEqual(report["verdict"], "diverged")
        found = report["declare"]["assignments"]
        self.assertEqual(set(found), set(declared))
        for name, value in declared.items():
            if isinstance(value, float):
                self.assertAlmostEqual(float(found[name]), value, delta=1e-6 * value)
            else:
                self.assertEqual(found[name], value)
        self.assertEqual(report["causes"], [])
        self.assertEqual(self.run_it(file, *arguments(found)).returncode, MATCH)

    def test_scale_beside_the_base(self):
        """Nothing is declared of s, which is in units of exp2."""
        kernel, declared = SCALED[0]
        declared_kernels.forward(kernel, self.file, only=("s",))
        with h5py.File(self.file, "r+") as f:
            del f["tiles/s"].attrs["log_base"]
        self.expect({"s.log_base": "2", **declared})

    def test_scale_of_k_from_gradients_alone(self):
        """Triton's tutorial, of which dq, dk and dv were recorded: NumPy played it, from a public report."""
        scale = 0.125 * 1.4426950408889634
        self.expect({"k.scale": scale, "k.cast": "f16"}, file=RECORDED)

    def test_descale_in_p(self):
        kernel, declared = IN_P
        declared_kernels.forward(kernel, self.file)
        self.expect(declared)
        run = self.run_it(self.file, "--suggest")
        self.assertEqual((run.returncode, run.stdout), (DIVERGED, "--declare p.descale_v=operand\n"))

    def test_scaled_k_that_was_recorded_is_no_fault(self):
        kernel, declared = SCALED[0]
        declared_kernels.forward(kernel, self.file)
        with h5py.File(self.file, "r+") as f:
            k = declared_kernels.rounded(f["inputs/k"][:].astype(np.float32) * np.float32(C), "f16")
            k = np.repeat(k, declared_kernels.H // declared_kernels.HKV, axis=1)
            f["tiles/k"] = np.repeat(k[:, :, None], 2, axis=2)
        run = self.run_it(self.file, "--no-causes")
        self.assertEqual(run.returncode, UNJUDGED, run.stdout)
        self.assertIn("a scale of k as staged", run.stderr)
        self.assertEqual(self.judge(self.file, *arguments(declared))["verdict"], "match")


class Dropout(TileDiffCase):
    def test_refused_by_name(self):
        for where, name in (("problem", "dropout_p"), ("tiles/p", "attn_Dropout"), ("/", "dropout_rate")):
            declared_kernels.forward(Kernel(), self.file)
            with h5py.File(self.file, "r+") as f:
                f[where].attrs[name] = 0.1
            self.assert_refused("dropout", name)
            with h5py.File(self.file, "r+") as f:
                f[where].attrs[name] = 0.0
            self.assertEqual(self.judge(self.file)["verdict"], "match")
        with h5py.File(self.file, "r+") as f:
            f["inputs/dropout_mask"] = np.ones(3, np.float32)
        self.assert_refused("dropout_mask")

    def test_refused_as_a_declaration(self):
        declared_kernels.forward(Kernel(), self.file)
        run = self.run_it(self.file, "--declare", "problem.dropout_p=0.1")
        self.assertEqual(run.returncode, UNJUDGED)
        self.assertIn("dropout", run.stderr)
        self.assertEqual(self.run_it(self.file, "--declare", "dropout=0").returncode, MATCH)


if __name__ == "__main__":
    main()
