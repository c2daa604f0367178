"""The wheel of ./dev wheel: installed where there is nothing else, beside other packages that bring HDF5.

usage: wheel_test.py ROOT   needs the Python package index
"""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
SAMPLE = ROOT / "samples" / "healthy_scalar.h5"
#: Each reads and writes a file once all are imported, in the order of the imports.
DOES = {
    "h5py": "list(h5py.File(path)['tiles']); h5py.File(folder + '/h5py.h5', 'w')['a'] = [1]",
    "tilescope": "assert tilescope.judge(path).matches; "
                 "tilescope._core.save(folder + '/ours.h5', tilescope.open(path))",
    "numpy": "numpy.save(folder + '/a.npy', numpy.ones(3)); numpy.load(folder + '/a.npy')",
    "torch": "torch.save(torch.ones(3), folder + '/a.pt'); torch.load(folder + '/a.pt')",
}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([ROOT / "dev", "wheel"], check=True, stdin=subprocess.DEVNULL)
        cls.scratch = tempfile.TemporaryDirectory()
        wheel = max((ROOT / "dist").glob("*.whl"), key=os.path.getmtime)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", cls.scratch.name, wheel, "h5py",
                        "numpy"], check=True)
        cls.has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_python(self, code):
        """In an environment with the installed packages and nothing else: no compiler, no CUDA."""
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(
                [sys.executable, "-c", code, os.fspath(SAMPLE), folder], text=True, cwd=folder,
                env={"PYTHONPATH": self.scratch.name, "PATH": "/nowhere"}, capture_output=True)

    def test_every_order_of_imports(self):
        packages = ("h5py", "torch" if self.has_torch else "numpy", "tilescope")
        for order in itertools.permutations(packages):
            with self.subTest(order):
                begin = [f"import sys, {', '.join(order)}", "path, folder = sys.argv[1:]"]
                run = self.run_python("\n".join([*begin, *(DOES[name] for name in order)]))
                self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_what_it_brings_along_has_its_notice(self):
        notices = {path.name for path in (pathlib.Path(self.scratch.name) / "tilescope" / "notices").iterdir()}
        self.assertLessEqual({"libeigen3-dev", "nanobind"}, notices)
        # auditwheel puts a hash into their names.
        brought = {re.sub("-[0-9a-f]{8}", "", path.name) for path in pathlib.Path(self.scratch.name).glob("tilescope.libs/*")}
        self.assertTrue(any(name.startswith("libhdf5") for name in brought), brought)
        for library in brought:
            owner = subprocess.run(["dpkg-query", "--search", f"*/{library}"], text=True, capture_output=True, check=True)
            self.assertIn(owner.stdout.partition(":")[0], notices, library)

    def test_it_brings_its_own_hdf5(self):
        libraries = "{line.split()[-1] for line in open('/proc/self/maps') if 'hdf5' in line}"
        run = self.run_python(f"import tilescope; print(*{libraries})")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(self.scratch.name, run.stdout)
        self.assertNotIn("/usr/lib", run.stdout)


if __name__ == "__main__":
    unittest.main()
