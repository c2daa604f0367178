#!/usr/bin/env python3
"""Tests tile-run bisect under git bisect run, in a repository made for it.

usage: test_bisect.py ROOT TILE_RUN
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, TILE_RUN = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
GOOD, BAD, SKIPPED, STOPPED = 0, 1, 125, 128

# A kernel in NumPy, written down by h5py after dump/FORMAT.md.
ATTENTION = """
import os
import h5py
import numpy as np

rows, keys, dim, tile = 32, 64, 16, 16
draw = np.random.default_rng(7)
q, k, v = (draw.standard_normal((n, dim)).astype(np.float16).astype(np.float32) for n in (rows, keys, keys))
s = (q @ k.T * 0.25).astype(np.float32)
m, l, acc = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32), np.zeros((rows, dim), np.float32)
recorded = {"s": s, "p": np.empty_like(s), "m": [], "l": [], "acc": []}
for at in range(0, keys, tile):
    before, m = m, np.maximum(m, s[:, at:at + tile].max(axis=1))
    rescale = np.exp(before - m)
    p = np.exp(s[:, at:at + tile] - m[:, None])
    l = l * rescale + p.sum(axis=1)
    acc = acc * rescale[:, None] + p @ v[at:at + tile]
    recorded["p"][:, at:at + tile] = p
    for name, value in (("m", m), ("l", l), ("acc", acc)):
        recorded[name].append(value)
recorded["o"], recorded["lse"] = (acc / l[:, None]).astype(np.float16), m + np.log(l)

with h5py.File(os.environ["TILESCOPE_DIR"] + "/attention.h5", "w") as file:
    file.attrs.update(format="tilescope", format_version=1, kernel="attention.py")
    file.create_group("problem").attrs.update(batch=1, heads=1, seqlen_q=rows, seqlen_kv=keys, head_dim=dim, block_m=tile,
                                              block_n=tile, sm_scale=np.float32(0.25))
    for name, value in (("q", q), ("k", k), ("v", v)):
        file["inputs/" + name] = value.astype(np.float16)[None, None]
    chunks = {"s": (tile, tile), "p": (tile, tile), "m": (1, tile), "l": (1, tile), "acc": (1, tile, dim), "o": (tile, dim),
              "lse": (tile,)}
    for name, chunk in chunks.items():
        data = np.array(recorded[name])[None, None]
        file.create_dataset(("outputs/" if name in ("o", "lse") else "tiles/") + name, data=data, chunks=(1, 1, *chunk))
    file.attrs["complete"] = 1
