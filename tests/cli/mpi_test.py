#!/usr/bin/env python3
"""tile-diff-mpi against tile-diff: the same reports whatever the number of ranks, and nothing left where one ends.

usage: mpi_test.py TILE_DIFF TILE_DIFF_MPI MPIRUN [--all] [unittest arguments]

--all: every number of ranks, every format of reports, and every sample.
"""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TILE_DIFF_MPI, MPIRUN = pathlib.Path(sys.argv.pop(2)).resolve(), sys.argv.pop(2)
EVERYTHING = "--all" in sys.argv
if EVERYTHING:
    sys.argv.remove("--all")

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import small_program  # noqa: E402
from ring import Ring, SplitKv  # noqa: E402
from tile_diff_case import DIVERGED, MATCH, TILE_DIFF, UNJUDGED, main  # noqa: E402

SAMPLES = pathlib.Path(__file__).parents[2] / "samples"
# A search for causes keeps ranks that wait for it busy as well.
SOON_JUDGED = ("acc_not_rescaled.h5", "healthy_wmma.h5", "lse_base2.h5", "nan_times_zero.h5", "tail_counted.h5", "torch_backward.h5")
# One machine has fewer cores than there are ranks, and may be one where root is all there is.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
SECONDS = 600


def job(ranks, *arguments):
    return [MPIRUN, "--quiet", "-n", str(ranks), TILE_DIFF_MPI, *arguments]


def run(command, folder, **options):
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, **options)


def without_times(report):
    """Seconds that anything took, with the spaces that align them, wherever a format says them, and the command."""
    report = re.sub(r" *\b\d+(\.\d+)?(e-?\d+)? s\b", " TIME", report)
    report = re.sub(r'((?:time|seconds)"?[=:] ?"?)[0-9.e+-]+', r"\1TIME", report)
    return re.sub(r"tile-diff -v [^<\"]*", "COMMAND", report)


class MpiCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()

    def record_ring(self, name, fault=None, ranks=8):
        (self.folder / name).mkdir()
        Ring(self.folder / name, ranks, "zigzag", fault=fault, run=name).record()

    def copy_samples(self):
        for path in SAMPLES.rglob("*.h5") if EVERYTHING else map(SAMPLES.joinpath, SOON_JUDGED):
            there = self.folder / "samples" / path.relative_to(SAMPLES)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, there)

    def assert_one_line(self, ended, *words):
        self.assertEqual(ended.returncode, UNJUDGED, (ended.args, ended.stdout, ended.stderr))
        self.assertRegex(ended.stderr, r"\Atile-diff: rank \d+ on .*; .*\n\Z")
        for word in words:
            self.assertIn(word, ended.stderr)


class Reports(MpiCase):
    FORMATS = ("text", "json", "html", "junit", "markdown", "sarif") if EVERYTHING else ("text", "json")

    def reports(self, command, paths, *arguments):
        """What is printed and written, without times."""
        files = {name: self.folder / f"report.{name}" for name in self.FORMATS}
        asked = [word for name, file in files.items() for word in ("--report", f"{name}={file}")]
        ended = run([*command, "-v", *paths, *asked, *arguments], self.folder)
        self.assertEqual(ended.returncode, DIVERGED, ended.stderr)
        found = {"stdout": without_times(ended.stdout), "stderr": ended.stderr}
        for name, file in files.items():
            found[name] = without_times(file.read_text())
            file.unlink()
        self.assertEqual(list(self.folder.glob("report.*")), [])
        return found

    def test_are_those_of_one_process(self):
        """Recordings that are judged by all ranks, or by one each; a declared kernel; 8 simulated shards, and their faults."""
        self.copy_samples()
        small_program.write(self.folder / "samples" / "declared.h5", *small_program.computed(added=0.25))
        for fault, ranks in ((None, 8), ("stale_shard", 8), ("local_positions", 3), ("merge_in_base_two", 3), ("scores", 2)):
            self.record_ring(f"ring_{fault}", None if fault == "scores" else fault, ranks)
        (self.folder / "ring_split").mkdir()
        SplitKv(self.folder / "ring_split", tree=True, fault="wrong_partial").record()
        # Whose cause is searched for, in more than one recording.
        for file in (self.folder / "ring_scores").glob("*_step1.h5"):
            with h5py.File(file, "r+") as f:
                f["tiles/s"][...] *= 2
        paths = ["samples", *sorted(p.name for p in self.folder.glob("ring_*"))]
        alone = self.reports([TILE_DIFF], paths)
        self.assertIn("cause: score_constant", alone["text"])
        self.assertIn("FIRST WRONG  k, rank 1, step 1", alone["text"])
        jobs = [(ranks, jobs) for ranks in (1, 2, 3, 8) for jobs in (0, 1)] if EVERYTHING else [(3, 1), (8, 0)]
        for ranks, at_once in jobs:
            with self.subTest(ranks=ranks, jobs=at_once):
                found = self.reports(job(ranks), paths, "--jobs", str(at_once))
                for name, text in alone.items():
                    self.assertEqual(found[name], text, name)

    def test_do_not_change_with_a_slow_rank(self):
        self.record_ring("ring", "merge_takes_mean")
        alone = self.reports([TILE_DIFF], ["ring"])
        slow = Job(self, 3, "ring", "-v", "--report", f"text={self.folder / 'slow.txt'}")
        pid = slow.pid_of(1)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        self.assertIsNone(slow.process.poll(), "nobody judges without the rank")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(slow.process.wait(SECONDS), DIVERGED)
        self.assertEqual(without_times((self.folder / "slow.txt").read_text()), alone["text"])

    @unittest.skipUnless(EVERYTHING, "with --all")
    def test_fail_fast_ends_all_ranks(self):
        self.record_ring("a", "stale_shard", 2)
        self.record_ring("b", None, 2)
        alone = run([TILE_DIFF, "--fail-fast", "a", "b"], self.folder)
        together = run(job(2, "--fail-fast", "a", "b"), self.folder)
        self.assertEqual(together.returncode, DIVERGED)
        self.assertEqual(without_times(together.stdout), without_times(alone.stdout))
        self.assertIn("stopped before 1 more", together.stdout)

    @unittest.skipUnless(EVERYTHING, "with --all")
    def test_are_the_first_ranks_to_say(self):
        for arguments, code in ((["--help"], 0), (["--no-such-option"], 2)):
            alone = run([TILE_DIFF, *arguments], self.folder)
            together = run(job(2, *arguments), self.folder)
            self.assertEqual((alone.returncode, together.returncode), (code, code))
            self.assertEqual((together.stdout, together.stderr), (alone.stdout, alone.stderr))


