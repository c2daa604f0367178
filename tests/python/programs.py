"""Kernels that are no attention: their programs, and what computes the same in float32 with NumPy, another way round.

Each has `text`, `draw(random)` for its inputs, and `run(inputs, mistake)` for what a kernel stores. Mistakes are by name, with
the stage and the formula that has to be found, where there is one.

usage: programs.py FOLDER-OF-THE-PACKAGE [CALLS]: the table of oracle/PROGRAMS.md
"""

import sys

import numpy as np

from delta_programs import DeltaRuleBackward
from gemm_programs import E2M1, E4M3, F32, BlockScaledGemm, Gemm, GroupedGemm, MxGemm, NvFp4Gemm, encoded, half, normal


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


class LayerNormQuantised:
    """With a residual, and a row of e4m3 with its scale."""

    text = """
        axes   t: tokens; d: dim
        input  x[t, d]: f16; res[t, d]: f16; w[d]; bias[d]
        stage  h[t, d] = x + res
        stage  mean[t] = sum(d: h) / dim
        stage  r[t] = rsqrt(sum(d: (h - mean) * (h - mean)) / dim + 1.0e-5)
        stage  y[t, d] = (h - mean) * r * w + bias
        stage  s[t] = max(d: abs(y)) / 448.0
        stage  q[t, d]: e4m3 = max(min(y / s, 448.0), -448.0)
        output q, s, mean, r"""
    mistakes = {
        "variance_of_h": ("r", "rsqrt(sum(d: h * h) / dim + 1e-05)"),
        "bias_missing": ("s", None),
        "scale_of_240": ("s", "max(d: abs(y)) / 240.0"),
        "scale_inverted": ("q", "max(min(y * s, 448.0), -448.0)"),
    }

    def draw(self, random):
        return self.inputs(random, int(random.integers(1, 20)), int(random.integers(2, 300)))

    def mistaken(self, random):
        return self.inputs(random, 12, 96)

    def inputs(self, random, t, d):
        return {"x": half(normal(random, t, d, mean=1)), "res": half(normal(random, t, d)), "w": normal(random, d, mean=1),
                "bias": normal(random, d)}

    def run(self, x, mistake=None):
        h = x["x"].astype(F32) + x["res"].astype(F32)
        mean = h[:, ::-1].mean(axis=1, dtype=F32)
        centred = h if mistake == "variance_of_h" else h - mean[:, None]
        r = F32(1) / np.sqrt((centred * centred).sum(axis=1, dtype=F32) / F32(h.shape[1]) + F32(1e-5))
        y = (h - mean[:, None]) * r[:, None] * x["w"]
        if mistake != "bias_missing":
            y = y + x["bias"]
        s = np.abs(y).max(axis=1) / F32(240 if mistake == "scale_of_240" else 448)
        scaled = y * s[:, None] if mistake == "scale_inverted" else y / s[:, None]
        return {"mean": mean, "r": r, "s": s.astype(F32), "q": encoded(np.clip(scaled, -448, 448), E4M3)}


