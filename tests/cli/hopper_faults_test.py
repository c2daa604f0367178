#!/usr/bin/env python3
"""What tile-diff says of the faults of `fast` with wgmma, which run on sm_90 alone: recordings as they leave them.

usage: hopper_faults_test.py TILE_DIFF TILE_RUN

Two warpgroups own 64 rows each of a block of 128 queries. K and V lie in rings of two stages, in rows of 128 bytes whose
chunks of 16 bytes are swizzled: chunk c of row r lies at place c ^ r % 8.
"""

import json
import pathlib
import subprocess
import sys

import h5py
import numpy as np

from tile_diff_case import TileDiffCase, main

TILE_RUN = pathlib.Path(sys.argv.pop(1)).resolve()
LISTED = json.loads(subprocess.run([TILE_RUN, "list", "--json"], capture_output=True, check=True).stdout)["faults"]
HEADS, HEAD_DIM, BLOCK, CONSUMER_ROWS = 2, 64, 128, 64
SM_SCALE = np.float32(HEAD_DIM ** -0.5)
LANES = 4
CHUNK = 8
UNITS = {
    "k": {"cast": "f32"},
    "s": {"accumulation": "tensor_core_f32", "scaled": False},
    "m": {"scaled": False},
    "p": {"cast": "f16", "exp": "ex2_approx"},
    "acc": {"accumulation": "tensor_core_f32"},
    "o": {"dtype": "f16"},
}
UNWRITTEN = np.array(0x7FD17E5C, np.uint32).view(np.float32)