class Disks(MpiCase):
    """Each rank in a folder of its own, as on a node with a disk of its own."""

    def node(self, rank):
        return self.folder / f"node{rank}"

    def spread(self, names, ranks):
        """Leaves each file to one rank."""
        files = sorted(file for name in names for file in (self.folder / name).rglob("*.h5"))
        for number, file in enumerate(files):
            there = self.node(number % ranks) / file.relative_to(self.folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, there)
        for rank in range(ranks):
            self.node(rank).mkdir(exist_ok=True)

    def on_nodes(self, ranks, *arguments):
        command = [MPIRUN, "--quiet"]
        for rank in range(ranks):
            command += [":"] * (rank > 0) + ["-n", "1", "-wdir", str(self.node(rank)), TILE_DIFF_MPI, *arguments]
        return run(command, self.folder)

    def assert_as_one(self, ranks, *arguments, code=DIVERGED):
        alone = run([TILE_DIFF, *arguments], self.folder)
        together = self.on_nodes(ranks, *arguments)
        self.assertEqual((alone.returncode, together.returncode), (code, code), together.stderr)
        self.assertEqual(without_times(together.stdout), without_times(alone.stdout))
        self.assertEqual(re.sub(r"rank \d on [^:]*: ", "", together.stderr), alone.stderr)

    def test_hold_the_recordings_of_a_run(self):
        faults = (None, "stale_shard", "merge_in_base_two") if EVERYTHING else (None, "stale_shard")
        for fault in faults:
            for ranks in (2, 3) if EVERYTHING else (2 + (fault is None),):
                with self.subTest(fault=fault, ranks=ranks):
                    name = f"ring_{fault}_{ranks}"
                    self.record_ring(name, fault, 4)
                    self.spread([name], ranks)
                    self.assert_as_one(ranks, name, code=DIVERGED if fault else MATCH)

    def test_hold_recordings_of_their_own(self):
        self.copy_samples()
        self.spread(["samples"], 2)
        # One each, and each by both.
        for jobs in ("0", "1"):
            self.assert_as_one(2, "samples", "-v", "--jobs", jobs)
        file = "samples/tail_counted.h5"
        self.assert_as_one(2, file)
        self.assert_as_one(2, file, "--against", "samples/healthy_wmma.h5", code=UNJUDGED)

    def test_with_different_files_of_one_name_are_refused(self):
        self.record_ring("ring", ranks=2)
        self.spread(["ring"], 2)
        for number in range(2):
            there = self.node(number) / "ring" / "rank1_step0.h5"
            shutil.copy(SAMPLES / ("tail_counted.h5", "lse_base2.h5")[number], there)
        ended = self.on_nodes(2, "ring")
        self.assertEqual(ended.returncode, UNJUDGED, ended.stdout)
        self.assertIn("ring/rank1_step0.h5: rank 0 on ", ended.stderr)
        self.assertIn("have different files of that name", ended.stderr)


