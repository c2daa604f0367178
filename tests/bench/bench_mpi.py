#!/usr/bin/env python3
"""How tile-diff-mpi scales on this machine, where its ranks wait, and what that makes of many nodes by a model.

usage: bench_mpi.py [--bin FOLDER] [--gib G] [--cores N] [--rounds N] [--dir FOLDER] [--mpirun COMMAND]

Everything is read once before it is timed, so that it comes from the page cache; the best of the rounds counts. The machine
should do nothing else meanwhile.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

GIB = 2**30
MPI_ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
                       OMPI_MCA_hwloc_base_binding_policy="none")  # fmt: skip


def stop(what):
    sys.exit(f"bench_mpi: {what}")


class Machine:
    """What is timed, and where."""

    def __init__(self, arguments, folder):
        self.bin, self.folder, self.rounds = arguments.bin.resolve(), pathlib.Path(folder), arguments.rounds
        self.mpirun = arguments.mpirun
        self.cores = arguments.cores or len(os.sched_getaffinity(0))

    def run(self, commands, **variables):
        """Seconds until all of them, started together, have ended; each must find a match."""
        start = time.monotonic()
        running = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(MPI_ENVIRONMENT, **variables)) for c in commands]
        for process, command in zip(running, commands):
            said = process.communicate()[1]
            if process.returncode != 0:
                stop(f"{' '.join(map(str, command))}: exit {process.returncode}: {said.decode(errors='replace').strip()[:300]}")
        return time.monotonic() - start

    def best(self, commands, **variables):
        return min(self.run(commands, **variables) for _ in range(self.rounds))

    def one(self, path, threads):
        return [self.bin / "tile-diff", "--threads", str(threads), path]

    def ranks(self, processes, threads, *paths):
        return [self.mpirun, "--quiet", "-n", str(processes), self.bin / "tile-diff-mpi", "--jobs", "1", "--threads", str(threads), *paths]

    def together(self, processes, threads, path):
        """Seconds of the job and of its ranks, of the best round."""
        timing = self.folder / "timing.json"
        found = []
        for _ in range(self.rounds):
            seconds = self.run([self.ranks(processes, threads, path)], TILESCOPE_TIMING=str(timing))
            found.append((seconds, json.loads(timing.read_text())))
        return min(found, key=lambda one: one[0])

    def make(self, name, gib, heads):
        """A recording of S with so many heads; what it really takes, in GiB."""
        path = self.folder / name
        seqlen = max(64, round(math.sqrt(gib * GIB / 4 / heads) / 64) * 64)
        subprocess.run([self.bin / "make_large_dump", path, str(seqlen), "", str(heads)], check=True)
        return path, path.stat().st_size / GIB


def grids(cores):
    """Processes x threads: powers of two that fill the machine or a part of it."""
    filled = [(p, cores // p) for p in (1, 2, 4, 8, 16, 32, 64) if p <= cores and cores % p == 0]
    parts = [(n, 1) for n in (1, 2, 4, 8, 16, 32) if n < cores]
    return parts + [grid for grid in filled if grid not in parts]


def waiting_of(rank, seconds):
    """Shares of a rank's time: in the queue, for messages, for stragglers, and for files and cores."""
    threads = max(rank["threads_used"], 1)
    idle = max(rank["shared"] - rank["queue"] - rank["processor"] / threads, 0)
    return {"queue": rank["queue"] / threads / seconds, "messages": rank["messages"] / seconds,
            "stragglers": rank["stragglers"] / seconds, "files": idle / seconds}  # fmt: skip


def show_ranks(timing, threads):
    print("  rank   queue  messages  stragglers  files and cores   pieces  takes  GiB read  MiB moved  MiB resident")
    for i, rank in enumerate(timing["ranks"]):
        rank["threads_used"] = threads
        share = waiting_of(rank, timing["seconds"])
        print(f"  {i:4}{share['queue']:8.2%}{share['messages']:10.2%}{share['stragglers']:12.2%}{share['files']:17.2%}"
              f"{rank['pieces']:9}{rank['takes']:7}{rank['bytes_read'] / GIB:10.3f}{rank['bytes_moved'] / 2**20:11.3f}"
              f"{rank['resident_bytes'] / 2**20:14.0f}")  # fmt: skip


def mean_waiting(timing, threads):
    for rank in timing["ranks"]:
        rank["threads_used"] = threads
    shares = [waiting_of(rank, timing["seconds"]) for rank in timing["ranks"]]
    return {name: statistics.mean(share[name] for share in shares) for name in shares[0]}


