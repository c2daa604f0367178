"""The stores of tilescope.triton in the sample's kernels, on a GPU.

usage: triton_test.py FOLDER   FOLDER holds the package tilescope
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "samples" / "triton"
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))


def reason_to_skip():
    """Why the kernels cannot run here; "" where they can."""
    for module in ("tilescope", "torch", "triton"):
        if importlib.util.find_spec(module) is None:
            return f"there is no {module}"
    import torch

    return "" if torch.cuda.is_available() else "there is no GPU"


if reason := reason_to_skip():
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("REQUIRE_GPU") == "1" else 77)

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
sys.path.insert(0, str(SAMPLE))
import attention  # noqa: E402
import declared_kernel  # noqa: E402
import record  # noqa: E402
import tilescope  # noqa: E402
import torch  # noqa: E402


def without_stores(folder, source=SAMPLE / "attention.py"):
    """The sample as a module whose kernels have no line of tilescope's."""
    lines = source.read_text().splitlines(keepends=True)
    plain = pathlib.Path(folder) / f"{source.stem}_without_stores.py"
    plain.write_text("".join(line for line in lines if not line.lstrip().startswith("ts.store")))
    spec = importlib.util.spec_from_file_location(plain.stem, plain)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINEAR = """
    axes   n: rows by 32; m: cols by 32; k: depth by 64
    input  a[n, k]: f16; w[m, k]: f16
    stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
    stage  top[n] over m = max(top, max(m: acc)) from -inf
    stage  y[n, m]: f16 = acc
    output y
"""


class Triton(unittest.TestCase):
    def test_nothing_is_left_without_a_recorder(self):
        q, k, v = record.draw()
        with tempfile.TemporaryDirectory() as folder:
            plain = without_stores(folder)
            ours, theirs = (module.forward(q, k, v, True)[2].asm["ptx"] for module in (attention, plain))
        self.assertIn("mma", ours)
        self.assertEqual(ours, theirs)

    def test_a_healthy_kernel_matches(self):
        for recorder in (record.record_forward(), record.record_backward()):
            report = tilescope.judge(recorder)
            self.assertTrue(report.matches, str(report))
            self.assertEqual([stage for stage in recorder.stages if not report.compared.get(stage)], [])

    def test_a_mistake_is_found_in_its_stage(self):
        for stage, recorder in (("acc", record.record_forward("acc_not_rescaled")),
                                ("ds", record.record_backward("delta_left_out"))):
            self.assertEqual(tilescope.judge(recorder, causes=False).stage, stage)

    def test_what_is_not_selected_is_not_stored(self):
        q, k, v = record.draw()
        recorder = tilescope.Recorder(q, k, v, stages=("s", "m"), causal=True, select="head=1-2:q_block=3",
                                      **record.BLOCKS)
        self.assertEqual(tuple(recorder.buffer("s").shape), (1, 2, 1, 4, 64, 64))
        o, lse, _ = attention.forward(q, k, v, True, recorder)
        recorder.outputs(o=o, lse=lse)
        report = tilescope.judge(recorder)
        self.assertTrue(report.matches, str(report))
        self.assertEqual(report.compared["m"], 2 * 4 * 8)  # The last block has 8 rows.

    def test_outputs_alone_are_judged_on_the_device(self):
        q, k, v = record.draw()
        o, lse, _ = attention.forward(q, k, v, True)
        tilescope.check(q, k, v, o, lse, causal=True)
        with self.assertRaises(tilescope.Diverged):
            tilescope.check(q, k, v, torch.zeros_like(o), lse, causal=True, causes=False)

    def declared(self, select=None, mistake=False):
        """A GEMM that its program declares, with stores of its states and of the largest number of each row."""
        program = tilescope.Program(LINEAR)
        torch.manual_seed(5)
        a, w = (torch.randn(rows, 200, device="cuda").half() for rows in (70, 90))
        recorder = program.recorder(dict(a=a, w=w), stages=("acc", "top"), select=select)
        y = declared_kernel.linear(a, w, program, recorder, mistake)
        recorder.outputs(y=y)
        return recorder

    def test_stages_of_a_declared_kernel_are_stored(self):
        report = self.declared().check()
        self.assertEqual({s.name: (s.compared, s.unwritten) for s in report.stages},
                         {"acc": (4 * 70 * 90, 0), "top": (3 * 70, 0), "y": (70 * 90, 0)})
        part = self.declared(select="n=1-2:k=3:stage=acc")
        self.assertEqual((part.origin("acc"), tuple(part.buffer("acc").shape)), ((3, 32, 0), (1, 38, 90)))
        self.assertEqual(next(s.unwritten for s in part.check().stages if s.name == "acc"), 0)
        self.assertEqual(self.declared(mistake=True).judge(causes=False).first_wrong, "acc")

    def test_a_declared_kernel_has_nothing_without_a_recorder(self):
        program = tilescope.Program(LINEAR)
        a, w = (torch.zeros(rows, 200, device="cuda", dtype=torch.float16) for rows in (70, 90))
        ours = declared_kernel.compiled(a, w, program, None).asm["ptx"]
        with tempfile.TemporaryDirectory() as folder:
            plain = without_stores(folder, pathlib.Path(declared_kernel.__file__))
            self.assertEqual(ours, plain.compiled(a, w, program, None).asm["ptx"])


if __name__ == "__main__":
    unittest.main()