class Job:
    """A job under way, all of whose processes are known."""

    def __init__(self, case, ranks, *arguments, **options):
        self.case, self.ranks = case, ranks
        self.process = subprocess.Popen(job(ranks, *arguments), cwd=case.folder, env=ENVIRONMENT, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **options)
        case.addCleanup(self.process.communicate)
        case.addCleanup(self.process.kill)
        self.pids = {}
        while len(self.pids) < ranks:
            case.assertIsNone(self.process.poll(), "it has ended before its ranks were seen")
            self.find_ranks()

    def find_ranks(self):
        """Of what runs in the folder of the case."""
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if entry.joinpath("exe").resolve() != TILE_DIFF_MPI or entry.joinpath("cwd").resolve() != self.case.folder:
                    continue
                variables = dict(v.split("=", 1) for v in entry.joinpath("environ").read_text().split("\0") if "=" in v)
                self.pids[int(variables["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
            except (OSError, KeyError):
                continue

    def pid_of(self, rank):
        return self.pids[rank]

    def live(self):
        return [pid for pid in self.pids.values() if pathlib.Path(f"/proc/{pid}/exe").exists()]


class Killed(MpiCase):
    def test_leaves_no_report_and_no_process(self):
        self.record_ring("ring")
        for victim in (0, 2):
            with self.subTest(victim=victim):
                killed = Job(self, 3, "ring", "--json", "report.json", "--write-baseline", "known.txt")
                # Held until the other one is dead: it cannot have ended before.
                os.kill(killed.pid_of(1), signal.SIGSTOP)
                time.sleep(0.3)
                os.kill(killed.pid_of(victim), signal.SIGKILL)
                end = time.monotonic() + 10
                code = killed.process.wait(10)
                self.assertNotIn(code, (MATCH, DIVERGED))
                while killed.live() and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertEqual(killed.live(), [])
                self.assertEqual([p.name for p in self.folder.iterdir()], ["ring"])


class Errors(MpiCase):
    def elsewhere(self, command):
        """The command in a folder where it sees nothing of this one."""
        (self.folder / "elsewhere").mkdir(exist_ok=True)
        return ["sh", "-c", 'cd elsewhere && exec "$@"', "sh", *command]

    def of_two(self, first, second):
        return [MPIRUN, "--quiet", "-n", "1", *first, ":", "-n", "1", *second]

    def test_of_one_rank_end_all(self):
        """It finds all files, of which it cannot read the first."""
        self.record_ring("ring", ranks=2)
        file = "ring/rank0_step0.h5"
        shutil.copytree(self.folder / "ring", self.folder / "elsewhere" / "ring")
        was = (self.folder / file).stat()
        broken = self.folder / "elsewhere" / file
        broken.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(was.st_size - 8))
        os.utime(broken, ns=(was.st_atime_ns, was.st_mtime_ns))
        for path in (file, "ring"):
            with self.subTest(path=path):
                judge = [TILE_DIFF_MPI, path, "--json", self.folder / "report.json"]
                ended = run(self.of_two(judge, self.elsewhere(judge)), self.folder)
                self.assert_one_line(ended, "rank 1 on ", "ring/rank", "has no 8-byte addresses")

    def test_lack_of_memory_ends_all(self):
        """Rank 1 may have no more than it has once all of them have started, and wait for what to judge."""
        self.record_large("large.h5")
        short = Job(self, 2, "-", "--json", "report.json", stdin=subprocess.PIPE)
        time.sleep(1)
        address_space = int(pathlib.Path(f"/proc/{short.pid_of(1)}/statm").read_text().split()[0]) * resource.getpagesize()
        room = 4 << 20
        resource.prlimit(short.pid_of(1), resource.RLIMIT_AS, (address_space + room, address_space + room))
        _, said = short.process.communicate("large.h5\n", timeout=SECONDS)
        self.assertEqual(short.process.returncode, UNJUDGED, said)
        self.assertRegex(said, r"\Atile-diff: rank 1 on .*large.h5: not enough memory; .*\n\Z")

    def record_large(self, name):
        """As much of K and V as no process has in reserve, and work for all."""
        heads, rows, seqlen, head_dim = 4, 256, 16384, 128
        with h5py.File(self.folder / name, "w") as f:
            f.attrs.update(format="tilescope", format_version=1, kernel="zeros")
            f.create_group("problem").attrs.update(batch=1, heads=heads, heads_kv=heads, seqlen_q=rows, seqlen_kv=seqlen,
                                                   head_dim=head_dim, block_m=64, block_n=64, sm_scale=0.1, mask="none")
            f["inputs/q"] = np.zeros((1, heads, rows, head_dim), np.float16)
            f["inputs/k"] = f["inputs/v"] = np.zeros((1, heads, seqlen, head_dim), np.float16)
            f["outputs/o"] = np.zeros((1, heads, rows, head_dim), np.float16)
            f.attrs["complete"] = 1

    def test_of_what_nobody_can_read_are_those_of_the_recording(self):
        (self.folder / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
        alone = run([TILE_DIFF, "broken.h5"], self.folder)
        together = run(job(2, "broken.h5"), self.folder)
        self.assert_one_line(together, "rank 0 on ", "broken.h5")
        self.assertEqual(re.sub(r"rank 0 on [^:]*: ", "", together.stderr), alone.stderr)

    @unittest.skipUnless(EVERYTHING, "with --all")
    def test_of_a_report_are_of_the_first_rank(self):
        self.record_ring("ring", ranks=2)
        ended = run(job(3, "ring", "--json", "no/folder/report.json"), self.folder)
        self.assert_one_line(ended, "rank 0 on ", "no/folder/report.json")


if __name__ == "__main__":
    main()