"""
# What each commit says, and what it changes in the file.
BROKEN_COMMIT = "Rescale only where the maximum rises"
BASE2 = ("m + np.log(l)", "(m + np.log(l)) / np.float32(np.log(2))")
COMMITS = [
    ("Compute attention tile by tile", "", ""),
    ("Draw other inputs", "default_rng(7)", "default_rng(11)"),
    ("Take more keys", "rows, keys, dim, tile = 32, 64", "rows, keys, dim, tile = 32, 96"),
    ("Name the step", "range(0, keys, tile):", "range(0, keys, tile:"),
    ("Close the bracket", "range(0, keys, tile:", "range(0, keys, tile):"),
    (BROKEN_COMMIT, "acc = acc * rescale[:, None] + p", "acc = acc + p"),
    ("Take more rows", "dim, tile = 32, 96", "dim, tile = 48, 96"),
]


class BisectCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        path = f"{TILE_RUN.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {
            **os.environ, "TMPDIR": str(self.temporary), "PATH": path, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b"}

    def tearDown(self):
        self.assertEqual(list(self.temporary.iterdir()), [])

    def call(self, *command, **options):
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment,
                              **{"cwd": self.folder, **options})

    def bisect(self, *options, command=("python3", "attention.py")):
        return self.call("tile-run", "bisect", *options, "--", *command)

    def assert_says(self, run, code, *words):
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        for word in words:
            self.assertIn(word, run.stdout + run.stderr)

    def write(self, *changes):
        text = ATTENTION
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (self.folder / "attention.py").write_text(text)


class UnderGit(BisectCase):
    def git(self, *arguments):
        run = self.call("git", *arguments, cwd=self.repository)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def make_repository(self, text=ATTENTION):
        self.repository = self.folder / "repository"
        self.repository.mkdir()
        self.git("init", "--quiet")
        for subject, before, after in COMMITS:
            self.assertIn(before, text)
            text = text.replace(before, after) if before else text
            (self.repository / "attention.py").write_text(text)
            self.git("add", "attention.py")
            self.git("commit", "--quiet", "-m", subject)
        self.git("bisect", "start", "HEAD", f"HEAD~{len(COMMITS) - 1}")

    def run_bisect(self, *options):
        found = self.git("bisect", "run", "tile-run", "bisect", *options, "--", "python3", "attention.py")
        self.assertRegex(found, r"\w+ is the first bad commit")
        self.assertEqual(self.git("log", "-1", "--format=%s", "refs/bisect/bad"), BROKEN_COMMIT + "\n")
        return found

    def test_the_commit_is_found_as_the_page_shows(self):
        page = (ROOT / "oracle/README.md").read_text()
        commands, shown = (page.partition("\n$ git log ")[2].partition("\n```")[0].partition("\n$ git bisect run ")[i] for i in (0, 2))
        self.make_repository()
        self.assertIn("\n".join(subject for subject, _, _ in COMMITS), commands)
        self.assertIn(f"git bisect start HEAD HEAD~{len(COMMITS) - 1}", commands)
        found = self.run_bisect()
        command, *lines = shown.splitlines()
        self.assertEqual(command, "tile-run bisect -- python3 attention.py")
        for line in lines:
            # NumPy may add in another order elsewhere.
            self.assertIn(line.partition(": got ")[0] if line != "..." else "", found)

    def test_one_fault_while_another_is_there(self):
        self.make_repository(ATTENTION.replace(*BASE2))
        self.run_bisect("--stage", "acc")


class Verdicts(BisectCase):
    def test_of_what_is_recorded(self):
        self.write()
        self.assert_says(self.bisect(), GOOD, "tile-run bisect: good: 1 recording judged\n")
        self.assert_says(self.bisect("--stage", "acc"), GOOD)
        # Nothing of the stage was recorded, so nothing can be said of it.
        self.assert_says(self.bisect("--stage", "q"), SKIPPED, "nothing was compared of q")
        fails = ("sh", "-c", "python3 attention.py; exit 3")
        self.assert_says(self.bisect(command=fails), SKIPPED, "the command ended with exit code 3, and nothing that it recorded")
        self.write(BASE2)
        for command in (fails, ("python3", "attention.py"), ("sh", "-c", "python3 attention.py; kill -SEGV $$")):
            self.assert_says(self.bisect(command=command), BAD, "bad: attention.h5: diverged: lse is the first wrong stage")
        known = self.folder / "known.txt"
        known.write_text("[attention.h5]\nstage = lse\nreason = it is to base 2\n")
        for option in (["--stage", "acc"], ["--cause", "acc_not_rescaled"], ["--baseline", known]):
            self.assert_says(self.bisect(*option), GOOD)
        for option in (["--stage", "lse"], ["--cause", "lse_in_other_base"]):
            self.assert_says(self.bisect(*option), BAD)

    def test_of_a_stage_that_follows_from_a_mistake_before_it(self):
        """m and p differ from what the scores give that are recorded, and are right."""
        scores = ('{"s": s,', '{"s": s * np.float32(1.5),')
        self.write(scores)
        self.assert_says(self.bisect(), BAD, "diverged: s is the first wrong stage")
        for stage, code in (("s", BAD), ("m", GOOD), ("p", GOOD), ("acc", GOOD)):
            self.assert_says(self.bisect("--stage", stage), code)
        self.write(scores, ("acc = acc * rescale[:, None] + p", "acc = acc + p"))
        for stage, code in (("m", GOOD), ("acc", BAD)):
            self.assert_says(self.bisect("--stage", stage), code)

    def test_of_what_cannot_be_judged(self):
        for script, says in (("true", "left no recording in TILESCOPE_DIR"), ("exit 2", "exit code 2 and recorded nothing"),
                             ("kill -9 $$", "signal 9 and recorded nothing"),
                             ("echo none > $TILESCOPE_DIR/a.h5", "1 recording could not be judged")):
            self.assert_says(self.bisect(command=("sh", "-c", script)), SKIPPED, "tile-run bisect: skipped: ", says)
        self.write(BASE2)
        both = ("sh", "-c", "python3 attention.py; echo none > $TILESCOPE_DIR/a.h5")
        self.assert_says(self.bisect(command=both), BAD)

    def test_what_is_a_mistake_of_the_caller_stops_git(self):
        self.write()
        for run, says in ((self.bisect(command=("./nowhere",)), "./nowhere: cannot be started"),
                          (self.bisect("--cause", "acc_rescaled"), "--cause: acc_rescaled is no cause"),
                          (self.bisect("--baseline", "none.txt"), "none.txt: cannot be read"),
                          (self.bisect("--runs", "2"), "--runs: tile-run bisect has no such option"),
                          (self.call("tile-run", "bisect"), "no command stands after --"),
                          (self.call("tile-run", "bisect", "--"), "-- belongs before the program of repeat or bisect")):
            self.assert_says(run, STOPPED, says)

    def test_what_is_interrupted_ends_as_the_signal_ends_it(self):
        """Also where the command does not hear of it: what is sent from elsewhere is passed on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            started = self.folder / f"started{number}"
            command = ["tile-run", "bisect", "--", "sh", "-c", f"touch {started}; exec sleep 60"]
            process = subprocess.Popen(command, env=self.environment, start_new_session=True)
            while not started.exists():
                time.sleep(0.02)
            if number == signal.SIGINT:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            self.assertEqual(process.wait(timeout=20), -number)

    def test_what_is_interrupted_at_once_ends_as_well(self):
        """Before tile-run knows that it has started the command, which one core for both makes likely."""
        core = str(min(os.sched_getaffinity(0)))
        command = ["taskset", "-c", core, "tile-run", "bisect", "--", "sh", "-c", "kill -TERM $PPID; exec sleep 60"]
        for _ in range(30):
            process = subprocess.Popen(command, env=self.environment, start_new_session=True)
            self.assertEqual(process.wait(timeout=20), -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