def strong_scaling(machine, path, gib):
    single = machine.best([machine.one(path, 1)])
    print(f"\nStrong scaling, {gib:.2f} GiB; one process of one thread: {single:.3f} s, {gib / single:.2f} GiB/s")
    print("  processes x threads   seconds   GiB/s   speed-up   waiting: queue, messages, stragglers, files and cores")
    last = None
    for processes, threads in grids(machine.cores):
        seconds, timing = machine.together(processes, threads, path)
        mean = mean_waiting(timing, threads)
        # The start of the processes is theirs, and not that of the judging.
        print(f"  {processes:9} x {threads:<7}{timing['seconds']:10.3f}{gib / timing['seconds']:8.2f}{single / timing['seconds']:11.2f}"
              f"   {sum(mean.values()):.1%}: " + ", ".join(f"{share:.1%}" for share in mean.values())
              + f"   ({seconds - timing['seconds']:.2f} s to start and end)")  # fmt: skip
        last = (processes, threads, timing)
    print(f"\nThe ranks of {last[0]} x {last[1]}")
    show_ranks(last[2], last[1])
    return single


def unrelated(machine, files, gib):
    """As many processes of one thread as there are cores, of which each judges a file of its own."""
    seconds = machine.best([machine.one(path, 1) for path in files])
    total = gib * len(files)
    print(f"\n{len(files)} unrelated processes of one thread, {gib:.2f} GiB each: {seconds:.3f} s, {total / seconds:.2f} GiB/s together")
    return total / seconds


def weak_scaling(machine, gib, single_rate):
    print("\nWeak scaling, the same for each core\n  ranks     GiB   seconds   of the speed of one")
    count = 1
    while count <= machine.cores:
        path, size = machine.make("weak.h5", gib * count, count)
        machine.run([machine.one(path, machine.cores)])
        _, timing = machine.together(count, 1, path)
        rate = size / timing["seconds"] / count
        print(f"  {count:5}{size:8.2f}{timing['seconds']:10.3f}{rate / single_rate:12.1%}")
        path.unlink()
        count *= 2


def constants_of(machine, path, gib, best):
    """Of the model, measured: judging with all cores, a fetch from the queue, a meeting, what is added up, opening a file."""
    small, _ = machine.make("small.h5", 64 * 64 * 4 / GIB, 1)
    few = [machine.together(1, 1, small)[1]["seconds"] for _ in range(2)]
    many = 40
    copies = machine.folder / "many"
    copies.mkdir()
    for i in range(many):
        shutil.copy(small, copies / f"{i}.h5")
    timing = machine.folder / "timing.json"
    machine.run([machine.ranks(1, 1, copies)], TILESCOPE_TIMING=str(timing))
    opening = (json.loads(timing.read_text())["seconds"] - min(few)) / (many - 1)
    processes = min(machine.cores, 8)
    _, found = machine.together(processes, 1, path)
    ranks = found["ranks"]
    takes = max(sum(rank["takes"] for rank in ranks), 1)
    return {
        "judging one GiB, a core": (best * machine.cores / gib, "s"),
        "a fetch from the queue": (sum(rank["queue"] for rank in ranks) / takes, "s"),
        "adding up what a rank found": (statistics.mean(rank["messages"] for rank in ranks), "s"),
        "what a rank sends of it": (statistics.mean(rank["bytes_moved"] for rank in ranks), "bytes"),
        "opening a file, and judging nothing of it": (opening, "s"),
        "resident memory of a rank": (max(rank["resident_bytes"] for rank in ranks), "bytes"),
    }


def model(constants, arguments, cores, files, total_gib):
    """Seconds of a job of so many nodes, part by part, of a rank a node with a thread a core."""
    judging_gib = constants["judging one GiB, a core"][0]

    def of(nodes):
        return {
            "judging": judging_gib * total_gib / (nodes * cores),
            "file system": total_gib / arguments.storage,
            # Who opens it first tries it in a copy of the process.
            "opening files": constants["opening a file, and judging nothing of it"][0] * files * (1 / nodes + arguments.model_again),
            "adding up": constants["adding up what a rank found"][0] * math.ceil(math.log2(max(nodes, 2))),
            # All of them fetch from one rank; as many as pieces, at most.
            "queue": (arguments.model_fetch or constants["a fetch from the queue"][0]) * total_gib * 1024 / arguments.model_piece_mib,
            # Who takes the last piece is waited for.
            "stragglers": judging_gib * arguments.model_piece_mib / 1024,
        }

    return of


