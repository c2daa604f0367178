"""Attention in float64 with NumPy, from its definition and not from anything here: what the tests hold check() to."""

import math

import numpy as np


def visible(rows, keys, causal=None, window=None):
    """Which keys a row sees: `causal` is the key of row 0's diagonal, None where there is no mask."""
    distance = np.arange(keys)[None, :] - np.arange(rows)[:, None] - (causal or 0)
    seen = np.ones((rows, keys), bool) if causal is None else distance <= 0
    if window is not None:
        left, right = window
        seen &= (left < 0) | (distance >= -left)
        seen &= (right < 0) | (distance <= right)
    return seen


def attention(q, k, v, *, seen=None, scale=None, soft_cap=0.0, bias=None, sink=None):
    """o, lse, p and scores of [batch, heads, seqlen, head_dim]; k and v may have fewer heads."""
    q, k, v = (np.asarray(array, np.float64) for array in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if soft_cap:
        scores = soft_cap * np.tanh(scores / soft_cap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    if sink is not None:
        largest = np.maximum(largest, np.reshape(sink, (1, -1, 1, 1)))
    p = np.exp(scores - largest)
    total = p.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(np.reshape(sink, (1, -1, 1, 1)) - largest)
    return p / total @ v, (largest + np.log(total))[..., 0], p / total


def gradients(q, k, v, dout, *, seen=None):
    """dq, dk, dv of attention with as many heads of k and v as of q."""
    o, _, p = attention(q, k, v, seen=seen)
    q, k, v, dout = (np.asarray(array, np.float64) for array in (q, k, v, dout))
    scale = 1 / math.sqrt(q.shape[-1])
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (dout * o).sum(-1, keepdims=True))
    return ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, p.swapaxes(-1, -2) @ dout