class Kernel:
    """The healthy kernel. Faults replace a method."""

    def __init__(self, seqlen_q, seqlen_kv):
        rng = np.random.default_rng(24)
        self.q, self.k, self.v = (rng.standard_normal((HEADS, rows, HEAD_DIM)).astype(np.float16)
                                  for rows in (seqlen_q, seqlen_kv, seqlen_kv))
        self.q_blocks, self.kv_tiles = seqlen_q // BLOCK, seqlen_kv // BLOCK

    def tile(self, array, head, tile):
        return array[head, tile * BLOCK:(tile + 1) * BLOCK].astype(np.float32)

    def k_multiplied(self, head, tile, consumer):
        """The tile of K that the scores of a consumer are computed from."""
        return self.tile(self.k, head, tile)

    def k_recorded(self, head, tile):
        return self.k_multiplied(head, tile, 0)

    def scores(self, q, k):
        return q @ k.T

    def is_computed(self, head, q_block):
        return True

    def stored(self, rows):
        """The rows of a block as they are stored, from those that were computed."""
        return rows

    def attend(self, head, q_block):
        """{stage: what a block records, KV tiles first where there are several}"""
        q = self.tile(self.q, head, q_block)
        m, l = np.full(BLOCK, -np.inf, np.float32), np.zeros((BLOCK, LANES), np.float32)
        acc = np.zeros((BLOCK, HEAD_DIM), np.float32)
        lane = np.arange(BLOCK) // 2 % LANES
        of_tiles = {stage: [] for stage in ("k", "v", "s", "m", "p", "l", "acc")}
        for tile in range(self.kv_tiles):
            s = np.concatenate([
                self.scores(q[first:first + CONSUMER_ROWS], self.k_multiplied(head, tile, first // CONSUMER_ROWS))
                for first in (0, CONSUMER_ROWS)])
            before, m = m, np.maximum(m, s.max(axis=1))
            rescale = np.exp(((before - m) * SM_SCALE).astype(np.float64)).astype(np.float32)
            p = np.exp(((s - m[:, None]) * SM_SCALE).astype(np.float64)).astype(np.float32)
            l = l * rescale[:, None] + np.stack([p[:, lane == i].sum(axis=1) for i in range(LANES)], axis=1)
            p = p.astype(np.float16).astype(np.float32)
            v = self.tile(self.v, head, tile)
            acc = acc * rescale[:, None] + p @ v
            for stage, value in zip(of_tiles, (self.k_recorded(head, tile), v, s, m, p, l, acc)):
                of_tiles[stage].append(value)
        total = l.sum(axis=1)
        o = (acc / total[:, None]).astype(np.float16)
        lse = (m * SM_SCALE + np.log(total)).astype(np.float32)
        return {"q": q, **of_tiles, "o": self.stored(o), "lse": self.stored(lse)}

    def write(self, path):
        """What tile-run writes: tiles that nobody wrote are not stored."""
        seqlen_q, seqlen_kv = self.q.shape[1], self.k.shape[1]
        with h5py.File(path, "w") as file:
            file.attrs.update(format="tilescope", format_version=1, producer="hopper_faults_test.py", kernel="fast")
            file.create_group("problem").attrs.update(
                batch=1, heads=HEADS, heads_kv=HEADS, seqlen_q=seqlen_q, seqlen_kv=seqlen_kv, head_dim=HEAD_DIM,
                block_m=BLOCK, block_n=BLOCK, sm_scale=SM_SCALE, dtype_p="f16", l_lanes=LANES, l_lane_columns=2)
            file.create_group("capture").attrs.update(ended="completed", selection="")
            for name in "qkv":
                file[f"inputs/{name}"] = getattr(self, name)[None]
            for stage, (shape, chunk) in self.shapes().items():
                name = f"{'outputs' if stage in ('o', 'lse') else 'tiles'}/{stage}"
                dataset = file.create_dataset(name, shape, np.float32, chunks=chunk, fillvalue=UNWRITTEN)
                dataset.attrs.update(UNITS.get(stage, {}))
            for head in range(HEADS):
                for q_block in range(self.q_blocks):
                    if self.is_computed(head, q_block):
                        self.write_block(file, head, q_block)
            file.attrs["complete"] = 1
        return path

    def shapes(self):
        """{stage: the shape of its dataset, and of a tile}"""
        rows, keys = (1, HEADS, self.q.shape[1]), (1, HEADS, self.q_blocks, self.k.shape[1])
        tiles = (1, HEADS, self.kv_tiles, self.q.shape[1])
        row, key, tile = (1, 1, BLOCK), (1, 1, 1, BLOCK), (1, 1, 1, BLOCK)
        return {"q": ((*rows, HEAD_DIM), (*row, HEAD_DIM)), "k": ((*keys, HEAD_DIM), (*key, HEAD_DIM)),
                "v": ((*keys, HEAD_DIM), (*key, HEAD_DIM)), "s": ((*rows, self.k.shape[1]), (*row, BLOCK)),
                "m": (tiles, tile), "p": ((*rows, self.k.shape[1]), (*row, BLOCK)),
                "l": ((*tiles, LANES), (*tile, LANES)), "acc": ((*tiles, HEAD_DIM), (*tile, HEAD_DIM)),
                "o": ((*rows, HEAD_DIM), (*row, HEAD_DIM)), "lse": (rows, row)}

    def write_block(self, file, head, q_block):
        rows = slice(q_block * BLOCK, (q_block + 1) * BLOCK)
        recorded = self.attend(head, q_block)
        file["tiles/q"][0, head, rows] = recorded["q"]
        for name in ("o", "lse"):
            file[f"outputs/{name}"][0, head, rows] = recorded[name]
        for tile in range(self.kv_tiles):
            keys = slice(tile * BLOCK, (tile + 1) * BLOCK)
            for stage in "kv":
                file[f"tiles/{stage}"][0, head, q_block, keys] = recorded[stage][tile]
            for stage in "sp":
                file[f"tiles/{stage}"][0, head, rows, keys] = recorded[stage][tile]
            for stage in ("m", "l", "acc"):
                file[f"tiles/{stage}"][0, head, tile, rows] = recorded[stage][tile]


class MapNotSwizzled(Kernel):
    def k_multiplied(self, head, tile, consumer):
        k = self.tile(self.k, head, tile).reshape(BLOCK, -1, CHUNK)
        row, chunk = np.indices(k.shape[:2])
        return k[row, chunk ^ row % 8].reshape(BLOCK, HEAD_DIM)


class DescriptorNotSwizzled(Kernel):
    """Without a swizzle, rows of 16 bytes follow each other in a core matrix of eight, and so do core matrices."""

    def k_multiplied(self, head, tile, consumer):
        k = self.tile(self.k, head, tile).reshape(BLOCK, -1, CHUNK)
        row, chunk = np.indices(k.shape[:2])
        place = row % 8 + chunk
        row_of_group, place = place // 8, place % 8
        return k[row // 8 * 8 + row_of_group, place ^ row_of_group].reshape(BLOCK, HEAD_DIM)

    def k_recorded(self, head, tile):
        return self.tile(self.k, head, tile)


class StageOfTileBefore(Kernel):
    def k_multiplied(self, head, tile, consumer):
        return self.tile(self.k, head, max(tile - 1, 0))


class ArrivalMissing(Kernel):
    """The second consumer is late in tile 1, of which the stage holds tile 3 then."""

    def k_multiplied(self, head, tile, consumer):
        return self.tile(self.k, head, 3 if consumer == 1 and tile == 1 else tile)

    def k_recorded(self, head, tile):
        of_second = np.arange(BLOCK) // 16 % 2 == 1
        return np.where(of_second[:, None], self.k_multiplied(head, tile, 1), self.k_multiplied(head, tile, 0))


class ProductsNotAwaited(Kernel):
    """Where there is a tile two further on, it is in the stage when products begin."""

    def k_multiplied(self, head, tile, consumer):
        return self.tile(self.k, head, tile + 2 if tile + 2 < self.kv_tiles else tile)


class ParityKept(Kernel):
    """Hooks come when the transfer has arrived."""

    def k_multiplied(self, head, tile, consumer):
        return self.tile(self.k, head, tile - 2 if tile in (2, 3) else tile)

    def k_recorded(self, head, tile):
        return self.tile(self.k, head, tile)


class BlockLeftOut(Kernel):
    def is_computed(self, head, q_block):
        return (head, q_block) != (HEADS - 1, 0)


class ConsumersSwapped(Kernel):
    def stored(self, rows):
        return np.roll(rows, CONSUMER_ROWS, axis=0)


class StoreNotFenced(Kernel):
    """o is what an operand left in the memory that it is staged in; `turns` chunks change places, others in every `rows` rows."""
    operand, turns, rows = "q", 8, 1

    def attend(self, head, q_block):
        recorded = super().attend(head, q_block)
        held = recorded["q"] if self.operand == "q" else recorded[self.operand][-1]
        chunks = held.reshape(BLOCK, -1, CHUNK)
        row, chunk = np.indices(chunks.shape[:2])
        return {**recorded, "o": chunks[row, chunk ^ row // self.rows % self.turns].reshape(BLOCK, HEAD_DIM).astype(np.float16)}


# Fault: what it leaves, seqlen_q and seqlen_kv, and causes that are right.
FAULTS = {
    "block_left_out": (BlockLeftOut, 256, 256, {"tile_skipped"}),
    "map_not_swizzled": (MapNotSwizzled, 256, 256, {"columns_permuted", "elements_moved"}),
    "stage_of_tile_before": (StageOfTileBefore, 256, 256, {"other_kv_tile"}),
    "arrival_missing": (ArrivalMissing, 256, 512, {"other_kv_tile"}),
    "products_not_awaited": (ProductsNotAwaited, 256, 512, {"other_kv_tile"}),
    "descriptor_not_swizzled": (DescriptorNotSwizzled, 256, 256, {"periodic_columns"}),
    "parity_kept": (ParityKept, 256, 512, {"scores_of_other_tile"}),
    "consumers_swapped": (ConsumersSwapped, 256, 256, {"output_stored_elsewhere"}),
    "store_not_fenced": (StoreNotFenced, 256, 256, {"operand_stored_as_o"}),
}


class HopperFaults(TileDiffCase):
    def test_the_healthy_kernel_matches(self):
        report = self.judge(Kernel(256, 512).write(self.file))
        self.assertEqual(report["verdict"], "match")
        self.assertTrue(all(stage["compared"] > 0 for stage in report["stages"]))

    def test_each_is_blamed_on_its_stage_and_named(self):
        listed = {fault["name"]: fault for fault in LISTED}
        for name, (kernel, seqlen_q, seqlen_kv, causes) in FAULTS.items():
            with self.subTest(name):
                self.assertIn(f"{seqlen_q},{seqlen_kv},{HEAD_DIM}", listed[name]["shown_by"])
                report = self.judge(kernel(seqlen_q, seqlen_kv).write(self.file))
                self.assertEqual(report["first_divergence"]["stage"], listed[name]["stage"])
                named = {cause["name"] for cause in report["causes"] if cause["rank"] == 1}
                self.assertTrue(named & causes if causes else not named, named)

    def test_an_operand_that_is_stored_as_o(self):
        for operand, turns, rows, swizzle in (("q", 1, 1, "none"), ("v", 1, 1, "none"), ("k", 4, 2, "64 bytes")):
            with self.subTest(operand=operand, swizzle=swizzle):
                kernel = StoreNotFenced(128, 256)
                kernel.operand, kernel.turns, kernel.rows = operand, turns, rows
                report = self.judge(kernel.write(self.file))
                first = report["causes"][0]
                self.assertEqual((first["name"], first["parameters"]), ("operand_stored_as_o", {"memory of": operand, "swizzle": swizzle}))


if __name__ == "__main__":
    main()
