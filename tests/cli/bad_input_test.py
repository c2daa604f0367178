"""Input that cannot be judged: exit 2 and one line that says what, where and what to do.

usage: bad_input_test.py TILE_DIFF
"""

import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys

import h5py
import numpy as np

import small_dump
from tile_diff_case import MATCH, TILE_DIFF, TileDiffCase, main

DATA = pathlib.Path(__file__).parents[1] / "data"


class NoDump(TileDiffCase):
    def test_no_file(self):
        self.assert_refused("No such file")

    def test_folder(self):
        self.assert_one_line(self.run_it(self.folder), self.folder, "holds no recording")

    def test_empty_file(self):
        self.file.touch()
        self.assert_refused()

    def test_text(self):
        self.file.write_text("q k v\n1 2 3\n" * 1000)
        self.assert_refused()

    def test_name_with_a_line_end(self):
        run = self.run_it(self.folder / "two\nlines.h5")
        self.assert_one_line(run, "two?lines.h5")

    def test_truncated(self):
        small_dump.write(self.file)
        whole = self.file.read_bytes()
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        for length in [1, len(whole) - 1] + [draw.randrange(len(whole)) for _ in range(20)]:
            with self.subTest(seed=seed, length=length):
                self.file.write_bytes(whole[:length])
                self.assert_refused()

    def test_flipped_bytes_never_crash(self):
        small_dump.write(self.file)
        whole = self.file.read_bytes()
        seed = random.randrange(2**32)
        draw = random.Random(seed)
        for _ in range(40):
            damaged = bytearray(whole)
            for _ in range(draw.choice([1, 8, 64])):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            self.file.write_bytes(damaged)
            run = self.run_it(self.file)
            with self.subTest(seed=seed):
                self.assertIn(run.returncode, (0, 1, 2), run.stderr)
                self.assertEqual(run.stderr.count("\n"), run.returncode == 2, run.stderr)


