"""Kernels that are no attention: their programs, and what computes the same in float32 with NumPy, another way round.

Each has `text`, `draw(random)` for its inputs, and `run(inputs, mistake)` for what a kernel stores. Mistakes are by name, with
the stage and the formula that has to be found, where there is one.

usage: programs.py FOLDER-OF-THE-PACKAGE [CALLS]: the table of oracle/PROGRAMS.md
"""

import math
import sys

import numpy as np

F32 = np.float32


def half(x):
    return np.asarray(x, F32).astype(np.float16)


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
        "columns_of_next_tile": ("acc", "acc + sum(k: a * w[m + 16, k])"),
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


class RmsNorm:
    """With a residual that is added before, and stored."""

    text = """
        axes   t: tokens; d: dim; e: dim
        input  x[t, d]: f16; res[t, d]: f16; w[d]: f16
        stage  h[t, d] = x + res
        stage  r[t] = rsqrt(sum(d: h * h) / dim + 1.0e-6)
        stage  y[t, d]: f16 = h * r * w
        output y, r"""
    mistakes = {
        "epsilon_missing": ("r", "rsqrt(sum(d: h * h) / dim)"),
        "sum_in_place_of_mean": ("r", "rsqrt(sum(d: h * h) + 1e-06)"),
        "weight_missing": ("y", "h * r"),
        "residual_missing": ("r", None),
    }

    def draw(self, random):
        t, d = int(random.integers(1, 20)), int(random.integers(1, 300))
        return {"x": half(normal(random, t, d)), "res": half(normal(random, t, d)), "w": half(normal(random, d, mean=1))}

    def mistaken(self, random):
        return {"x": half(normal(random, 12, 64, scale=1e-3)), "res": half(normal(random, 12, 64, scale=1e-3)),
                "w": half(normal(random, 64, mean=1))}

    def run(self, x, mistake=None):
        h = x["x"].astype(F32) + (0 if mistake == "residual_missing" else x["res"].astype(F32))
        total = np.sum(h[:, ::-1] * h[:, ::-1], axis=1, dtype=F32)
        mean = total if mistake == "sum_in_place_of_mean" else total / F32(h.shape[1])
        r = F32(1) / np.sqrt(mean + F32(0 if mistake == "epsilon_missing" else 1e-6))
        y = h * r[:, None]
        return {"r": r, "y": half(y if mistake == "weight_missing" else y * x["w"].astype(F32))}


