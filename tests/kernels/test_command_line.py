#!/usr/bin/env python3
"""Tests the subcommands of tile-run: their options, the spellings from before there were any, the commands that are
recorded; and what tile-run, tile-gate and tile-diff say of a command line that they cannot read.

usage: test_command_line.py ROOT TILE_RUN TILE_GATE TILE_DIFF
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import h5py

ROOT, TILE_RUN, TILE_GATE, TILE_DIFF = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(4))
RUN = ["--kernel", "scalar", "--engine", "cpu", "--shape", "1,2,40,70,64"]

KERNEL = {"--kernel", "--config", "--dtype", "--engine"}
CALL = {"--shape", "--heads-kv", "--causal", "--causal-alignment", "--input", "--seed"}
SELECTION = {"--select", "--sink-bytes"}
SINK = {"--sink-memory", "--count-conflicts", "--writers"}
CHECKED = KERNEL | {"--fault"} | CALL | SELECTION | SINK | {"--time-limit"}
OPTIONS = {
    "record": CHECKED | {"--sink-file", "--output"},
    "prove-inert": KERNEL | CALL | SELECTION | SINK | {"--json"},
    "poison": CHECKED | {"--output", "--json"},
    "repeat": CHECKED | {"--runs", "--json"},
    "bisect": {"--stage", "--cause", "--baseline"},
    "watch": CHECKED | {"--output", "--budget", "--json"},
    "flight": KERNEL | {"--fault"} | CALL | SELECTION
    | {"--keep", "--launches", "--plant-nan", "--limit", "--output", "--all-launches", "--json"},
    "sweep": {"--kernel", "--config", "--fault", "--engine", "--shape", "--heads-kv", "--seed", "--sink-bytes",
              "--count-conflicts", "--writers", "--time-limit", "--jobs", "--time-budget", "--csv", "--json"},
    "recover": {"--output"},
    "list": {"--json"},
}
RUN_GROUPS = ["Kernel", "Attention call", "Tiles to capture"]
GROUPS = {
    "record": [*RUN_GROUPS, "Output"],
    "prove-inert": [*RUN_GROUPS, "Output"],
    "poison": [*RUN_GROUPS, "Output"],
    "repeat": ["Repetition", *RUN_GROUPS, "Output"],
    "bisect": ["What is looked for"],
    "watch": [*RUN_GROUPS, "Output"],
    "flight": ["Flight recorder", *RUN_GROUPS, "Output"],
    "sweep": ["Sweep", *RUN_GROUPS, "Output"],
    "recover": ["Output"],
    "list": ["Output"],
}
# Where a subcommand has the option, --help shows this default.
DEFAULTS = {"--dtype": "f16", "--causal-alignment": "bottom_right", "--input": "random", "--seed": "1",
            "--sink-bytes": "4G", "--sink-memory": "device", "--budget": "512M", "--launches": "100"}
# How it was asked for before there were subcommands, and what takes its place.
OLD = [
    ([*RUN, "-o", "run.h5"], "without a subcommand", "record"),
    ([*RUN, "--prove-inert"], "--prove-inert", "prove-inert"),
    ([*RUN, "--poison", "-o", "run.h5"], "--poison", "poison"),
    ([*RUN, "--repeat", "3"], "--repeat", "repeat --runs N"),
    ([*RUN, "--repeat=3"], "--repeat", "repeat --runs N"),
    (["--watch", *RUN, "-o", "run.h5"], "--watch", "watch"),
    ([*RUN, "--flight-recorder", "2", "--launches", "3"], "--flight-recorder", "flight --keep N"),
    (["--sweep", "--kernel", "scalar"], "--sweep", "sweep"),
    (["--recover", "run.sink", "-o", "run.h5"], "--recover", "recover FILE"),
    (["--list"], "--list", "list"),
    (["--list", "--json"], "--list", "list"),
    (["record", *RUN, "--repeat", "2"], "--repeat", "repeat --runs N"),
]


class CommandLineCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_it(self, *arguments, program=TILE_RUN):
        return subprocess.run([program, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=300,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})

    def refusal(self, *arguments, program=TILE_RUN):
        """The one line that says why nothing was done."""
        run = self.run_it(*arguments, program=program)
        # git bisect run takes 2 for a bad commit.
        code = 128 if arguments[:1] == ("bisect",) else 2
        self.assertEqual((run.returncode, run.stdout, run.stderr.count("\n")), (code, "", 1), (arguments, run.stderr))
        self.assertTrue(run.stderr.startswith(f"{program.name}: "), run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [], arguments)
        return run.stderr.removeprefix(f"{program.name}: ").removesuffix("\n")


class Subcommands(CommandLineCase):
    def help_of(self, subcommand):
        run = self.run_it(subcommand, "--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run.stdout

    def test_help_has_a_line_for_each(self):
        run = self.run_it("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        listed = run.stdout.partition("Subcommands:\n")[2].splitlines()
        self.assertEqual([line.split()[0] for line in listed if line], list(OPTIONS))

    def test_without_one_all_are_named(self):
        there_are = f"choose one of {', '.join(OPTIONS)}, see tile-run --help"
        self.assertEqual(self.refusal(), f"command line: no subcommand is given; {there_are}")
        self.assertEqual(self.refusal("--bogus"), f"command line: no subcommand stands before --bogus; {there_are}")
        self.assertEqual(self.refusal("bench"), f"command line: there is no subcommand bench; {there_are}")

    def test_old_spellings_are_refused_with_the_new_one(self):
        self.assertEqual({new.split()[0] for _, _, new in OLD}, set(OPTIONS) - {"bisect"})
        for arguments, old, new in OLD:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.refusal(*arguments), f"tile-run {old} is now: tile-run {new}; "
                                                           f"see tile-run {new.split()[0]} --help")

    def test_each_has_its_own_options(self):
        for subcommand, options in OPTIONS.items():
            with self.subTest(subcommand):
                found = re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.help_of(subcommand), re.MULTILINE)
                self.assertEqual(set(found), options | {"--help"})

    def test_options_stand_in_groups(self):
        for subcommand, groups in GROUPS.items():
            with self.subTest(subcommand):
                text = self.help_of(subcommand)
                found = re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE)
                self.assertEqual([group for group in found if group.lower() not in ("options", "positionals")], groups)
                # Only --help stands in none.
                options = re.search(r"^options:\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)[1]
                self.assertEqual(re.findall(r"--[\w-]+", options), ["--help"])

    def test_defaults_are_shown(self):
        for subcommand, options in OPTIONS.items():
            for option, default in DEFAULTS.items():
                if option in options:
                    self.assertRegex(self.help_of(subcommand), rf"{option} [^\n]*[=\[]{default}\b", subcommand)

    def test_an_option_of_another_is_refused(self):
        every = set().union(*OPTIONS.values())
        for subcommand, options in OPTIONS.items():
            for option in every - options:
                with self.subTest(subcommand=subcommand, option=option):
                    said = self.refusal(subcommand, option)
                    self.assertTrue(said.startswith(f"{option}: tile-run {subcommand} has no such option, but "), said)
                    others = {f"tile-run {other}" for other in OPTIONS if option in OPTIONS[other]}
                    self.assertEqual(set(re.search(r"but (.*) ha(?:s|ve);", said)[1].split(", ")), others)


class RecordedCommand(CommandLineCase):
    """What a recording says that it was made with makes it again."""

    def bits_of(self, path):
        with h5py.File(path) as file:
            names = [f"{group}/{name}" for group in ("tiles", "outputs") for name in file[group]]
            return file.attrs["command"], {name: file[name][:].tobytes() for name in names}

    def assert_runs_again(self, exit_code, *arguments, recorded="a file.h5"):
        first = self.run_it(*arguments)
        self.assertEqual((first.returncode, first.stderr), (exit_code, ""))
        command, bits = self.bits_of(self.folder / recorded)
        self.assertTrue(command.startswith(f"tile-run {arguments[0]} "), command)
        (self.folder / recorded).unlink()
        again = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=self.folder,
                               env={**os.environ, "PATH": f"{TILE_RUN.parent}:{os.environ['PATH']}"})
        self.assertEqual((again.returncode, again.stderr), (exit_code, ""), command)
        self.assertEqual(self.bits_of(self.folder / recorded), (command, bits))

    def test_of_record(self):
        self.assert_runs_again(0, "record", *RUN, "-o", "a file.h5")
        self.assert_runs_again(0, "record", *RUN, "--heads-kv", "1", "--causal", "--causal-alignment", "top_left",
                               "--input", "ramped", "--seed", "9", "--fault", "p_bf16", "--select", "head=1:stage=s,p",
                               "--sink-bytes", "16M", "--count-conflicts", "-o", "a file.h5")
        self.assert_runs_again(0, "record", *RUN, "--sink-memory", "mapped", "--writers", "-o", "a file.h5")

    def test_of_poison(self):
        self.assert_runs_again(1, "poison", *RUN, "--fault", "p_lane_stride", "-o", "a file.h5")

    def test_of_watch(self):
        self.assert_runs_again(1, "watch", *RUN, "--fault", "lse_base2", "--budget", "1M", "-o", "a file.h5")

    def test_of_flight(self):
        self.assert_runs_again(1, "flight", *RUN, "--keep", "2", "--launches", "4", "--plant-nan", "2", "--limit",
                               "s=1000", "-o", "a file.h5")
        self.assert_runs_again(0, "flight", *RUN, "--keep", "2", "--launches", "3", "--all-launches", "-o", "a file.h5",
                               recorded="a file.h5.1")

    def test_of_repeat_is_in_its_report(self):
        report = json.loads(self.run_it("repeat", *RUN, "--runs", "3", "--json").stdout)
        self.assertTrue(report["command"].startswith("tile-run repeat "), report["command"])
        again = json.loads(self.run_it(*shlex.split(report["command"])[1:], "--json").stdout)
        self.assertEqual(again, report)

    def test_samples_json_has_commands_of_today(self):
        commands = [shlex.split(sample["command"]) for sample in json.loads((ROOT / "samples/samples.json").read_text())]
        commands = [words for words in commands if words[0] == "tile-run"]
        self.assertGreater(len(commands), 10)
        for words in commands:
            # All of them are of a GPU, and here is none.
            self.assertIn("it needs a GPU and there is none here", self.refusal(*words[1:]), words)


class Refusals(CommandLineCase):
    """Each names the option, what is wrong with it, and the --help that describes it."""

    def assert_says(self, program, cases):
        for arguments, where, what in cases:
            with self.subTest(program=program.name, arguments=arguments):
                words = arguments.split()
                helped = f"{program.name} {words[0]}" if program != TILE_DIFF else program.name
                said = self.refusal(*words, program=program)
                self.assertTrue(said.startswith(f"{where}: {what}; "), said)
                self.assertTrue(said.endswith(f"see {helped} --help"), said)

    def test_of_tile_run(self):
        self.assert_says(TILE_RUN, [
            ("record --shape 1,2,40 -o x", "--shape", "it takes 5 values and 3 are given"),
            ("record --shape 1,2,40,70,64,1 -o x", "--shape", "it takes 5 values and 6 are given"),
            ("record --shape 1,2,x,70,64 -o x", "--shape", "1,2,x,70,64 cannot be read as B,H,Sq,Skv,D"),
            ("record --kernel a --kernel b", "--kernel", "it takes 1 value and 2 are given"),
            ("record --kernel", "--kernel", "it has no value"),
            ("record -o x", "--shape", "it is required and not given"),
            ("record --shape 1,2,40,70,64", "-o,--output", "it is required and not given"),
            ("record --seed -1", "--seed", "-1 is no number from 0 on"),
            ("record --seed one", "--seed", "one is no number from 0 on"),
            ("record --heads-kv one", "--heads-kv", "one cannot be read as N"),
            ("record --engine tpu", "--engine", "tpu not in {cuda,cpu}"),
            ("record --causal=maybe", "--causal", "maybe is nothing that a flag takes"),
            ("record --bogus", "--bogus", "tile-run record has no such option"),
            ("record run.h5", "run.h5", "tile-run record takes no such argument"),
            ("flight --plant-nan -1", "--plant-nan", "-1 is no number from 0 on"),
            ("recover -o x", "sink", "it is required and not given"),
        ])

    def test_of_tile_gate(self):
        self.assert_says(TILE_GATE, [
            ("latency", "candidate.csv", "it is required and not given"),
            ("latency a.csv b.csv c.csv", "c.csv", "tile-gate latency takes no such argument"),
            ("latency a.csv b.csv --require-ratio fast", "--require-ratio", "fast cannot be read as R"),
            ("measure --kernel scalar", "--shape", "it is required and not given"),
            ("measure --ignore dtype", "--ignore", "tile-gate measure has no such option, but tile-gate latency has"),
            ("tile --samples", "--samples", "it has no value"),
            ("tile", "-o,--output", "it is required and not given"),
        ])
        there_are = "choose one of latency, measure, tile, profile, tune, see tile-gate --help"
        self.assertEqual(self.refusal(program=TILE_GATE), f"command line: no subcommand is given; {there_are}")
        self.assertEqual(self.refusal("compare", program=TILE_GATE),
                         f"command line: there is no subcommand compare; {there_are}")

    def test_of_tile_diff(self):
        self.assert_says(TILE_DIFF, [
            ("--no-causes", "paths", "it is required and not given"),
            ("a.h5 --atol", "--atol", "it has no value"),
            ("a.h5 --atol nan", "--atol", "nan is not a finite number from 0 on"),
            ("a.h5 --threads 1 --threads 2", "--threads", "it takes 1 value and 2 are given"),
            ("a.h5 --same-run", "--same-run", "it needs --against"),
            ("a.h5 --no-causes --replay-out x", "--replay-out", "it excludes --no-causes"),
            ("a.h5 --sweep", "--sweep", "tile-diff has no such option"),
        ])


if __name__ == "__main__":
    unittest.main()