def seconds_of(part):
    """Who judges reads meanwhile; nothing else is hidden, and the queue only where it is full all the time."""
    return max(part["judging"], part["file system"], part["queue"]) + part["opening files"] + part["adding up"] + part["stragglers"]


def show_model(constants, arguments, cores):
    print("\nConstants, measured here")
    for name, (value, unit) in constants.items():
        print(f"  {name:<44}{value:12.4g} {unit}")
    total = arguments.model_gpus * arguments.model_gb * 1e9 / GIB
    files = arguments.model_gpus * arguments.model_files
    print(f"\nModel: {arguments.model_gpus} GPUs x {arguments.model_gb} GB in {files} files, {cores} cores a node, a file system of "
          f"{arguments.storage:g} GiB/s, pieces of {arguments.model_piece_mib:g} MiB; seconds")  # fmt: skip
    of = model(constants, arguments, cores, files, total)
    names = list(of(1))
    print("  nodes" + "".join(f"{name:>15}" for name in names) + "            all   most of it")
    for nodes in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        part = of(nodes)
        print(f"  {nodes:5}" + "".join(f"{part[name]:15.3f}" for name in names) + f"{seconds_of(part):15.1f}   {max(part, key=part.get)}")
    fixed = {name: seconds for name, seconds in of(10**6).items() if name != "judging"}
    most = max(fixed, key=fixed.get)
    print(f"  The knee: {of(1)['judging'] / fixed[most]:.1f} nodes judge for as long as the largest part takes that no node makes less, {most}")
    report = 40e3  # of a recording: tallies of its stages, their worst elements, drifts
    memory = constants["resident memory of a rank"][0] + files * report
    print(f"  Memory of a rank: {memory / 2**20:.0f} MiB, of which {files * report / 2**20:.0f} MiB are what is known of the files, and "
          f"{arguments.model_head_mib:g} MiB more for each head that it works on, mostly one or two at a time")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--gib", type=float, default=1, help="of the recording that is judged")
    parser.add_argument("--cores", type=int, default=0, help="0: those that this process may use")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dir", help="where the files go: three times GIB")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--storage", type=float, default=100, help="GiB/s that the modelled file system reads")
    parser.add_argument("--model-again", type=float, default=0.2, help="of the time of opening a file, what it takes every rank once one has tried it")
    parser.add_argument("--model-fetch", type=float, default=1e-4, help="seconds of a fetch over a network; 0: as measured on this machine")
    parser.add_argument("--model-gpus", type=int, default=64)
    parser.add_argument("--model-gb", type=float, default=100, help="of each GPU")
    parser.add_argument("--model-piece-mib", type=float, default=64, help="of a query block of a head: S and P of 128 rows and 65536 keys")
    parser.add_argument("--model-head-mib", type=float, default=128, help="K and V of a head in float32, of 131072 keys")
    parser.add_argument("--model-files", type=int, default=65, help="of each GPU: a step each, and the end")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        machine = Machine(arguments, folder)
        siblings = pathlib.Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
        print(f"{machine.cores} hardware threads; those of the first core: {siblings.read_text().strip() if siblings.is_file() else 'not known'}")
        path, gib = machine.make("large.h5", arguments.gib, arguments.heads)
        machine.run([machine.one(path, machine.cores)])
        single = strong_scaling(machine, path, gib)
        part, part_gib = machine.make("part.h5", arguments.gib / machine.cores, 1)
        machine.run([machine.one(part, 1)])
        parts = [part] + [pathlib.Path(shutil.copy(part, machine.folder / f"part{i}.h5")) for i in range(1, machine.cores)]
        together = unrelated(machine, parts, part_gib)
        best = min(machine.together(p, t, path)[1]["seconds"] for p, t in grids(machine.cores) if p * t == machine.cores)
        print(f"The best grid reaches {gib / best:.2f} GiB/s: {single / best:.2f} times one process of one thread, "
              f"{gib / best / together:.2f} of the unrelated ones together")  # fmt: skip
        weak_scaling(machine, arguments.gib / machine.cores / 4, gib / single)
        show_model(constants_of(machine, path, gib, best), arguments, machine.cores)


if __name__ == "__main__":
    main()
