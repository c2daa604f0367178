#!/usr/bin/env python3
"""Times judging declared programs, each beside what this machine can do at most, measured in the same run: products of matrices
beside OpenBLAS's dgemm, operations on elements beside the rate at which two threads read memory.

Sides take turns, and the best round of each counts: by the clock, and by the processor time of both threads, which says on a busy
machine what an idle one would take. Needs NumPy with OpenBLAS and the built Python module.
usage: bench_programs.py [--package build/python] [--only NAME] [--rounds 3] [--size 4096]
"""

import argparse
import os
import sys
import threading
import time

THREADS = 2
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, str(THREADS))
# Threads that wait take no time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np  # noqa: E402

F32 = np.float32
SUM = """
    axes   n: rows by 128; m: cols by 128; k: depth
    input  a[n, k]: f16; w[m, k]: f16
    stage  y[n, m]: f16 = sum(k: a * w) in tensor_core_f32
    output y"""
CARRIED = """
    axes   n: rows by 128; m: cols by 128; k: depth by {block}
    input  a[n, k]: f16; w[m, k]: f16
    stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
    stage  y[n, m]: f16 = acc
    output y"""
ELEMENTS = """
    axes   i: rows; j: cols
    input  {inputs}
    stage  y[i, j] = {formula}
    output y"""


def gemm(size, random):
    return {"a": random.standard_normal((size, size), F32).astype(np.float16), "w": random.standard_normal((size, size), F32).astype(np.float16)}


def acc_of(inputs, block):
    """After each block of k, in float32."""
    a, w = (inputs[name].astype(F32) for name in ("a", "w"))
    acc = np.zeros((a.shape[0], w.shape[0]), F32)
    for first in range(0, a.shape[1], block):
        acc = acc + a[:, first : first + block] @ w[:, first : first + block].T
        yield acc


def dgemm(size, random):
    a, b = random.standard_normal((size, size)), random.standard_normal((size, size))
    return lambda: a @ b


def reading(size):
    """Two threads that read `size` bytes each, which no cache holds."""
    parts = [np.ones(size // 4, F32) for _ in range(THREADS)]

    def read():
        threads = [threading.Thread(target=np.dot, args=(part, part)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return read


def best_of(rounds, *sides):
    """Seconds of each side in its best round, by the clock and by the processor, shared by the threads."""
    best = np.full((len(sides), 2), np.inf)
    for _ in range(rounds):
        for i, side in enumerate(sides):
            begun = np.array([time.perf_counter(), time.process_time()])
            side()
            taken = np.array([time.perf_counter(), time.process_time()]) - begun
            best[i] = np.minimum(best[i], taken / [1, THREADS])
    return best


def judging(text, inputs, stored):
    import tilescope

    program = tilescope.Program(text)

    def judge():
        report = program.judge(inputs, stored, causes=False)
        assert report.first_wrong is None, report
        # Nor is anything fast by judging nothing.
        assert all(stage.compared > 0 and stage.not_judged <= 0.01 * stage.compared for stage in report.stages), report

    return judge


def bench_products(arguments, random):
    size = arguments.size
    inputs = gemm(size, random)
    limit = dgemm(size, random)
    *_, last = acc_of(inputs, size)
    y = last.astype(np.float16)
    recorded = np.stack(list(acc_of(inputs, size // 4)))
    of_recorded = recorded[-1].astype(np.float16)
    rows = [("sum", SUM, {"y": y}), ("acc, blocks of 64", CARRIED.format(block=64), {"y": y}),
            ("acc, 4 blocks", CARRIED.format(block=size // 4), {"y": y}),
            ("acc, 4 blocks, recorded", CARRIED.format(block=size // 4), {"y": of_recorded, "acc": recorded})]
    for name, text, stored in rows:
        judged, machine = best_of(arguments.rounds, judging(text, inputs, stored), limit)
        print(f"GEMM {size}^3, {name:<24} {judged[0]:7.3f} s, dgemm {machine[0]:7.3f} s: {judged[0] / machine[0]:5.2f} times, "
              f"{judged[1] / machine[1]:5.2f} by the processor", flush=True)


def bench_elements(arguments, random):
    rows, cols = 16384, 4096
    a, b = (random.standard_normal((rows, cols), F32) for _ in range(2))
    read_bytes = 1 << 28
    limit = reading(read_bytes)
    both = "a[i, j]; b[i, j]"
    for name, inputs, formula, y in (("add", both, "a + b", a + b), ("multiply", both, "a * b", a * b), ("exp", "a[i, j]", "exp(a)", np.exp(a))):
        given = {"a": a, "b": b} if "b[" in inputs else {"a": a}
        judged, machine = best_of(arguments.rounds, judging(ELEMENTS.format(inputs=inputs, formula=formula), given, {"y": y}), limit)
        of_clock, of_processor = y.size / judged / 1e6
        rate = 4 * y.size * (len(given) + 1) / judged[0]
        of_machine = THREADS * read_bytes / machine[0]
        print(f"{name:<8} {of_clock:7.0f} million elements/s, {of_processor:7.0f} by the processor; {rate / 1e9:6.2f} GB/s of "
              f"{of_machine / 1e9:6.2f} GB/s that are read: {rate / of_machine:5.2f}", flush=True)


def delta_rule_outputs(q, k, v, beta, g):
    """In float32, but for the triangular systems, which keep no state of each row."""
    rows = k.shape[2]
    decay = np.exp(g[..., :, None] - g[..., None, :])
    a = beta[..., None] * (k @ k.swapaxes(2, 3)) * decay * np.tri(rows, k=-1, dtype=F32)
    system = np.eye(rows) + a
    ks, vs = (np.linalg.solve(system, right).astype(F32) for right in ((beta * np.exp(g))[..., None] * k, beta[..., None] * v))
    s = (q @ k.swapaxes(2, 3)) * decay * np.tri(rows, dtype=F32)
    h = np.zeros((k.shape[0], k.shape[3], v.shape[3]), F32)
    states, outputs = [], []
    for c in range(k.shape[1]):
        new = vs[:, c] - ks[:, c] @ h
        last = g[:, c, -1:]
        outputs.append((q[:, c] * np.exp(g[:, c])[..., None]) @ h + s[:, c] @ new)
        h = h * np.exp(last)[..., None] + (k[:, c] * np.exp(last - g[:, c])[..., None]).swapaxes(1, 2) @ new
        states.append(h)
    return {"o": np.stack(outputs, axis=1), "h": np.stack(states)}


def bench_delta_rule(arguments, random):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    from programs import GatedDeltaRule

    kernel = GatedDeltaRule()
    # Heads stand where the text has its batch.
    inputs = kernel.inputs(random, 16, 64, 64, 128)
    stored = delta_rule_outputs(**inputs)
    (of_clock, of_processor), = best_of(arguments.rounds, judging(kernel.text, inputs, stored))
    print(f"gated delta rule, 16 heads, 4096 tokens, head_dim 128, chunks of 64: {of_clock:7.3f} s, {of_processor:7.3f} s by the processor", flush=True)


BENCHES = {"products": bench_products, "elements": bench_elements, "delta_rule": bench_delta_rule}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", default="build/python")
    parser.add_argument("--only", choices=BENCHES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=4096)
    arguments = parser.parse_args()
    sys.path.insert(0, arguments.package)
    for name, bench in BENCHES.items():
        if arguments.only in (None, name):
            bench(arguments, np.random.default_rng(1))


if __name__ == "__main__":
    main()
