"""GEMMs and their programs, and numbers of the types that they take; programs.py has the others and says what each of them has."""

import math

import numpy as np

F32 = np.float32


def half(x):
    return np.asarray(x, F32).astype(np.float16)


def bf16(x):
    """Rounded to bfloat16, as float32."""
    bits = np.asarray(x, F32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(F32)


def normal(random, *shape, scale=1.0, mean=0.0):
    return (random.standard_normal(shape) * scale + mean).astype(F32)


class Gemm:
    """With bias, activation and residual, tile by tile in depth."""

    text = """
        axes   n: rows by 16; m: cols by 16; k: depth by 32
        input  a[n, k]: f16; w[m, k]: f16; bias[m]; res[n, m]: f16
        stage  acc[n, m] over k = acc + sum(k: a * w)
        stage  y[n, m]: f16 = gelu(acc + bias) + res
        output y"""
    mistakes = {
        "residual_missing": ("y", "gelu(acc + bias)"),
        "bias_after_activation": ("y", None),
        "block_skipped": ("acc", "acc + sum(k: a * w where k >= 32 else 0.0)"),
        "columns_of_next_tile": ("acc", "acc + sum(k: a * w[m + 16 where m + 16 < cols else m, k])"),
    }

    def draw(self, random):
        n, m, k = (int(random.integers(1, 70)) for _ in range(3))
        return self.inputs(random, n, m, k)

    def inputs(self, random, n, m, k):
        return {"a": half(normal(random, n, k)), "w": half(normal(random, m, k)), "bias": normal(random, m),
                "res": half(normal(random, n, m))}

    def mistaken(self, random):
        return self.inputs(random, 40, 48, 100)

    def run(self, x, mistake=None):
        a, w = x["a"].astype(F32), x["w"].astype(F32)
        acc = np.zeros((a.shape[0], w.shape[0]), F32)
        states = []
        for k in range(0, a.shape[1], 32):
            part = np.matmul(a[:, k : k + 32], w[:, k : k + 32].T)
            if mistake == "columns_of_next_tile":
                part = np.where(np.arange(w.shape[0]) + 16 < w.shape[0], np.roll(part, -16, axis=1), part)
            if not (mistake == "block_skipped" and k == 0):
                acc = acc + part
            states.append(acc)
        h = acc if mistake == "bias_after_activation" else acc + x["bias"]
        y = (F32(0.5) * h * (1 + np.vectorize(math.erf)(h.astype(float) / math.sqrt(2)).astype(F32))).astype(F32)
        if mistake == "bias_after_activation":
            y = y + x["bias"]
        if mistake != "residual_missing":
            y = y + x["res"].astype(F32)
        return {"acc": np.stack(states), "y": half(y)}


def encoded(x, grid):
    """The nearest numbers of a grid, which has them from 0 on, with the sign."""
    nearest = np.abs(np.abs(x)[..., None] - grid).argmin(axis=-1)
    return (np.sign(x) * grid[nearest]).astype(F32)


#: From the bits, after the OCP specifications: all numbers from 0 on.
E4M3 = np.array([(c % 8 / 8 if c < 8 else 1 + c % 8 / 8) * 2.0 ** (max(c // 8, 1) - 7) for c in range(127)], F32)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)


def quantised(x, grid, block):
    """(numbers of the grid, a scale for each block of the last axis)."""
    pad = -x.shape[-1] % block
    blocks = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)]).reshape(*x.shape[:-1], -1, block)
    scale = (np.maximum(np.abs(blocks).max(axis=-1), 1e-6) / grid[-1]).astype(F32)
    codes = encoded(blocks / scale[..., None], grid).reshape(*x.shape[:-1], -1)[..., : x.shape[-1]]
    return codes, scale


class BlockScaledGemm:
    """e4m3 with a scale for 1 x 32 of a and for 16 x 32 of w, applied to the sum of each block of k."""

    text = """
        axes   n: rows by 16; m: cols by 16; k: depth by 32
        input  a[n, k]: e4m3; w[m, k]: e4m3; sa[n, k / 32]; sw[m / 16, k / 32]
        stage  acc[n, m] over k = acc + sum(k: a * w) * sa * sw
        stage  y[n, m]: bf16 = acc
        output y"""
    mistakes = {
        "scale_of_first_block": ("acc", "acc + sum(k: a * w) * sa[n, 0] * sw"),
        "scale_missing": ("acc", "acc + sum(k: a * w) * sa"),
        "scale_of_other_block": ("acc", "acc + sum(k: a * w) * sa * sw[0, k / 32]"),
        "not_carried": ("acc", "sum(k: a * w) * sa * sw"),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (50, 50, 130)))

    def mistaken(self, random):
        return self.inputs(random, 40, 48, 128)

    def inputs(self, random, n, m, k):
        a, sa = quantised(normal(random, n, k), E4M3, 32)
        w, _ = quantised(normal(random, m, k), E4M3, 32)
        sw = np.abs(normal(random, -(-m // 16), -(-k // 32), mean=1)).astype(F32)
        return {"a": a, "w": w, "sa": sa, "sw": sw}

    def run(self, x, mistake=None):
        a, w, sa, sw = (x[name] for name in ("a", "w", "sa", "sw"))
        acc, states = np.zeros((a.shape[0], w.shape[0]), F32), []
        for t, k in enumerate(range(0, a.shape[1], 32)):
            rows = sa[:, 0 if mistake == "scale_of_first_block" else t]
            cols = np.repeat(sw[:, t], 16)[: w.shape[0]]
            if mistake == "scale_of_other_block":
                cols = np.full_like(cols, sw[0, t])
            if mistake == "scale_missing":
                cols = np.ones_like(cols)
            part = (a[:, k : k + 32] @ w[:, k : k + 32].T) * (rows[:, None] * cols)
            acc = part if mistake == "not_carried" else acc + part
            states.append(acc)
        return {"acc": np.stack(states), "y": bf16(states[-1])}


class MxGemm:
    """mxfp8: e4m3 with a power of two for each 32 along k, which the tensor core applies to both operands."""

    text = """
        axes   n: rows by 16; m: cols by 16; k: depth by 64
        input  a[n, k]: e4m3; w[m, k]: e4m3; sa[n, k / 32]: ue8m0; sw[m, k / 32]: ue8m0
        stage  acc[n, m] over k = acc + sum(k: a * sa * (w * sw)) in tensor_core_f32
        output acc"""
    scales, grid, block = "ue8m0", E4M3, 32
    mistakes = {
        "scales_exchanged": ("acc", "acc + sum(k: a * sw[n, k / 32] * (w * sw)) in tensor_core_f32"),
        "scale_of_64": ("acc", "acc + sum(k: a * sa[n, k / 32 / 2 * 2] * (w * sw)) in tensor_core_f32"),
        "scale_missing": ("acc", "acc + sum(k: a * sa * w) in tensor_core_f32"),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (40, 40, 150)))

    def mistaken(self, random):
        return self.inputs(random, 48, 48, 128)

    def inputs(self, random, n, m, k):
        a, sa = quantised(normal(random, n, k), self.grid, self.block)
        w, sw = quantised(normal(random, m, k), self.grid, self.block)
        return {"a": a, "w": w, "sa": self.rounded(sa * np.exp2(random.integers(-3, 3, sa.shape))),
                "sw": self.rounded(sw * np.exp2(random.integers(-3, 3, sw.shape)))}

    def rounded(self, scale):
        return np.exp2(np.ceil(np.log2(scale))).astype(F32)

    def run(self, x, mistake=None):
        sa = x["sw"][: len(x["sa"])] if mistake == "scales_exchanged" else x["sa"]
        columns = np.arange(x["a"].shape[1])
        of_a = columns // (2 * self.block) * 2 if mistake == "scale_of_64" else columns // self.block
        a = x["a"].astype(np.float64) * sa[:, of_a]
        w = x["w"].astype(np.float64) * (1 if mistake == "scale_missing" else x["sw"][:, columns // self.block])
        acc, states = np.zeros((len(a), len(w)), F32), []
        for k in range(0, len(columns), 64):
            acc = acc + (a[:, k : k + 64] @ w[:, k : k + 64].T).astype(F32)
            states.append(acc)
        return {"acc": np.stack(states)}


class NvFp4Gemm(MxGemm):
    """nvfp4: e2m1 with a scale in e4m3 for each 16 along k, and one for all in float32."""

    text = """
        axes   n: rows by 16; m: cols by 16; k: depth by 64
        input  a[n, k]: e2m1; w[m, k]: e2m1; sa[n, k / 16]: e4m3; sw[m, k / 16]: e4m3; alpha
        stage  acc[n, m] over k = acc + sum(k: a * sa * (w * sw)) in tensor_core_f32
        stage  y[n, m]: bf16 = acc * alpha
        output y, acc"""
    grid, block = E2M1, 16
    mistakes = {
        "scale_missing": ("acc", "acc + sum(k: a * sa * w) in tensor_core_f32"),
        "scale_of_64": ("acc", "acc + sum(k: a * sa[n, k / 16 / 2 * 2] * (w * sw)) in tensor_core_f32"),
        "alpha_missing": ("y", "acc"),
    }

    def inputs(self, random, n, m, k):
        return {**super().inputs(random, n, m, k), "alpha": F32(0.37)}

    def rounded(self, scale):
        return encoded(scale, E4M3)

    def run(self, x, mistake=None):
        stages = super().run(x, mistake)
        return {**stages, "y": bf16(stages["acc"][-1] * (1 if mistake == "alpha_missing" else x["alpha"]))}


class GroupedGemm:
    """Rows of several experts, one behind the other; rows of padding have none, and are zeros."""

    text = """
        axes   n: rows by 16; m: cols by 16; g: experts; k: depth
        input  a[n, k]: f16; w[g, m, k]: f16; expert[n]
        stage  y[n, m]: f16 = sum(g, k: a * w where expert == 1.0 * g else 0.0)
        output y"""
    mistakes = {
        "expert_of_first_row": ("y", "sum(g, k: a * w where expert[n / 16 * 16] == 1.0 * g else 0.0)"),
        "next_expert": ("y", "sum(g, k: a * w[(g + 1) % experts, m, k] where expert == 1.0 * g else 0.0)"),
        "tail_of_k_left_out": ("y", "sum(g, k: (a * w where expert == 1.0 * g else 0.0) where k < depth - 1 else 0.0)"),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (60, 30, 4, 60)))

    def mistaken(self, random):
        return self.inputs(random, 64, 32, 3, 40)

    def inputs(self, random, n, m, g, k):
        ends = np.sort(random.integers(0, n + 1, g))
        expert = np.searchsorted(ends, np.arange(n), side="right").astype(F32)
        expert[expert == g] = -1
        return {"a": half(normal(random, n, k)), "w": half(normal(random, g, m, k)), "expert": expert}

    def run(self, x, mistake=None):
        a, w = x["a"].astype(F32), x["w"].astype(F32)
        rows = np.arange(len(a))
        expert = x["expert"][rows // 16 * 16 if mistake == "expert_of_first_row" else rows].astype(int)
        if mistake == "next_expert":
            w = np.roll(w, -1, axis=0)
        depth = a.shape[1] - (mistake == "tail_of_k_left_out")
        y = np.zeros((len(a), w.shape[1]), F32)
        for g in range(len(w)):
            y[expert == g] = a[expert == g, :depth] @ w[g, :, :depth].T
        return {"y": half(y)}
