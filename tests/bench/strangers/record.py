"""What a kernel computed, as a recording: dump/FORMAT.md with h5py."""

import itertools

import h5py
import numpy as np

from strangers import call, effect

# The stages that a recording may have, as its truth says it; "random" leaves out each with one chance in three.
RECORDED = ("all", "no-operands", "outputs", "random")


def choose_stages(rng, p, recorded, direction):
    """Names of the stages that are recorded, in order of computation. A stale maximum is, with s: nothing else tells it."""
    tiles, outputs = call.TILES[direction], list(call.OUTPUTS[direction])
    if recorded == "outputs":
        return outputs
    if recorded == "no-operands":
        return [name for name in tiles if name not in ("q", "k", "v", "dout")] + outputs
    if recorded == "random":
        return [name for name in tiles if rng.random() < 2 / 3 or (p.stale and name in "sm")] + outputs
    return tiles + outputs


def problem_attributes(p, direction):
    left, right = p.window
    attributes = dict(
        direction=direction, batch=p.batch, heads=p.heads, heads_kv=p.heads_kv, seqlen_q=p.seqlen_q, seqlen_kv=p.seqlen_kv,
        head_dim=p.head_dim, head_dim_v=p.head_dim_v, block_m=p.block_m, block_n=p.block_n, sm_scale=p.sm_scale,
        mask="none" if p.mask == "none" else "causal", causal_alignment=p.mask if p.mask != "none" else "bottom_right",
        window_left=left, window_right=right, logits_soft_cap=p.cap, alibi="linear" if p.alibi else "none",
        dtype_q=p.dtype, dtype_k=p.dtype, dtype_v=p.dtype, dtype_p=p.dtype_p)
    if direction == "backward":
        return attributes | dict(dtype_dout=p.dtype, dtype_ds=p.dtype_ds, dkv_per_head=p.per_head, dtype_dq=p.dtype_o,
                                 dtype_dk=p.dtype_o, dtype_dv=p.dtype_o)
    return attributes | dict(kv_tiles_per_split=p.split, l_lanes=p.lanes, l_lane_columns=p.lane_columns,
                             kv_order="reverse" if p.reverse else "forward", dtype_acc=p.dtype_acc, dtype_o=p.dtype_o)


def units(p, direction):
    """{dataset: what its numbers contain}; a dataset may be there for these alone."""
    scaled, base2 = not p.scores.startswith("raw"), p.scores == "base2"
    scores = dict(scaled=scaled, log_base="2" if base2 else "e")
    exponential = "exp2f" if p.scores in ("base2", "raw2") else "expf"
    cast = p.dtype_p if p.p_is_cast else "f32"
    found = {"tiles/s": scores, "tiles/p": dict(exp=exponential, cast=cast, scale=p.p_scale)}
    if direction == "backward":
        found |= {"tiles/ds": dict(cast=p.dtype_ds if p.ds_is_cast else "f32")}
        return found | {"inputs/lse": dict(log_base="2" if p.lse_base2 else "e")}
    return found | {
        "tiles/m": scores | dict(stale_threshold=p.stale),
        "tiles/l": dict(sums_cast_p=p.sums_cast_p, scale=p.p_scale),
        "tiles/acc": dict(scale=p.p_scale),
        "outputs/lse": dict(log_base="2" if p.lse_base2 else "e"),
    }


def write_inputs(file, p, inputs):
    for name, values in inputs.items():
        if name == "slopes":
            if p.alibi:
                file["inputs/alibi_slopes"] = values
        elif name == "lse":
            file["inputs/lse"] = values
        else:
            dtype = p.dtype_o if name == "o" else p.dtype
            file["inputs/" + name] = values.astype(np.float16) if dtype == "f16" else values


def create_tiles(file, p, stage, shape):
    """A stage's dataset without a tile: of a chunked dataset none is stored until it is written."""
    rows, keys = (1, 1, p.block_m), (1, 1, 1, p.block_n)
    chunk = {
        "q": (*rows, p.head_dim), "k": (*keys, p.head_dim), "v": (*keys, p.head_dim_v), "m": (1, *rows),
        "l": (1, *rows, p.lanes), "acc": (1, *rows, p.head_dim_v), "dout": (*rows, p.head_dim_v), "delta": rows,
    }.get(stage, (*rows, p.block_n))[: len(shape)]
    return file.create_dataset("tiles/" + stage, shape, np.float32, chunks=chunk, maxshape=(None,) * len(shape),
                               fillvalue=call.UNWRITTEN)


def write_tiles(file, p, stage, values):
    """Stores the tiles that were computed."""
    dataset = create_tiles(file, p, stage, values.shape)
    counts = [range(0, size, step) for size, step in zip(values.shape, dataset.chunks)]
    for begin in itertools.product(*counts):
        tile = tuple(slice(at, at + step) for at, step in zip(begin, dataset.chunks))
        if not effect.unwritten(values[tile]).all():
            dataset[tile] = values[tile]


def write(path, p, inputs, stages, recorded, direction):
    """Writes the stages named in recorded, and the units of all."""
    shapes = call.tile_shapes(p) | call.output_shapes(p)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="tilescope", format_version=1, producer="strangers", kernel="stranger", device="CPU")
        file.create_group("problem").attrs.update(problem_attributes(p, direction))
        write_inputs(file, p, inputs)
        for stage in recorded:
            if stage in call.OUTPUTS[direction]:
                file["outputs/" + stage] = stages[stage]
            elif effect.unwritten(stages[stage]).any():
                write_tiles(file, p, stage, stages[stage])
            else:
                file["tiles/" + stage] = stages[stage]
        for dataset, attributes in units(p, direction).items():
            stage = dataset.split("/")[1]
            target = file[dataset] if dataset in file else create_tiles(file, p, stage, shapes[stage])
            target.attrs.update(attributes)
        file.attrs["complete"] = 1
