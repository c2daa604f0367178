#!/usr/bin/env python3
"""Tests strip_hooks.py."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import strip_hooks

KERNEL = """\
#include "dump/hook.h"
#include <mma.h>

TILESCOPE_SINK_SYMBOL(symbol);
TILESCOPE_NAMED_TILE(rescale, 0);
__device__ void inner(float* s TILESCOPE_BLOCK_PARAM) {
    TILESCOPE_FRAGMENT(s, kv_tile, s, [=](int i) { return i % 2 == 0 ? Columns{row, lane, 2}(i) : nowhere(); });
    TILESCOPE_ROWS(s, 0, 1, 2, s, 5, lane, 32);
    TILESCOPE_REPLICATED(m, kv_tile, row, 0, m);
}
__global__ void attention(const half* q, half* o TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, blockIdx.z, blockIdx.y, blockIdx.x);
    if (lane == 0) {
        TILESCOPE_VALUE(m, kv_tile, row, 0, max(a, max(b, c)));
    }
    TILESCOPE_TILE(k, kv_tile, k_shared, ld,
                   threadIdx.x, blockDim.x);
    helper(q, o TILESCOPE_SINK_ARG(sink));
    inner(s TILESCOPE_BLOCK_ARG);
}
template <bool record>
__global__ void twice(half* o TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK_CALL(record, sink, batch(0, 1), head, q_block, work<half, 2>(o, max(a, b) TILESCOPE_BLOCK_ARG));
}
__device__ void work(half* o, int n TILESCOPE_CALL_PARAM);
auto* const kernel = TILESCOPE_RECORDS(sink) ? twice<true> : twice<false>;
Launch launch(int x TILESCOPE_HOST_SINK_PARAM(sink));
"""

PLAIN = """\
#include <mma.h>

__device__ void inner(float* s) {
}
__global__ void attention(const half* q, half* o) {
    if (lane == 0) {
    }
    helper(q, o);
    inner(s);
}
template <bool record>
__global__ void twice(half* o) {
    work<half, 2>(o, max(a, b));
}
__device__ void work(half* o, int n);
auto* const kernel = false ? twice<true> : twice<false>;
Launch launch(int x);
"""


class StripHooks(unittest.TestCase):
    def test_removes_every_kind_of_hook(self):
        self.assertEqual(strip_hooks.strip(KERNEL), (PLAIN, 19))

    def test_leaves_a_kernel_without_hooks_alone(self):
        self.assertEqual(strip_hooks.strip(PLAIN), (PLAIN, 0))

    def test_refuses_unbalanced_parentheses(self):
        with self.assertRaises(ValueError):
            strip_hooks.strip("TILESCOPE_VALUE(m, 0, (0, 0;")

    def test_fails_when_there_is_nothing_to_remove(self):
        with tempfile.TemporaryDirectory() as scratch:
            source, stripped = pathlib.Path(scratch, "a.cu"), pathlib.Path(scratch, "b.cu")
            run = [sys.executable, strip_hooks.__file__, str(source), str(stripped)]
            source.write_text(PLAIN)
            self.assertEqual(subprocess.run(run, stderr=subprocess.DEVNULL).returncode, 1)
            self.assertFalse(stripped.exists())
            source.write_text(KERNEL)
            self.assertEqual(subprocess.run(run).returncode, 0)
            self.assertEqual(stripped.read_text(), PLAIN)


if __name__ == "__main__":
    unittest.main()
