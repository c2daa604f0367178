"""Healthy kernels in NumPy whose arithmetic has to be declared, forward and backward, and mistakes on top of them.

Each is written from what such kernels do (Triton's tutorial, KV caches of fp8 with a scale a token or a channel,
heads as `k.repeat(1, group, 1, 1)` lays them out), not from what tile-diff takes them to do.
"""

import dataclasses

import h5py
import numpy as np

B, H, HKV, SQ, SKV, D, BLOCK = 1, 4, 2, 24, 48, 16, 16
SCALE = np.float32(0.3)
LOG2E = np.float32(1.4426950408889634)
TILES = [slice(t, t + BLOCK) for t in range(0, SKV, BLOCK)]


@dataclasses.dataclass
class Kernel:
    """What it does, and what it does wrong. `fault` names a line below."""

    q_scale: float = 1
    k_scale: float = 1
    cast: str = "f16"  #: of q and k after their scale
    interleaved: bool = False
    v_scale: str = ""  #: "token in P", "channel in acc", "channel in o"
    dtype_p: str = "f16"
    records_scaled_p: bool = False
    fault: str = ""
    small: float = 1  #: of q, k and v


def rounded(x, dtype):
    x = np.asarray(x, np.float32)
    if dtype == "f32":
        return x
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def e4m3_codes(rng, shape):
    """Codes of finite numbers, and what they stand for."""
    codes = rng.integers(0, 0x78, shape).astype(np.uint8) | (rng.integers(0, 2, shape) << 7).astype(np.uint8)
    exponent, mantissa = (codes >> 3 & 15).astype(int), (codes & 7) / 8
    size = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent - 7))
    return codes, np.where(codes & 128, -size, size).astype(np.float32)