class QkNormRotary:
    """RMSNorm of each head, and the rotary embedding of what it leaves."""

    text = """
        axes   t: tokens; h: heads; d: dim
        input  x[t, h, d]: f16; w[d]: f16; cosine[t, d % (dim / 2)]; sine[t, d % (dim / 2)]
        stage  r[t, h] = rsqrt(sum(d: x * x) / dim + 1.0e-6)
        stage  n[t, h, d] = x * r * w
        stage  y[t, h, d]: f16 = n * cosine - n[t, h, d + dim / 2] * sine where d < dim / 2
                                 else n * cosine + n[t, h, d - dim / 2] * sine
        output y"""
    mistakes = {
        "heads_but_the_first": ("y", None),
        "weight_of_head": ("y", None),
        "norm_missing": ("y", None),
    }

    def draw(self, random):
        return self.inputs(random, int(random.integers(1, 9)), int(random.integers(1, 5)), 2 * int(random.integers(1, 40)))

    def mistaken(self, random):
        return self.inputs(random, 12, 4, 64)

    def inputs(self, random, t, h, d):
        angle = np.arange(t)[:, None] / 10000.0 ** (np.arange(d // 2) * 2 / d)
        return {"x": half(normal(random, t, h, d)), "w": half(normal(random, d, mean=1)), "cosine": np.cos(angle).astype(F32),
                "sine": np.sin(angle).astype(F32)}

    def run(self, x, mistake=None):
        value = x["x"].astype(F32)
        d = value.shape[2]
        r = F32(1) / np.sqrt((value * value).sum(axis=2, dtype=F32) / F32(d) + F32(1e-6))
        if mistake == "heads_but_the_first":
            r = np.repeat(r[:, :1], r.shape[1], axis=1)
        if mistake == "norm_missing":
            r = np.ones_like(r)
        w = x["w"].astype(F32)
        n = value * r[..., None] * (w[:1] if mistake == "weight_of_head" else w)
        cosine, sine = x["cosine"][:, None], x["sine"][:, None]
        low, high = n[..., : d // 2], n[..., d // 2 :]
        return {"y": half(np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1))}


class GatedDeltaRule:
    """Chunk by chunk: the triangular inverse row by row, what is new in v, and the state that is carried."""

    text = """
        axes   b: batch; c: chunks by 1; r: rows by 1; u: rows; w: rows; d: dim; e: dim
        input  q[b, c, r, d]; k[b, c, r, d]; v[b, c, r, e]; beta[b, c, r]; g[b, c, r]
        stage  a[b, c, r, u] = beta * sum(d: k * k[b, c, u, d]) * exp(g - g[b, c, u]) where u < r else 0.0
        stage  ks[b, c, u, d] over r = beta * exp(g) * k - sum(w: a[b, c, r, w] * ks[b, c, w, d]) where u == r else ks
        stage  vs[b, c, u, e] over r = beta * v - sum(w: a[b, c, r, w] * vs[b, c, w, e]) where u == r else vs
        stage  s[b, c, r, u] = sum(d: q * k[b, c, u, d]) * exp(g - g[b, c, u]) where u <= r else 0.0
        stage  new[b, c, u, e] = vs.last - sum(d: ks.last * h.before)
        stage  h[b, d, e] over c = h * exp(g[b, c, rows - 1]) + sum(u: k[b, c, u, d] * exp(g[b, c, rows - 1] - g[b, c, u]) * new)
        stage  o[b, c, r, e] = sum(d: q * exp(g) * h.before) + sum(u: s * new)
        output o, h"""
    mistakes = {
        "gate_missing_in_a": ("a", "beta * sum(d: k * k[b, c, u, d]) where u < r else 0.0"),
        "state_after_chunk": ("o", "sum(d: q * exp(g) * h.after) + sum(u: s * new)"),
        "state_not_decayed": ("h", "h + sum(u: k[b, c, u, d] * exp(g[b, c, rows - 1] - g[b, c, u]) * new)"),
        "beta_missing_in_ks": ("ks", None),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (3, 4, 13, 14)))

    def mistaken(self, random):
        return self.inputs(random, 2, 3, 8, 12)

    def inputs(self, random, b, c, r, d):
        k = normal(random, b, c, r, d)
        k /= np.sqrt((k * k).sum(axis=-1, keepdims=True))
        return {"q": normal(random, b, c, r, d, scale=d**-0.5), "k": k, "v": normal(random, b, c, r, d),
                "beta": (1 / (1 + np.exp(-normal(random, b, c, r)))).astype(F32),
                "g": np.cumsum(-np.abs(normal(random, b, c, r, scale=0.1)), axis=2, dtype=F32)}

    def run(self, x, mistake=None):
        q, k, v, beta, g = (x[name] for name in ("q", "k", "v", "beta", "g"))
        rows = k.shape[2]
        decay = np.exp(g[..., :, None] - g[..., None, :])
        products = np.einsum("bcrd,bcud->bcru", k, k, dtype=F32)
        a = beta[..., None] * products * (1 if mistake == "gate_missing_in_a" else decay) * np.tri(rows, k=-1, dtype=F32)
        scale = np.exp(g) * (1 if mistake == "beta_missing_in_ks" else beta)
        solved = {}
        for name, right in (("ks", scale[..., None] * k), ("vs", beta[..., None] * v)):
            value, states = np.zeros_like(right), []
            for r in range(rows):
                value = value.copy()
                value[:, :, r] = right[:, :, r] - np.einsum("bcw,bcwe->bce", a[:, :, r], value, dtype=F32)
                states.append(value)
            solved[name] = np.stack(states)
        s = np.einsum("bcrd,bcud->bcru", q, k, dtype=F32) * decay * np.tri(rows, dtype=F32)
        h = np.zeros((k.shape[0], k.shape[3], v.shape[3]), F32)
        news, states, outputs = [], [], []
        for c in range(k.shape[1]):
            new = solved["vs"][-1][:, c] - np.einsum("brd,bde->bre", solved["ks"][-1][:, c], h, dtype=F32)
            last = g[:, c, -1][:, None, None]
            kept = h if mistake == "state_not_decayed" else h * np.exp(last)
            after = kept + np.einsum("brd,bre->bde", k[:, c] * np.exp(last - g[:, c, :, None]), new, dtype=F32)
            carried = after if mistake == "state_after_chunk" else h
            outputs.append(np.einsum("brd,bde->bre", q[:, c] * np.exp(g[:, c])[..., None], carried, dtype=F32) +
                           np.einsum("bru,bue->bre", s[:, c], new, dtype=F32))
            h = after
            news.append(new)
            states.append(h)
        return {"a": a.astype(F32), "ks": solved["ks"], "vs": solved["vs"], "s": s.astype(F32), "new": np.stack(news, axis=1),
                "h": np.stack(states), "o": np.stack(outputs, axis=1)}


class Mamba2:
    """State space duality: chunks of a scan, with a step for each head and token, and what passes by."""

    text = """
        axes   b: batch; h: heads; i: tokens by 16; j: tokens by 16; n: state_dim; p: head_dim
        input  x[b, i, h, p]: f16; dt[b, i, h]; decay[h]; kept[b, i, n]: f16; read[b, i, n]: f16; skip[h]
        stage  g[b, j, h] = sum(i: dt * decay where i <= j and i / 16 == j / 16 else 0.0)
        stage  state[b, h, n, p] over i = state * exp(g[b, min(i + 15, tokens - 1), h])
                 + sum(i: kept * dt * exp(g[b, min(i / 16 * 16 + 15, tokens - 1), h] - g[b, i, h]) * x)
        stage  s[b, h, i, j] = sum(n: read * kept[b, j, n]) * exp(g[b, i, h] - g) * dt[b, j, h] where j <= i and j / 16 == i / 16 else 0.0
        stage  y[b, i, h, p]: f16 = sum(n: read * exp(g[b, i, h]) * state.before) + sum(j: s * x[b, j, h, p]) + skip * x
        output y, state"""
    mistakes = {
        "skip_missing": ("y", "sum(n: read * exp(g[b, i, h]) * state.before) + sum(j: s * x[b, j, h, p])"),
        "step_missing": ("s", "sum(n: read * kept[b, j, n]) * exp(g[b, i, h] - g) where j <= i and j / 16 == i / 16 else 0.0"),
        "state_after_chunk": ("y", "sum(n: read * exp(g[b, i, h]) * state.after) + sum(j: s * x[b, j, h, p]) + skip * x"),
        "decay_of_first_head": ("g", "sum(i: dt * decay[0] where i <= j and i / 16 == j / 16 else 0.0)"),
    }

    def draw(self, random):
        return self.inputs(random, *(int(random.integers(1, n)) for n in (3, 4, 60, 12, 12)))

    def mistaken(self, random):
        return self.inputs(random, 2, 3, 48, 8, 12)

    def inputs(self, random, b, h, t, n, p):
        return {"x": half(normal(random, b, t, h, p)), "dt": np.abs(normal(random, b, t, h, scale=0.2)),
                "decay": -np.abs(normal(random, h, mean=1)), "kept": half(normal(random, b, t, n)),
                "read": half(normal(random, b, t, n)), "skip": normal(random, h)}

    def run(self, given, mistake=None):
        x, kept, read = (given[name].astype(F32) for name in ("x", "kept", "read"))
        dt, decay = given["dt"], given["decay"]
        step = dt * (decay[:1] if mistake == "decay_of_first_head" else decay)
        b, t, heads, p = x.shape
        state = np.zeros((b, heads, kept.shape[2], p), F32)
        gates, states, scores, outputs = [], [], np.zeros((b, heads, t, t), F32), []
        for c in range(0, t, 16):
            part = slice(c, min(c + 16, t))
            g = np.cumsum(step[:, part], axis=1, dtype=F32)
            last = g[:, -1:]
            before = state
            weight = dt[:, part] * np.exp(last - g)
            state = state * np.exp(last[:, 0])[..., None, None] + np.einsum("bin,bih,bihp->bhnp", kept[:, part], weight, x[:, part], dtype=F32)
            s = np.einsum("bin,bjn->bij", read[:, part], kept[:, part], dtype=F32)[:, None] * np.exp(g[:, :, None] - g[:, None]).transpose(0, 3, 1, 2)
            if mistake != "step_missing":
                s = s * dt[:, part].transpose(0, 2, 1)[:, :, None]
            s = s * np.tri(s.shape[-1], dtype=F32)
            carried = state if mistake == "state_after_chunk" else before
            y = np.einsum("bin,bih,bhnp->bihp", read[:, part], np.exp(g), carried, dtype=F32) + \
                np.einsum("bhij,bjhp->bihp", s, x[:, part], dtype=F32)
            if mistake != "skip_missing":
                y = y + given["skip"][:, None] * x[:, part]
            gates.append(g)
            states.append(state)
            scores[:, :, part, part] = s
            outputs.append(y)
        return {"g": np.concatenate(gates, axis=1), "state": np.stack(states), "s": scores, "y": half(np.concatenate(outputs, axis=1))}


ALL = {kind.__name__: kind() for kind in (
    Gemm, BlockScaledGemm, MxGemm, NvFp4Gemm, GroupedGemm, RmsNorm, LayerNormQuantised, Rotary, QkNormRotary, LinearAttention, DeltaRule,
    DeltaRuleBackward, GatedDeltaRule, Mamba2, CrossEntropy, TwoPassSoftmax)}


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
