#!/usr/bin/env python3
"""Does what the pages of samples/adopt say, up to running the kernels: clones the projects at the commits that they name, adds
the lines, and compiles with the very commands of the page, against an install tree of BUILD.

usage: adopt_compile_test.py ROOT BUILD SCRATCH CMAKE [NVCC]

TILESCOPE_CLONES is where the projects are cloned from: https://github.com, or a folder of OWNER/PROJECT. Without it, and
without NVCC, skipped, with exit code 77: nothing is downloaded unasked.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SKIPPED = 77
HUB = "https://github.com"

ROOT, BUILD, SCRATCH = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
CMAKE, *NVCC = sys.argv[4:]
CLONES = os.environ.get("TILESCOPE_CLONES", "").removesuffix("/")
ADOPT = ROOT / "samples/adopt"


def commands(page, section):
    """The indented commands of a section of a page, each a line once its continuations are joined."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]
    return re.sub(r"\\\n\s*", "", "".join(re.findall(r"^    .*\n", text, re.M))).split("\n")[:-1]


class Adopt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", SCRATCH / "prefix", "--component", "capture"], check=True,
                       capture_output=True)

    def run_all(self, folder, lines):
        environment = os.environ | {
            "ADOPT": str(ADOPT), "PREFIX": str(SCRATCH / "prefix"), "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{CLONES}/.insteadOf", "GIT_CONFIG_VALUE_0": f"{HUB}/",
            "PATH": f"{pathlib.Path(NVCC[0]).parent}{os.pathsep}{os.environ['PATH']}"}
        for line in lines:
            run = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
            self.assertEqual(run.returncode, 0, f"{line}\n{run.stdout[-3000:]}")

    def adopt(self, name):
        page = (ADOPT / f"{name}.md").read_text(encoding="utf-8")
        folder = SCRATCH / name
        folder.mkdir()
        lines = commands(page, "The lines")
        projects = re.findall(rf"git clone --no-checkout {HUB}/(\S+)", "\n".join(lines))
        self.assertTrue(projects, "the page clones nothing")
        for project in projects:
            if CLONES != HUB and not pathlib.Path(CLONES, project).exists():
                self.skipTest(f"{CLONES} has no {project}")
        self.run_all(folder, lines)
        program = ADOPT / f"{name.replace('-', '_')}.cu"
        if not program.exists():
            return  # what compiles it is a Python package
        lines = [line for line in commands(page, "Build and run") if not line.strip().startswith("./")]
        self.assertIn(str(program.name), "".join(lines))
        self.run_all(folder, lines)
        self.assertTrue((folder / program.stem).exists())


def test_of(name):
    return lambda self: self.adopt(name)


for diff in sorted(ADOPT.glob("*.diff")):
    setattr(Adopt, f"test_{diff.stem.replace('-', '_')}", test_of(diff.stem))


if __name__ == "__main__":
    if not NVCC or not CLONES:
        print("no nvcc" if not NVCC else f"TILESCOPE_CLONES is not set: {HUB} downloads what the pages name")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