class Rotary:
    """Rotary embedding of pairs that lie half a head apart."""

    text = """
        axes   t: tokens; h: heads; d: dim
        input  x[t, h, d]: f16; cosine[t, d % (dim / 2)]; sine[t, d % (dim / 2)]
        stage  y[t, h, d]: f16 = x * cosine - x[t, h, d + dim / 2] * sine where d < dim / 2
                                 else x * cosine + x[t, h, d - dim / 2] * sine
        output y"""
    mistakes = {
        "sign": ("y", "x * cosine - x[t, h, d + dim / 2] * -sine where d < dim / 2 else x * cosine + x[t, h, d - dim / 2] * -sine"),
        "position_of_next": ("y", "x * cosine[(t + 1) % tokens, d % (dim / 2)] - x[t, h, d + dim / 2] * sine where d < dim / 2 "
                                  "else x * cosine[(t + 1) % tokens, d % (dim / 2)] + x[t, h, d - dim / 2] * sine"),
    }

    def draw(self, random):
        t, h, d = int(random.integers(1, 9)), int(random.integers(1, 5)), 2 * int(random.integers(1, 40))
        angle = np.arange(t)[:, None] / 10000.0 ** (np.arange(d // 2) * 2 / d)
        return {"x": half(normal(random, t, h, d)), "cosine": np.cos(angle).astype(F32), "sine": np.sin(angle).astype(F32)}

    mistaken = draw

    def run(self, x, mistake=None):
        value = x["x"].astype(F32)
        half_dim = value.shape[2] // 2
        cosine, sine = x["cosine"][:, None], x["sine"][:, None]
        if mistake == "position_of_next":
            cosine = np.roll(cosine, -1, axis=0)
        low, high = value[..., :half_dim], value[..., half_dim:]
        sign = F32(-1 if mistake == "sign" else 1)
        return {"y": half(np.concatenate([low * cosine - sign * high * sine, high * cosine + sign * low * sine], axis=-1))}


class LinearAttention:
    """Chunked, with a gate that decays the state: h is carried from chunk to chunk."""

    text = """
        axes   b: batch; i: tokens by 16; j: tokens by 16; d: key_dim; e: value_dim
        input  q[b, i, d]: f16; k[b, i, d]: f16; v[b, i, e]: f16; g[b, i]
        stage  h[b, d, e] over i = h * exp(g[b, min(i + 15, tokens - 1)])
                 + sum(i: k * exp(g[b, min(i / 16 * 16 + 15, tokens - 1)] - g) * v)
        stage  s[b, i, j] = sum(d: q * k[b, j, d]) * exp(g - g[b, j]) where j <= i and j / 16 == i / 16 else 0.0
        stage  o[b, i, e]: f16 = sum(d: q * exp(g) * h.before) + sum(j: s * v[b, j, e])
        output o, h"""
    mistakes = {
        "state_not_decayed": ("h", "h + sum(i: k * exp(g[b, min(i / 16 * 16 + 15, tokens - 1)] - g) * v)"),
        "state_after_chunk": ("o", "sum(d: q * exp(g) * h.after) + sum(j: s * v[b, j, e])"),
        "diagonal_hidden": ("o", None),
        "not_carried": ("h", "sum(i: k * exp(g[b, min(i / 16 * 16 + 15, tokens - 1)] - g) * v)"),
    }

    def draw(self, random):
        b, t, d, e = int(random.integers(1, 4)), int(random.integers(1, 80)), int(random.integers(1, 24)), int(random.integers(1, 24))
        return self.inputs(random, b, t, d, e)

    def mistaken(self, random):
        return self.inputs(random, 2, 64, 16, 24)

    def inputs(self, random, b, t, d, e):
        step = -np.abs(normal(random, b, t, scale=0.1))
        chunks = [np.cumsum(step[:, c : c + 16], axis=1, dtype=F32) for c in range(0, t, 16)]
        return {"q": half(normal(random, b, t, d)), "k": half(normal(random, b, t, d)), "v": half(normal(random, b, t, e)),
                "g": np.concatenate(chunks, axis=1).astype(F32)}

    def run(self, x, mistake=None):
        q, k, v, g = (x[name].astype(F32) for name in "qkvg")
        b, t, d = q.shape
        h = np.zeros((b, d, v.shape[2]), F32)
        states, outputs = [], []
        for c in range(0, t, 16):
            part = slice(c, min(c + 16, t))
            gate = g[:, part]
            last = gate[:, -1:]
            scores = np.einsum("bid,bjd->bij", q[:, part], k[:, part], dtype=F32) * np.exp(gate[:, :, None] - gate[:, None])
            seen = np.tri(scores.shape[1], k=-1 if mistake == "diagonal_hidden" else 0, dtype=F32)
            decayed = k[:, part] * np.exp(last - gate)[..., None]
            before = h
            kept = h * (F32(1) if mistake == "state_not_decayed" else np.exp(last)[..., None])
            if mistake == "not_carried":
                kept = F32(0)
            h = kept + np.einsum("bid,bie->bde", decayed, v[:, part], dtype=F32)
            carried = h if mistake == "state_after_chunk" else before
            o = np.einsum("bid,bde->bie", q[:, part] * np.exp(gate)[..., None], carried, dtype=F32)
            outputs.append(o + np.einsum("bij,bje->bie", scores * seen, v[:, part], dtype=F32))
            states.append(h)
        return {"h": np.stack(states), "o": half(np.concatenate(outputs, axis=1))}


class DeltaRule:
    """The delta rule within chunks: what a triangular inverse gives, row after row."""

    text = """
        axes   b: batch; c: chunks; r: rows by 1; u: rows; w: rows; d: dim; e: dim
        input  k[b, c, r, d]; v[b, c, r, e]; beta[b, c, r]
        stage  a[b, c, r, u] = beta * sum(d: k * k[b, c, u, d]) where u < r else 0.0
        stage  x[b, c, u, e] over r = beta * v - sum(w: a[b, c, r, w] * x[b, c, w, e]) where u == r else x
        output x, a"""
    mistakes = {
        "beta_missing": ("a", "sum(d: k * k[b, c, u, d]) where u < r else 0.0"),
        "diagonal_included": ("a", "beta * sum(d: k * k[b, c, u, d]) where u <= r else 0.0"),
        "sign": ("x", "beta * v + sum(w: a[b, c, r, w] * x[b, c, w, e]) where u == r else x"),
    }

    def draw(self, random):
        b, c, r, d = (int(random.integers(1, n)) for n in (3, 4, 17, 20))
        return self.inputs(random, b, c, r, d)

    def mistaken(self, random):
        return self.inputs(random, 2, 2, 16, 12)

    def inputs(self, random, b, c, r, d):
        return {"k": normal(random, b, c, r, d, scale=d**-0.5), "v": normal(random, b, c, r, d),
                "beta": np.abs(normal(random, b, c, r, scale=0.5))}

    def run(self, x, mistake=None):
        k, v, beta = x["k"], x["v"], x["beta"]
        rows = k.shape[2]
        scale = F32(1) if mistake == "beta_missing" else beta[..., None]
        lower = np.tri(rows, k=0 if mistake == "diagonal_included" else -1, dtype=F32)
        a = scale * np.einsum("bcrd,bcud->bcru", k, k, dtype=F32) * lower
        solved = np.zeros_like(v)
        states = []
        for r in range(rows):
            rest = np.einsum("bcw,bcwe->bce", a[:, :, r], solved, dtype=F32)
            solved = solved.copy()
            solved[:, :, r] = beta[:, :, r, None] * v[:, :, r] + (rest if mistake == "sign" else -rest)
            states.append(solved)
        return {"a": a, "x": np.stack(states)}


class CrossEntropy:
    """Loss of a row of logits, block by block; the target is given as a row of zeros with a one."""

    text = """
        axes   t: tokens; c: classes by 32
        input  x[t, c]: f16; target[t, c]
        stage  m[t] over c = max(m, max(c: x)) from -inf
        stage  l[t] over c = l * (exp(m.before - m) where m.before > -inf else 0.0) + sum(c: exp(x - m))
        stage  loss[t] = m + log(l) - sum(c: x * target)
        output loss"""
    mistakes = {
        "not_rescaled": ("l", "l + sum(c: exp(x - m))"),
        "max_missing": ("loss", "log(l) - sum(c: x * target)"),
        "tail_left_out": ("l", None),
    }

    def draw(self, random):
        return self.inputs(random, int(random.integers(1, 20)), int(random.integers(1, 200)))

    def mistaken(self, random):
        return self.inputs(random, 16, 100)

    def inputs(self, random, t, c):
        target = np.zeros((t, c), F32)
        target[np.arange(t), random.integers(0, c, t)] = 1
        return {"x": half(normal(random, t, c, scale=3)), "target": target}

    def run(self, x, mistake=None):
        logits = x["x"].astype(F32)
        t, c = logits.shape
        m, l = np.full(t, -np.inf, F32), np.zeros(t, F32)
        ms, ls = [], []
        for first in range(0, c, 32):
            part = logits[:, first : first + 32]
            new = np.maximum(m, part.max(axis=1))
            factor = F32(1) if mistake == "not_rescaled" else np.exp(m - new)
            counted = part[:, :-1] if mistake == "tail_left_out" and first + 32 >= c else part
            l = (l * factor + np.exp(counted - new[:, None]).sum(axis=1, dtype=F32)).astype(F32)
            m = new
            ms.append(m)
            ls.append(l)
        loss = (0 if mistake == "max_missing" else m) + np.log(l) - (logits * x["target"]).sum(axis=1, dtype=F32)
        return {"m": np.stack(ms), "l": np.stack(ls), "loss": loss.astype(F32)}


class TwoPassSoftmax:
    """The probabilities behind the loop that makes maximum and sum: they take the last state."""

    text = """
        axes   t: tokens; c: classes by 32
        input  x[t, c]: f16
        stage  m[t] over c = max(m, max(c: x)) from -inf
        stage  l[t] over c = l * (exp(m.before - m) where m.before > -inf else 0.0) + sum(c: exp(x - m))
        stage  p[t, c] = exp(x - m) / l
        output p"""
    mistakes = {
        "running_state": ("p", "exp(x - m.after) / l"),
        "sum_missing": ("p", "exp(x - m)"),
    }

    def draw(self, random):
        return {"x": half(normal(random, int(random.integers(1, 20)), int(random.integers(1, 200)), scale=3))}

    def mistaken(self, random):
        return {"x": half(normal(random, 16, 100, scale=3))}

    def run(self, x, mistake=None):
        out = CrossEntropy().run({"x": x["x"], "target": np.zeros(x["x"].shape, F32)})
        m, l = out["m"], out["l"]
        logits = x["x"].astype(F32)
        last = m[-1][:, None]
        if mistake == "running_state":
            last = m[np.arange(logits.shape[1]) // 32].T
        p = np.exp(logits - last)
        return {"m": m, "l": l, "p": p if mistake == "sum_missing" else (p / l[-1][:, None]).astype(F32)}


ALL = {kind.__name__: kind() for kind in (Gemm, RmsNorm, Rotary, LinearAttention, DeltaRule, CrossEntropy, TwoPassSoftmax)}


def measure(calls):
    """For each program: healthy calls with an element outside, how wide its budgets are, and what is found of mistakes."""
    import tilescope

    print("| program | lines | healthy calls | outside | budget / largest error, median | mistakes | stage | formula |")
    print("|---|---|---|---|---|---|---|---|")
    for name, kernel in ALL.items():
        program = tilescope.Program(kernel.text)
        outside, widths = 0, {}
        for seed in range(calls):
            inputs = kernel.draw(np.random.default_rng(seed))
            for stage in program.judge(inputs, kernel.run(inputs), causes=False).stages:
                outside += stage.outside > 0
                widths.setdefault(stage.name, []).append(1 / stage.budget_used if stage.budget_used else np.inf)
        right = described = 0
        for mistake, (stage, _) in kernel.mistakes.items():
            inputs = kernel.mistaken(np.random.default_rng(5))
            report = program.judge(inputs, kernel.run(inputs, mistake))
            right += report.first_wrong == stage
            described += bool(report.mistakes)
        medians = ", ".join(f"{stage} {np.median(of):.2g}" for stage, of in widths.items() if np.isfinite(np.median(of)))
        lines = len(kernel.text.strip().splitlines())
        print(f"| {name} | {lines} | {calls} | {outside} | {medians} | {len(kernel.mistakes)} | {right} | {described} |")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    measure(int(sys.argv[2]) if len(sys.argv) > 2 else 200)
