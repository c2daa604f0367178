#!/usr/bin/env python3
"""Forward attention over the ranks of torch.distributed, each launch of each rank recorded with tilescope.Recorder.

usage: torchrun --nproc-per-node N ring_attention.py FOLDER [--layout zigzag] [--causal] [--fault NAME] ...

Each rank keeps its rows of q; k and v go round, by NCCL where each rank has a GPU, otherwise by gloo. FOLDER receives a recording for
each step and one for what the rank has at the end: tile-diff FOLDER judges all of them as one call. `attend()` stands for the kernel.
"""

import argparse
import os
import pathlib
import uuid

import tilescope
import torch
import torch.distributed as dist

FAULTS = ("stale_shard", "local_positions", "merge_in_base_two", "keys_left_out")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layout", choices=("contiguous", "zigzag"), default="contiguous")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--heads-kv", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--block", type=int, default=64, help="rows and keys of a recorded tile")
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--at", type=int, default=1, help="rank that makes the mistake")
    return parser.parse_args()


def ranges_of(layout, rank, ranks, seqlen):
    """[first, end) of the rows that a rank has: one piece, or one from each end."""
    size = seqlen // (2 * ranks)
    pieces = (2 * rank, 2 * rank + 1) if layout == "contiguous" else (rank, 2 * ranks - 1 - rank)
    return [(piece * size, piece * size + size) for piece in pieces]


def text_of(ranges):
    return ",".join(f"{first}+{end - first}" for first, end in ranges)


def positions_of(ranges, device):
    return torch.cat([torch.arange(first, end, device=device) for first, end in ranges])


def attend(q, k, v, rows, keys, causal):
    """s, o and lse of one launch; a row that sees no key has 0 and -inf."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1).float() for x in (k, v))
    s = q.float() @ k.transpose(2, 3) * q.shape[3] ** -0.5
    if causal:
        s = s.masked_fill(keys > rows[:, None], float("-inf"))
    lse = torch.logsumexp(s, dim=3)
    p = torch.exp(s - lse.nan_to_num(neginf=0.0)[..., None])
    return s, (p @ v).to(q.dtype), lse


def merge(before, o, lse, exponential):
    """What a rank had and what a step adds, in float32."""
    if before is None:
        return o.float(), lse
    most = torch.maximum(before[1], lse).nan_to_num(neginf=0.0)
    a, b = exponential(before[1] - most), exponential(lse - most)
    logarithm = torch.log if exponential is torch.exp else torch.log2
    return (a[..., None] * before[0] + b[..., None] * o.float()) / (a + b).clamp_min(1e-37)[..., None], most + logarithm(a + b)


def pass_on(k, v):
    """Sends both to the next rank; returns those of the rank before."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = [torch.empty_like(k), torch.empty_like(v)]
    if ranks == 1:
        return k, v
    sends = [dist.P2POp(dist.isend, x.contiguous(), (rank + 1) % ranks) for x in (k, v)]
    receives = [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in received]
    for request in dist.batch_isend_irecv(sends + receives):
        request.wait()
    return received


def tiles_of(s, block):
    """Scores as a Recorder has them: [batch][head][q_block][kv_tile][row][column]."""
    return s.unflatten(3, (-1, block)).unflatten(2, (-1, block)).transpose(3, 4)


def ring(options, device, run):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    fault = options.fault if rank == options.at else None
    ranges = [ranges_of(options.layout, each, ranks, options.seqlen) for each in range(ranks)]
    rows = positions_of(ranges[rank], device)
    generator = torch.Generator().manual_seed(1)
    shapes = [(1, heads, options.seqlen, options.head_dim) for heads in (options.heads, options.heads_kv, options.heads_kv)]
    q, k, v = (torch.randn(shape, generator=generator).half().to(device)[:, :, rows].contiguous() for shape in shapes)
    part = dict(run=run, ranks=ranks, rank=rank, q_positions=text_of(ranges[rank]), whole_seqlen_q=options.seqlen,
                whole_seqlen_kv=options.seqlen)  # fmt: skip
    call = dict(causal=options.causal, block_m=options.block, block_n=options.block)
    merged, step, taken = None, 0, (k, v)
    for turn in range(ranks):
        source = (rank - turn) % ranks
        keys = positions_of(ranges[source], device)
        used = taken if fault == "stale_shard" and turn > 0 else (k, v)
        left_out = fault == "keys_left_out" and turn == ranks - 1
        if not left_out and not (options.causal and keys[0] > rows[-1]):
            shard = part | dict(step=step, kv_positions=text_of(ranges[source]))
            recorder = tilescope.Recorder(q, *used, stages=("s",), shard=shard, **call)
            local = fault == "local_positions" and turn > 0
            seen_from = (torch.arange(len(rows), device=device), torch.arange(len(keys), device=device)) if local else (rows, keys)
            s, o, lse = attend(q, *used, *seen_from, options.causal)
            merged = merge(merged, o, lse, torch.exp2 if fault == "merge_in_base_two" else torch.exp)
            if "s" in recorder.stages:
                recorder.buffer("s")[...] = tiles_of(s, options.block)
            recorder.outputs(o=o, lse=lse)
            recorder.merged(o=merged[0], lse=merged[1])
            recorder.save(options.folder / f"rank{rank}_step{step}.h5")
            step, taken = step + 1, used
        k, v = pass_on(k, v)
    recorder = tilescope.Recorder(q, k, v, stages=(), shard=part | dict(shard="final"), **call)
    recorder.outputs(o=merged[0].to(q.dtype), lse=merged[1])
    recorder.save(options.folder / f"rank{rank}_final.h5")


def main():
    options = arguments()
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if on_gpus:
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    if options.seqlen % (2 * dist.get_world_size()) or options.seqlen // dist.get_world_size() % options.block:
        raise SystemExit("ring_attention.py: give --seqlen of which each rank has whole blocks, in two pieces")
    options.folder.mkdir(parents=True, exist_ok=True)
    run = [f"ring_attention {uuid.uuid4()}"]
    dist.broadcast_object_list(run)
    ring(options, torch.device("cuda", local_rank) if on_gpus else torch.device("cpu"), run[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
