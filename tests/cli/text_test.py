"""Text that comes from outside reaches no terminal as it is: from a file, its name, a table or the command line.

usage: text_test.py TILE_DIFF TILE_RUN TILE_GATE
"""

import json
import os
import pathlib
import subprocess
import sys
import unicodedata

import h5py

import small_dump
from tile_diff_case import TILE_DIFF, UNJUDGED, TileDiffCase, main

TILE_RUN, TILE_GATE = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
EVIL = ["\x1b[31mred", "\u009b31mred", "a\u202eb\u2066c", "one\u2028two", "\x7f\x08", "caf\u00e9 \u5185"]
RAW = [b"\x9b31mred", b"\xff\xfe", b"\xe2\x80", b"\xed\xa0\x80x"]


class Text(TileDiffCase):
    def run_raw(self, *command):
        return subprocess.run(command, capture_output=True, cwd=self.folder)

    def assert_safe(self, output):
        text = output.decode("utf-8")  # raises for anything else
        for character in text:
            if character != "\n":
                self.assertNotIn(unicodedata.category(character), ("Cc", "Cf", "Zl", "Zp", "Cs"), ascii(text))
        return text

    def set_kernel(self, value):
        with h5py.File(self.file, "r+") as f:
            del f.attrs["kernel"]
            f.attrs.create("kernel", value, dtype=f"S{len(value)}" if isinstance(value, bytes) else None)

    def test_attributes(self):
        for value in [*EVIL, *RAW]:
            with self.subTest(ascii(value)):
                small_dump.write(self.file)
                self.set_kernel(value)
                for arguments in ([], ["--json", "-"]):
                    run = self.run_raw(TILE_DIFF, self.file, *arguments)
                    self.assertEqual(run.returncode, 0, run.stderr)
                    text = self.assert_safe(run.stdout)
                    if arguments:
                        kernel = json.loads(text)["kernel"]
                        if isinstance(value, str):
                            self.assertEqual(len(kernel), len(value))

    def test_visible_letters_stay(self):
        small_dump.write(self.file)
        self.set_kernel(EVIL[-1])
        self.assertIn(EVIL[-1], self.run_raw(TILE_DIFF, self.file).stdout.decode())
        report = json.loads(self.run_raw(TILE_DIFF, self.file, "--json", "-").stdout)
        self.assertEqual(report["kernel"], EVIL[-1])

    def test_names_of_files(self):
        small_dump.write(self.file)
        for name in [*(name.encode() for name in EVIL[:4]), *RAW[:2]]:
            path = os.fsencode(self.folder) + b"/" + name + b".h5"
            with self.subTest(ascii(name)):
                run = self.run_raw(TILE_DIFF, path)
                self.assertEqual((run.returncode, self.assert_safe(run.stderr).count("\n")), (UNJUDGED, 1))
                os.link(self.file, path)
                for arguments in ([], ["--json", "-"], ["--png", os.fsencode(self.folder) + b"/" + name]):
                    run = self.run_raw(TILE_DIFF, path, *arguments)
                    self.assertEqual((run.returncode, run.stderr), (0, b""))
                    self.assert_safe(run.stdout)
                run = self.run_raw(TILE_RUN, "recover", path, "-o", path + b".recovered")
                self.assertEqual((run.returncode, run.stderr), (0, b""))
                self.assert_safe(run.stdout)

    def test_command_line(self):
        for program in (TILE_DIFF, TILE_RUN, TILE_GATE):
            for option in (b"--\x1b[2J", b"\x9b2J", "--\u202e".encode()):
                run = self.run_raw(program, option)
                self.assertEqual((run.returncode, self.assert_safe(run.stderr).count("\n")), (UNJUDGED, 1), option)

    def table(self, name, cell, metadata):
        rows = b"# device: " + metadata + b"\nkernel,seqlen_q,latency_us\n"
        rows += b"".join(cell + b",512,%f\n" % (10 + i / 100) for i in range(40))
        path = self.folder / name
        path.write_bytes(rows)
        return path

    def test_cells_of_a_table(self):
        for cell in [*(name.encode() for name in EVIL[:4]), *RAW[:2]]:
            with self.subTest(ascii(cell)):
                tables = [self.table(name, cell, cell) for name in ("ours.csv", "theirs.csv")]
                run = self.run_raw(TILE_GATE, "latency", *tables)
                self.assertEqual((run.returncode, run.stderr), (0, b""))
                self.assert_safe(run.stdout)
                run = self.run_raw(TILE_GATE, "latency", *tables, "--json", "-")
                json.loads(self.assert_safe(run.stdout))
                tables[0].write_bytes(b"latency_us\n" + cell + b"\n")
                run = self.run_raw(TILE_GATE, "latency", *tables)
                self.assertEqual((run.returncode, self.assert_safe(run.stderr).count("\n")), (UNJUDGED, 1))


if __name__ == "__main__":
    main()