class Damaged(TileDiffCase):
    """What HDF5 1.10 does not survive. Both files were found by changing bytes of a good dump at random."""

    def test_file_that_hdf5_crashes_on(self):
        self.assert_refused("it crashes", path=DATA / "hdf5_crashes.h5")

    def test_file_that_hdf5_loops_in(self):
        """In text of variable length, for as long as it may: a healthy dump takes a tenth of a second."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        run = self.run_it(DATA / "hdf5_loops.h5")
        self.assert_one_line(run, "it takes too long")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 5)


class Spoiled(TileDiffCase):
    """A good dump with one thing wrong."""

    def setUp(self):
        super().setUp()
        small_dump.write(self.file)

    def edit(self):
        return h5py.File(self.file, "r+")

    def replace(self, name, **how):
        with self.edit() as f:
            attributes = dict(f[name].attrs)
            del f[name]
            f.create_dataset(name, **how).attrs.update(attributes)

    def set_problem(self, **attributes):
        with self.edit() as f:
            f["problem"].attrs.update(attributes)


class OtherLayout(Spoiled):
    def test_another_hdf5_layout(self):
        with h5py.File(self.file, "w") as f:
            f["weights"] = np.zeros((4, 4))
        self.assert_refused()

    def test_another_format(self):
        with self.edit() as f:
            f.attrs["format"] = "tilescape"
        self.assert_refused("format")

    def test_newer_version(self):
        with self.edit() as f:
            f.attrs["format_version"] = 2
        self.assert_refused("format_version", "2")

    def test_declaration_of_a_newer_version(self):
        self.assertEqual(self.run_it(self.file).returncode, MATCH)
        with self.edit() as f:
            f.attrs["requires"] = ["/tiles/s/log_base", "/tiles/s/kept_in_tf32"]
        self.assert_refused("/tiles/s/kept_in_tf32", "update Tilescope")
        other = self.folder / "other.h5"
        small_dump.write(other)
        self.assert_one_line(self.run_it("--against", self.file, other), self.file, "/tiles/s/kept_in_tf32")

    def test_incomplete(self):
        with self.edit() as f:
            del f.attrs["complete"]
        self.assert_refused("complete")

    def test_missing_group(self):
        with self.edit() as f:
            del f["problem"]
        self.assert_refused("/problem")

    def test_missing_inputs(self):
        with self.edit() as f:
            del f["inputs"]
        self.assert_refused("/inputs")

    def test_missing_input(self):
        for name in ("q", "k", "v"):
            small_dump.write(self.file)
            with self.edit() as f:
                del f[f"inputs/{name}"]
            self.assert_refused("/inputs", "not all of q, k and v")

    def test_missing_attributes(self):
        for name in ("batch", "heads", "seqlen_q", "seqlen_kv", "head_dim", "block_m", "block_n", "sm_scale"):
            small_dump.write(self.file)
            with self.edit() as f:
                del f["problem"].attrs[name]
            self.assert_refused(name)

    def test_group_in_place_of_a_dataset(self):
        with self.edit() as f:
            del f["tiles/s"]
            f.create_group("tiles/s")
        self.assert_refused("/tiles/s")

    def test_dataset_in_place_of_a_group(self):
        with self.edit() as f:
            del f["tiles"]
            f["tiles"] = np.zeros(3)
        self.assert_refused("/tiles")


class WrongShapes(Spoiled):
    def test_shapes(self):
        for stage, name in small_dump.DATASETS.items():
            small_dump.write(self.file)
            with h5py.File(self.file) as f:
                shape = f[name].shape
            with self.subTest(stage):
                self.replace(name, data=np.zeros((*shape[:-1], shape[-1] + 1), np.float32))
                self.assert_refused(f"/{name}")
                self.replace(name, data=np.zeros(shape[1:], np.float32))
                self.assert_refused(f"/{name}")

    def test_shapes_of_inputs(self):
        for name in ("q", "k", "v"):
            small_dump.write(self.file)
            self.replace(f"inputs/{name}", data=np.zeros((1, 1, 1, 1), np.float16))
            self.assert_refused(f"/inputs/{name}")

    def test_chunks_that_are_no_tiles(self):
        with h5py.File(self.file) as f:
            data = f["tiles/s"][:]
        self.replace("tiles/s", data=data, chunks=(1, 1, 8, 8))
        self.assert_refused("/tiles/s")

    def test_types(self):
        for dtype in (np.float64, np.int32, np.complex64, "S4", np.float16):
            small_dump.write(self.file)
            with h5py.File(self.file) as f:
                shape = f["tiles/s"].shape
            with self.subTest(dtype):
                self.replace("tiles/s", data=np.zeros(shape, dtype), chunks=small_dump.CHUNKS["s"])
                self.assert_refused("/tiles/s")

    def test_types_of_inputs(self):
        with h5py.File(self.file) as f:
            q = f["inputs/q"][:]
        self.replace("inputs/q", data=q.astype(np.float64))
        self.assert_refused("/inputs/q")

    def test_other_byte_order(self):
        with h5py.File(self.file) as f:
            s = f["tiles/s"][:]
        self.replace("tiles/s", data=s.astype(">f4"), chunks=small_dump.CHUNKS["s"])
        self.assert_refused("/tiles/s")

    def test_attribute_types(self):
        self.set_problem(sm_scale="one eighth")
        self.assert_refused("sm_scale")
        self.set_problem(sm_scale=0.25, batch=[1, 2])
        self.assert_refused("batch")

    def test_unknown_values(self):
        self.set_problem(mask="checkerboard")
        self.assert_refused("mask", "checkerboard")
        self.set_problem(mask="none", dtype_q="f12")
        self.assert_refused("dtype_q", "f12")


class Numbers(Spoiled):
    def test_absurd_sizes(self):
        for name in ("batch", "heads", "seqlen_q", "seqlen_kv", "head_dim", "block_m", "block_n"):
            for size in (2**40, 2**62, 0, -1):
                small_dump.write(self.file)
                self.set_problem(**{name: size})
                with self.subTest(name=name, size=size):
                    self.assert_refused(name)

    def test_sizes_of_which_only_the_product_is_absurd(self):
        self.set_problem(batch=2**31 - 1, heads=2**31 - 2, heads_kv=1, seqlen_q=2**31 - 1, seqlen_kv=2**31 - 1)
        self.assert_refused()

    def test_scale(self):
        for scale in (-0.25, 0.0, float("nan"), float("inf")):
            self.set_problem(sm_scale=scale)
            with self.subTest(scale):
                self.assert_refused("sm_scale")

    def test_heads(self):
        self.set_problem(heads_kv=3)
        self.assert_refused("heads_kv")

    def test_dataset_that_declares_more_than_the_file_holds(self):
        huge = 2**28
        self.set_problem(seqlen_kv=huge)
        with self.edit() as f:
            del f["tiles"], f["outputs"]
            for name in ("k", "v"):
                del f[f"inputs/{name}"]
                f.create_dataset(f"inputs/{name}", (1, small_dump.HKV, huge, small_dump.D), np.float16)
            shape = (1, small_dump.H, small_dump.SQ, huge)
            f.create_dataset("tiles/s", shape, np.float32, chunks=small_dump.CHUNKS["s"])
        self.assertLess(self.file.stat().st_size, 2**20)
        self.assert_refused("/inputs/k")

    def test_needs_little_memory_for_any_of_this(self):
        # In a process of its own: the largest child of this one may be another test's.
        of_this = ["Numbers.test_absurd_sizes", "Numbers.test_dataset_that_declares_more_than_the_file_holds"]
        tests = subprocess.Popen([sys.executable, __file__, TILE_DIFF, *of_this], stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(tests.pid, 0)
        self.assertEqual(status, 0)
        self.assertLess(used.ru_maxrss / 1024, 500, "MiB")


class Elsewhere(Spoiled):
    """Storage outside the file, and code that reading would run."""

    def other_file(self):
        other = self.folder / "other.h5"
        shutil.copy(self.file, other)
        return str(other)

    def test_external_link(self):
        for name in ("tiles/s", "inputs/k", "tiles", "problem"):
            small_dump.write(self.file)
            other = self.other_file()
            with self.edit() as f:
                del f[name]
                f[name] = h5py.ExternalLink(other, f"/{name}")
            with self.subTest(name):
                self.assert_refused(f"/{name}", "link")

    def test_soft_link(self):
        with self.edit() as f:
            f.move("tiles/s", "elsewhere")
            f["tiles/s"] = h5py.SoftLink("/elsewhere")
        self.assert_refused("/tiles/s", "link")

    def test_external_storage(self):
        with h5py.File(self.file) as f:
            data = f["tiles/s"][:]
        (self.folder / "s.bin").write_bytes(data.tobytes())
        self.replace("tiles/s", shape=data.shape, dtype=data.dtype,
                     external=[(str(self.folder / "s.bin"), 0, data.nbytes)])
        self.assert_refused("/tiles/s", "external")

    def test_virtual_dataset(self):
        other = self.other_file()
        with self.edit() as f:
            source = h5py.VirtualSource(other, "tiles/s", f["tiles/s"].shape)
            layout = h5py.VirtualLayout(f["tiles/s"].shape, np.float32)
            layout[:] = source
            del f["tiles/s"]
            f.create_virtual_dataset("tiles/s", layout)
        self.assert_refused("/tiles/s", "virtual")

    def test_filter(self):
        with h5py.File(self.file) as f:
            data = f["tiles/s"][:]
        for how in ({"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {"fletcher32": True}):
            small_dump.write(self.file)
            self.replace("tiles/s", data=data, chunks=small_dump.CHUNKS["s"], **how)
            with self.subTest(how):
                self.assert_refused("/tiles/s", "filter")

    def test_filter_plugin(self):
        """A filter that nobody has: HDF5 would look for a library to load."""
        with self.edit() as f:
            shape = f["tiles/s"].shape
            del f["tiles/s"]
            created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            created.set_chunk(small_dump.CHUNKS["s"])
            created.set_filter(40000, h5py.h5z.FLAG_OPTIONAL)
            space = h5py.h5s.create_simple(shape)
            h5py.h5d.create(f["tiles"].id, b"s", h5py.h5t.IEEE_F32LE, space, created)
        self.assert_refused("/tiles/s", "filter")


class NothingToJudge(Spoiled):
    def capture(self, **attributes):
        with self.edit() as f:
            f.require_group("capture").attrs.update(attributes)

    def test_no_tile_captured(self):
        small_dump.write(self.file, only=[])
        self.assert_refused("no tile was captured")
        with self.edit() as f:
            f.create_dataset("tiles/s", (1, small_dump.H, small_dump.SQ, small_dump.SKV), np.float32,
                             chunks=small_dump.CHUNKS["s"])
        self.assert_refused("no tile was captured")

    def test_dropped_tiles(self):
        with self.edit() as f:
            f.create_group("capture/p")["dropped"] = np.array([[0, 1, 0, 2]], np.int64)
        self.assert_refused("dropped", "tiles of p")

    def test_dropped_elements(self):
        with self.edit() as f:
            f.create_group("capture/p").attrs["elements_dropped"] = 5
        self.assert_refused("dropped")

    def test_run_that_ended_with_an_error(self):
        self.capture(ended="an illegal memory access\nwas encountered")
        run = self.run_it(self.file)
        self.assert_one_line(run, self.file, "illegal memory access?was")
        # There is no verdict, but all that can be said without one.
        self.assertTrue(run.stdout.endswith("unjudged: " + run.stderr.removeprefix("tile-diff: ")), run.stdout)
        self.assertIn("\nreached: ", run.stdout)
        report = self.judge(self.file)
        self.assertEqual(report["verdict"], "unjudged")
        self.assertEqual(report["reason"], run.stderr.removeprefix("tile-diff: ").removesuffix("\n"))
        self.assertEqual(report["reached"]["finished"], len(report["reached"]["blocks"]))
        self.assertGreater(sum(stage["compared"] for stage in report["stages"]), 0)

    def test_selection_that_means_nothing(self):
        self.capture(selection="row=3")
        self.assert_refused("row")

    def test_semantics_that_the_oracle_lacks(self):
        self.set_problem(logits_soft_cap=30.0, alibi="linear")
        with self.edit() as f:
            f["inputs/alibi_slopes"] = np.full(4, 0.5, np.float32)
            f["tiles/s"].attrs["capped"] = False
        self.assert_refused("capped")


class Usage(Spoiled):
    def assert_usage(self, *arguments, word):
        run = self.run_it(*arguments)
        self.assert_one_line(run, word)
        self.assertEqual(run.stdout, "")

    def test_options(self):
        self.assert_usage(word="paths")
        self.assert_usage(self.file, "--tolerance", "3", word="--tolerance")
        self.assert_usage(self.file, self.file, word=f"--against {self.file} {self.file}")
        self.assert_usage(self.file, self.file, word=f"--each {self.file} {self.file}")
        self.assert_usage(self.file, "--json", word="--json")
        self.assert_usage(self.file, "--json", "", word="--json")
        for option in ("--atol", "--rtol"):
            for value in ("-1", "nan", "inf", "1e999", "much", ""):
                with self.subTest(option=option, value=value):
                    self.assert_usage(self.file, option, value, word=option)
        for option in ("--top", "--threads"):
            for value in ("-1", "99999999999999999999", "few", "1.5"):
                with self.subTest(option=option, value=value):
                    self.assert_usage(self.file, option, value, word=option)

    def test_other_recording_is_checked_as_well(self):
        missing = self.folder / "missing.h5"
        run = self.run_it("--against", missing, self.file)
        self.assert_one_line(run, missing)


if __name__ == "__main__":
    main()