def of_query_heads(kernel, tensor):
    """Of KV heads, as query heads read them."""
    group = H // HKV
    heads = [h % HKV if kernel.interleaved else h // group for h in range(H)]
    return tensor[:, heads]


def added_to_kv_heads(kernel, tensor):
    shape = (B, H // HKV, HKV) if kernel.interleaved else (B, HKV, H // HKV)
    return tensor.reshape(*shape, *tensor.shape[2:]).sum(axis=1 if kernel.interleaved else 2)


def scores(kernel, q, k):
    """To the base 2, as exp2 takes them: what is left of sm_scale log2(e) is multiplied after the product."""
    scaled = ((q, kernel.q_scale), (k, kernel.k_scale))
    q, k = (rounded(x * np.float32(scale), kernel.cast) if scale != 1 else x for x, scale in scaled)
    left = SCALE * LOG2E / (np.float32(kernel.q_scale) * np.float32(kernel.k_scale))
    s = q @ of_query_heads(kernel, k).swapaxes(2, 3)
    if kernel.fault == "head of k":
        s[:, 1] = q[:, 1] @ k[:, 1 - (1 % HKV if kernel.interleaved else 0)].swapaxes(1, 2)
    return (s if abs(left - 1) < 1e-6 else s * left), k


def forward(kernel, path, seed=7, only=None):
    rng = np.random.default_rng(seed)
    shapes = ((B, H, SQ, D), (B, HKV, SKV, D))
    q, k = (rng.standard_normal(shape).astype(np.float16) * np.float16(kernel.small) for shape in shapes)
    inputs = {"q": q, "k": k}
    codes, v = e4m3_codes(rng, (B, HKV, SKV, D))
    descale = {"token in P": (B, HKV, SKV), "channel in acc": (B, HKV, 1, D), "channel in o": (B, HKV, 1, D)}
    if kernel.v_scale:
        inputs["v"] = codes
        inputs["descale_v"] = rng.uniform(2e-3, 2e-2, descale[kernel.v_scale]).astype(np.float32)
    else:
        v = (rng.standard_normal((B, HKV, SKV, D)) * kernel.small).astype(np.float16).astype(np.float32)
        inputs["v"] = v.astype(np.float16)
    s, _ = scores(kernel, *(x.astype(np.float32) for x in (q, k)))
    v = of_query_heads(kernel, v)
    scale = of_query_heads(kernel, inputs["descale_v"]) if kernel.v_scale else None

    m = np.full((B, H, SQ), -np.inf, np.float32)
    l, acc = np.zeros_like(m), np.zeros((B, H, SQ, D), np.float32)
    values = {"s": s, "m": [], "p": np.empty_like(s), "l": [], "acc": []}
    for number, keys in enumerate(TILES):
        before, m = m, np.maximum(m, s[..., keys].max(axis=-1))
        factor = np.exp2((before - m).astype(np.float64)).astype(np.float32)
        p = np.exp2((s[..., keys] - m[..., None]).astype(np.float64)).astype(np.float32)
        l = l * factor + p.sum(axis=-1)
        whole = p
        if kernel.v_scale == "token in P":
            taken = scale[:, :, keys]
            if kernel.fault == "scale of the next key":
                taken = np.roll(taken, -1, axis=2)
            whole = p * taken[:, :, None]
        values["p"][..., keys] = whole if kernel.records_scaled_p else p
        product = rounded(whole, kernel.dtype_p) @ v[:, :, keys]
        if kernel.v_scale == "channel in acc":
            product = product * (1 if kernel.fault == "scale left out" and number == 1 else scale[:, :, 0, None])
        acc = acc * (1 if kernel.fault == "acc not rescaled" else factor[..., None]) + product
        for name, value in (("m", m), ("l", l), ("acc", acc)):
            values[name].append(value)
    values.update({name: np.stack(values[name], axis=2) for name in ("m", "l", "acc")})
    o = acc / l[..., None]
    if kernel.v_scale == "channel in o":
        o = o * (scale[:, :, 0, None] if kernel.fault != "scale left out" else scale[:, :, 0, None, :1])
    values["o"] = o.astype(np.float16)
    values["lse"] = (m + np.log2(l.astype(np.float64))).astype(np.float32)
    units = {
        "s": dict(log_base="2"), "m": dict(log_base="2"), "p": dict(exp="exp2f"), "lse": dict(log_base="2"),
        "v": dict(dequantised=not kernel.v_scale),
    }  # fmt: skip
    problem = dict(dtype_p=kernel.dtype_p, dtype_v="e4m3" if kernel.v_scale else "f16")
    write(path, problem, inputs, values, units, only)
    return path


def backward(kernel, path, seed=7, only=None):
    """As the tutorial of Triton has it: lse to the base 2, dq from the k that was scaled, dk from q as it is."""
    rng = np.random.default_rng(seed)
    q, dout = rng.standard_normal((2, B, H, SQ, D)).astype(np.float16) * np.float16(kernel.small)
    k, v = rng.standard_normal((2, B, HKV, SKV, D)).astype(np.float16) * np.float16(kernel.small)
    q32, k32, v32, dout32 = (x.astype(np.float32) for x in (q, k, v, dout))
    exact = (q32 * SCALE).astype(np.float64) @ of_query_heads(kernel, k32).swapaxes(2, 3) * 1.4426950408889634
    lse = np.log2(np.exp2(exact).sum(axis=-1)).astype(np.float32)
    v32 = of_query_heads(kernel, v32)
    o = (np.exp2(exact - lse[..., None]) @ v32).astype(np.float16)

    s, scaled_k = scores(kernel, q32, k32)
    p = np.exp2((s - lse[..., None]).astype(np.float64)).astype(np.float32)
    delta = (dout32 * o.astype(np.float32)).sum(axis=-1)
    dp = dout32 @ v32.swapaxes(2, 3)
    ds = p * (dp - (0 if kernel.fault == "delta left out" else delta[..., None]))
    cast_ds = rounded(ds, "f16")
    dq = cast_ds @ of_query_heads(kernel, scaled_k) * (SCALE / np.float32(kernel.k_scale))
    dk = added_to_kv_heads(kernel, cast_ds.swapaxes(2, 3) @ q32) * SCALE
    dv = added_to_kv_heads(kernel, rounded(p, "f16").swapaxes(2, 3) @ dout32)
    if kernel.fault == "dk scaled twice":
        dk = dk * SCALE
    values = dict(s=s, p=p, delta=delta, dp=dp, ds=ds, dq=dq, dk=dk, dv=dv)
    values.update({name: values[name].astype(np.float16) for name in ("dq", "dk", "dv")})
    units = {"s": dict(log_base="2"), "p": dict(exp="exp2f")}
    problem = dict(direction="backward", dtype_p="f16", dtype_ds="f16")
    write(path, problem, dict(q=q, k=k, v=v, dout=dout, o=o, lse=lse), values, units, only)
    with h5py.File(path, "r+") as f:
        f["inputs/lse"].attrs["log_base"] = "2"
    return path


OUTPUTS = ("o", "lse", "dq", "dk", "dv")


def write(path, problem, inputs, values, units, only):
    with h5py.File(path, "w") as f:
        f.attrs.update(format="tilescope", format_version=1, kernel="declared_kernels.py")
        f.create_group("problem").attrs.update(
            batch=B, heads=H, heads_kv=HKV, seqlen_q=SQ, seqlen_kv=SKV, head_dim=D, block_m=BLOCK, block_n=BLOCK,
            sm_scale=SCALE, **problem)  # fmt: skip
        for name, value in inputs.items():
            f[f"inputs/{name}"] = value
        if inputs.get("descale_v", np.empty(0)).ndim == 3:
            f["inputs/descale_v"].attrs["rows"] = 1
        for stage, value in values.items():
            if only is None or stage in only:
                f[f"{'outputs' if stage in OUTPUTS else 'tiles'}/{stage}"] = value
        if "v" in units:
            f.create_dataset("tiles/v", (B, H, -(-SQ // BLOCK), SKV, D), np.float32, chunks=(1, 1, 1, BLOCK, D))
        for stage, attributes in units.items():
            name = f"{'outputs' if stage in OUTPUTS else 'tiles'}/{stage}"
            if name in f:
                f[name].attrs.update(attributes)
        f.attrs["complete"] = 1
