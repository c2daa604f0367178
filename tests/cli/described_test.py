"""What programs say of themselves for man and for shells, and that it is installed.

usage: described_test.py CMAKE BUILD TILE_DIFF TILE_RUN TILE_GATE [TILE_VIEW]
"""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CMAKE, BUILD, *PROGRAMS = (pathlib.Path(word).resolve() for word in sys.argv[1:])
del sys.argv[1:]
TILE_DIFF, TILE_RUN = PROGRAMS[:2]
SUBCOMMANDS = {"tile-run": ["record", "prove-inert", "poison", "repeat", "bisect", "watch", "flight", "sweep", "recover", "list"],
               "tile-gate": ["latency", "measure", "tile", "profile", "tune"]}


def output_of(*command, **options):
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    assert run.returncode == 0, (command, run.stderr)
    assert run.stderr == "", (command, run.stderr)
    return run.stdout


def described(program, form):
    return output_of(program, "--describe", form)


def options_in_help(program):
    """Of each subcommand, or of the program itself."""
    for command in SUBCOMMANDS.get(program.name, [None]):
        text = output_of(program, *([command] if command else []), "--help")
        yield command, re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE)


class Described(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def file_of(self, program, form):
        path = self.folder / f"{program.name}.{form}"
        path.write_text(described(program, form))
        return path

    def test_help_does_not_show_it(self):
        for program in PROGRAMS:
            self.assertNotIn("--describe", output_of(program, "--help"))
            run = subprocess.run([program, "--describe", "csh"], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout), (2, ""))

    def test_pages_for_man(self):
        for program in PROGRAMS:
            text = described(program, "man")
            self.assertTrue(text.startswith(f".TH {program.name.upper()} 1 ".replace("-", r"\-")), text[:80])
            for name in (".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"):
                self.assertIn(f"\n{name}\n", text)
            for command, options in options_in_help(program):
                heading = f'.SH "{program.name} {command}"'.upper() if command else ".SH OPTIONS"
                section = text.partition("\n" + heading.replace("-", r"\-") + "\n")[2].partition("\n.SH ")[0]
                shown = re.findall(r"\\fB(--[\w-]+)\\fR", section.replace(r"\-", "-"))
                self.assertTrue(set(options) <= set(shown), (heading, set(options) - set(shown)))
        self.assertIn(r"One of \fBcuda\fR, \fBcpu\fR.", described(TILE_RUN, "man"))

    def read_by(self, reader, form, *options):
        if not shutil.which(reader):
            self.skipTest(f"{reader} is not installed")
        for program in PROGRAMS:
            self.assertEqual(output_of(reader, *options, self.file_of(program, form)), "")

    def test_groff_reads_pages(self):
        self.read_by("groff", "man", "-man", "-ww", "-z")

    def test_mandoc_reads_pages(self):
        # Not its warnings: pages have no date, so that the same source makes the same page.
        self.read_by("mandoc", "man", "-Tlint", "-Werror")

    def test_zsh_reads_its_script(self):
        self.read_by("zsh", "zsh", "-n")

    def test_fish_reads_its_script(self):
        self.read_by("fish", "fish", "--no-execute")

    def complete(self, script, *words):
        """What bash offers for the last of the words."""
        ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_$1"; printf "%s\\n" "${COMPREPLY[@]}"'
        return output_of("bash", "-c", ask, "bash", script, *words).split()

    def test_bash_completes_every_option(self):
        for program in PROGRAMS:
            script = self.file_of(program, "bash")
            output_of("bash", "-n", script)
            for command, options in options_in_help(program):
                words = [command] if command else []
                self.assertEqual(sorted(self.complete(script, program.name, *words, "--")), sorted(options), command)
            if program.name in SUBCOMMANDS:
                offered = self.complete(script, program.name, "")
                self.assertEqual([word for word in offered if word[0] != "-"], SUBCOMMANDS[program.name])

    def test_bash_completes_values(self):
        script = self.file_of(TILE_RUN, "bash")
        for words, offered in ((["record", "--engine", ""], ["cuda", "cpu"]), (["record", "--engine", "=", "cu"], ["cuda"]),
                               (["record", "--engine", "="], ["cuda", "cpu"]), (["record", "--seed", ""], []), (["rec"], ["record", "recover"]),
                               (["watch", "--causal-a"], ["--causal-alignment"]), (["bisect", "--", "rec"], [])):
            self.assertEqual(self.complete(script, "tile-run", *words), offered, words)
        script = self.file_of(TILE_DIFF, "bash")
        for words, offered in ((["--stage", "ac"], ["acc"]), (["--like", "flash-attention-2"], ["flash-attention-2"]),
                               (["a.h5", "--without-cause", "acc_not_r"], ["acc_not_rescaled"])):
            self.assertEqual(self.complete(script, "tile-diff", *words), offered, words)

    def test_shells_offer_what_tile_run_lists(self):
        """Kernels, inputs and faults, to every subcommand that takes one, and in no other place."""
        listed = json.loads(output_of(TILE_RUN, "list", "--json"))
        names = {f"--{kind}": [one["name"] for one in listed[f"{kind}s"]] for kind in ("kernel", "fault", "input")}
        self.assertTrue(all(names.values()), names)
        takes = {command: [option for option in options if option in names] for command, options in options_in_help(TILE_RUN)}
        self.assertEqual(takes["record"], list(names))
        scripts = {shell: self.file_of(TILE_RUN, shell) for shell in ("bash", "zsh", "fish")}
        zsh, fish = scripts["zsh"].read_text(), scripts["fish"].read_text()
        for command, options in takes.items():
            in_zsh = zsh.partition(f"\n        {command}) ")[2].partition(" ;;\n")[0]
            for option in options:
                self.assertEqual(self.complete(scripts["bash"], "tile-run", command, option, ""), names[option])
                self.assertRegex(in_zsh, rf"{option}=\[[^\n]*:NAME:\({' '.join(names[option])}\)'")
                line, = re.findall(rf"^.*from {command}' -l {option[2:]} .*$", fish, re.MULTILINE)
                self.assertIn(f" -x -a '{' '.join(names[option])}' ", line)
        help_text, page = output_of(TILE_RUN, "record", "--help"), described(TILE_RUN, "man")
        for name in names["--fault"]:
            self.assertNotIn(name, help_text + page)

    def test_a_person_at_a_terminal(self):
        """Of bash as it is used: with the key, and with files where no word fits."""
        script = self.file_of(TILE_DIFF, "bash")
        (self.folder / "recording_of_today.h5").touch()
        master, slave = pty.openpty()
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=self.folder,
                                 env={**os.environ, "PS1": "$ ", "INPUTRC": os.devnull, "TERM": "dumb"}, start_new_session=True)
        os.close(slave)
        os.write(master, f"source {script}\nPATH=\ntile-diff --fail-f\tx recording_of\t\nexit\n".encode())
        typed = b""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                typed += os.read(master, 4096)
            except OSError:
                break
        shell.wait(timeout=20)
        os.close(master)
        self.assertIn(b"tile-diff --fail-fast x recording_of_today.h5 ", typed)

    def test_scripts_of_other_shells_have_every_option(self):
        for shell in ("zsh", "fish"):
            for program in PROGRAMS:
                text = described(program, shell)
                for _, names in options_in_help(program):
                    for name in names:
                        self.assertIn(name if shell == "zsh" else f"-l {name[2:]} ", text)

    def test_fish_completes_values(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        script = self.file_of(TILE_RUN, "fish")
        for line, offered in (("record --fault acc_", ["acc_not_rescaled"]), ("watch --kernel sc", ["scalar"]), ("list --fault acc_", [])):
            said = output_of("fish", "--no-config", "-c", 'source $argv[1]; complete -C "tile-run $argv[2]"', script, line)
            self.assertEqual([word.split("\t")[0] for word in said.splitlines()], offered, line)

    def test_installed(self):
        component = {"tile-view": "viewer"}
        for program in PROGRAMS:
            prefix = self.folder / program.name
            output_of(CMAKE, "--install", BUILD, "--prefix", prefix, "--component", component.get(program.name, "tools"))
            for path, form in ((f"man/man1/{program.name}.1", "man"), (f"bash-completion/completions/{program.name}", "bash"),
                               (f"zsh/site-functions/_{program.name}", "zsh"), (f"fish/vendor_completions.d/{program.name}.fish", "fish")):
                self.assertEqual((prefix / "share" / path).read_text(), described(program, form))


if __name__ == "__main__":
    unittest.main()
