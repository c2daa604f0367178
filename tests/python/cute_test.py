"""The stores of tilescope.cute in the sample's kernel, on a GPU.

usage: cute_test.py FOLDER   FOLDER holds the package tilescope
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "samples" / "cute_dsl"
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv.pop(1))


def reason_to_skip():
    """Why the kernel cannot run here; "" where it can."""
    for module in ("tilescope", "torch", "cutlass"):
        if importlib.util.find_spec(module) is None:
            return f"there is no {module}"
    import torch

    return "" if torch.cuda.is_available() else "there is no GPU"


if reason := reason_to_skip():
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("REQUIRE_GPU") == "1" else 77)

sys.path.insert(0, str(SAMPLE))
import record  # noqa: E402
import tilescope  # noqa: E402

WITHOUT_RECORDER = """
import torch
from attention import HEAD_DIM, attention
q, k, v, o = (torch.ones(1, 1, 64, HEAD_DIM, device="cuda") for _ in "qkvo")
attention(q, k, v, o)
torch.cuda.synchronize()
assert (o == 1).all()
"""


def stores(folder):
    """Operations of the kernel in the folder's attention.py that store, without a recorder; without numbers of values and lines."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.fspath(folder), *sys.path]), "CUTE_DSL_PRINT_IR": "1"}
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_RECORDER], env=environment, cwd=folder,
                         capture_output=True, text=True, check=True)  # fmt: skip
    return [re.sub(r"%\w+|loc\(.*", "", line.strip()) for line in run.stdout.splitlines() if "store" in line]


class Cute(unittest.TestCase):
    def test_no_store_is_left_without_a_recorder(self):
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            shutil.copy(SAMPLE / "attention.py", ours)
            text, count = re.subn(r"ts\.store\(.*\)\n", "pass\n", (SAMPLE / "attention.py").read_text())
            self.assertEqual(count, 5)
            (pathlib.Path(theirs) / "attention.py").write_text(text)
            self.assertGreater(len(stores(ours)), 0)
            self.assertEqual(stores(ours), stores(theirs))

    def test_healthy_kernels_match(self):
        for select in ("", "head=1-2:q_block=1:kv_tile=1-"):
            report = tilescope.judge(record.record(select=select))
            self.assertTrue(report.matches, str(report))
            self.assertEqual(set(report.compared), {"s", "m", "p", "l", "acc", "o"})

    def test_a_mistake_is_found(self):
        report = tilescope.judge(record.record("acc_not_rescaled"))
        self.assertEqual((report.stage, report.causes[0].name), ("acc", "acc_not_rescaled"))


if __name__ == "__main__":
    unittest.main()
