"""Outputs of any attention kernel, judged without a hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from ._arrays import host_bits
from ._call import call_of
from ._report import Report, judge_recording

#: Of PyTorch, NumPy, JAX or whatever speaks DLPack.
Array = Any
#: Query rows that are judged to find out whether another layout or mask would match, and of those that diverge so many.
_ROWS_OF_A_TRIAL = 256
_WRONG_ROWS_OF_A_TRIAL = 8
_ALIGNMENTS = {"top_left": "bottom_right", "bottom_right": "top_left"}


class Diverged(AssertionError):
    """Outputs that no rounding explains. `report` has what was found; the text of the error is the report."""

    def __init__(self, report: Any) -> None:
        super().__init__(report.text)
        self.report = report


def check(
    q: Array,
    k: Array,
    v: Array,
    o: Array,
    lse: Array | None = None,
    *,
    layout: Literal["bhsd", "bshd", "packed"] = "bhsd",
    causal: bool | Literal["top_left", "bottom_right"] = False,
    window: int | tuple[int, int] | None = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    bias: Array | None = None,
    alibi_slopes: Array | None = None,
    sink: Array | None = None,
    cu_seqlens: Array | Sequence[int] | tuple[Sequence[int], Sequence[int]] | None = None,
    descales: Mapping[str, Array | float] | None = None,
    dropout_p: float = 0.0,
    dtypes: Mapping[str, str] | None = None,
    grads: Mapping[str, Array] | None = None,
    like: str | None = None,
    declare: Mapping[str, Any] | None = None,
    rows: int | Literal["all"] = "all",
    seed: int = 0,
    block_m: int = 64,
    block_n: int = 64,
    causes: bool | Literal["all"] = True,
    threads: int = 0,
) -> Report:
    """Holds o, and lse and gradients where they are given, against attention of q, k and v in float64.

    Tolerances follow from the dtypes, the lengths and the magnitudes of the call. Arrays are those of PyTorch (on any
    device), NumPy, JAX or another library that speaks DLPack; what lies in host memory is not copied.

    q, k, v, o:     [batch, heads, seqlen, head_dim], or as `layout` says; leading axes may be missing
    lse:            [batch, heads, seqlen], or [heads, total] where packed; natural logarithm
    layout:         "bhsd", "bshd", or "packed": [total, heads, head_dim] with cu_seqlens
    causal:         False; True or "top_left" as PyTorch means it; "bottom_right" as FlashAttention-2 does
    window:         keys to the left and to the right of the diagonal that are seen, -1 for all: (left, right)
    scale:          of the scores; 1 / sqrt(head_dim) where it is None
    soft_cap:       c of c tanh(score / c); 0 for none
    bias:           added to the scores, [batch, heads, seqlen_q, seqlen_kv], axes of 1 for all; bool: True is seen
    alibi_slopes:   [heads] or [batch, heads]; score - slope |key - diagonal|
    sink:           [heads], a score that takes part in the softmax and has no value
    cu_seqlens:     where batch entries begin, and the end: one array, or one for q and one for k
    descales:       {"q": ..., "k": ..., "v": ...} of fp8: a number, [batch, heads], [batch, heads, blocks], or
                    [batch, heads, 1, head_dim] by channel
    dropout_p:      0: what drops elements of P cannot be judged
    dtypes:         what uint8 arrays hold codes of: {"q": "e4m3"}
    grads:          {"dout": ..., "dq": ..., "dk": ..., "dv": ...}; the last three as far as there are any. Needs lse.
    like:           a family of kernels whose arithmetic is meant; see tilescope.families()
    declare:        more declarations, under the names of FORMAT.md: {"problem.dtype_p": "f32"}
    rows:           "all", or about how many query rows are judged: a sample of whole blocks, drawn by `seed`, always
                    with the first block, the last one and the one that sees the most keys
    block_m/n:      tile sizes of the kernel, where they are known
    causes:         whether to look for the mistake where something diverges; "all": on where the search takes long

    Returns a Report. Errors: Diverged, an AssertionError whose text is the report; Error, a ValueError, for what cannot
    be judged; TypeError for what is no array.
    """
    options = dict(
        layout=layout, causal=causal, window=window, scale=scale, soft_cap=soft_cap, bias=bias,
        alibi_slopes=alibi_slopes, sink=sink, cu_seqlens=cu_seqlens, descales=descales, dropout_p=dropout_p, like=like,
        declare=declare, block_m=block_m, block_n=block_n,
    )  # fmt: skip
    if grads and not like:
        # Of two ways to make ds the less exact one: which of them it was cannot be told from gradients.
        options["declare"] = {"ds.from_cast_p": True, **(declare or {})}
    arrays = {"q": q, "k": k, "v": v, "o": o, "lse": lse, **(grads or {})}
    codes_of = dtypes or {}
    bits = {name: host_bits(name, array, codes_of.get(name)) for name, array in arrays.items() if array is not None}
    for direction in ("forward", "backward") if grads else ("forward",):
        call = _call_or_advice(bits, direction, options, seed, threads)
        notes = _sample(call, rows, seed)
        report = judge_recording(call.recording, causes=False, threads=threads, notes=notes)
        if report.verdict == "unjudged":
            raise _core.Error(report.text)
        if report.matches:
            continue
        # A wrong call is likelier than a wrong kernel, and sooner found.
        others = tuple(_what_else_matches(bits, direction, options, seed, threads, report))
        if causes and not others:
            report = judge_recording(call.recording, causes=causes, threads=threads, notes=notes)
        report.notes += others
        raise Diverged(report)
    return report


def _call_or_advice(bits, direction, options, seed, threads):
    """The call. Where the shapes fit none, the error says what they fit."""
    try:
        return call_of(bits, direction, options)
    except _core.Error as error:
        others = _what_else_matches(bits, direction, options, seed, threads)
        raise _core.Error("; ".join([str(error), *others])) from None


def _sample(call, rows, seed):
    """Selects what is judged, and says how much it is; nothing where it is all."""
    if rows == "all":
        return ()
    if not isinstance(rows, int) or rows < 1:
        raise _core.Error(f'rows = {rows!r}: choose "all", or a number of query rows from 1 on')
    call.recording.sample_rows(rows, seed)
    judged, total = call.recording.selected_rows()
    return (f"judged {judged} of {total} query rows, drawn with seed {seed}",)


def _trials(options):
    """Other ways to call check() with the same arrays, and how they are written."""
    other_layout = {"bhsd": "bshd", "bshd": "bhsd"}.get(options["layout"])
    if other_layout:
        yield f'layout="{other_layout}"', {"layout": other_layout}
    alignment = "top_left" if options["causal"] is True else options["causal"]
    if alignment:
        other = _ALIGNMENTS.get(alignment, "top_left")
        yield f'causal="{other}"', {"causal": other}
        yield "causal=False", {"causal": False}
    else:
        yield 'causal="top_left"', {"causal": "top_left"}
        yield 'causal="bottom_right"', {"causal": "bottom_right"}
    if options["scale"] is not None:
        yield "the default scale", {"scale": None}
    else:
        yield "scale=1", {"scale": 1.0}
    interleaved = {"problem.head_grouping": "interleaved"}
    yield f"declare={interleaved}", {"declare": {**(options["declare"] or {}), **interleaved}}


def _shares_heads(declared):
    """Whether query heads could read another KV head than they do."""
    return int(declared["heads"]) > int(declared["heads_kv"]) > 1


def _wrong_rows(report, recording, is_turned):
    """Some rows that diverge in the first wrong stage, the first divergence before all, as another call has them:
    (batch, head, row) of queries. `is_turned`: that call takes rows for heads.
    """
    found = [report.json["first_divergence"], *report.json["bad_rows"]]
    step = max(1, len(found) // _WRONG_ROWS_OF_A_TRIAL)
    for row in (found[0], *found[1::step]):
        batch, head, row = row["batch"], row["head"], row["row"]
        if is_turned:
            head, row = row, head
        if report.stage in ("dk", "dv"):
            # Their rows are keys, and each sums over all queries of its head or group.
            declared = recording.declared
            heads = declared["heads"] if declared["dkv_per_head"] == "true" else declared["heads_kv"]
            head, row = head * int(declared["heads"]) // int(heads), 0
        yield batch, head, row


def _what_else_matches(bits, direction, options, seed, threads, report=None):
    """A line for each other way to call check() in which a sample of rows matches, those among them that diverge in
    `report`, of the call as it is: so the other way differs from it where it is wrong.
    """
    found = set()
    for written, changed in _trials(options):
        # Of two alignments that are the same one is enough.
        if found & set(changed):
            continue
        try:
            call = call_of(bits, direction, {**options, **changed})
            if "declare" in changed and not _shares_heads(call.recording.declared):
                continue
            also = [] if report is None else list(_wrong_rows(report, call.recording, "layout" in changed))
            call.recording.sample_rows(_ROWS_OF_A_TRIAL, seed, also)
            trial = judge_recording(call.recording, causes=False, threads=threads)
        except (_core.Error, TypeError):
            continue
        if trial.matches and sum(trial.compared.values()) > 0:
            judged, total = call.recording.selected_rows()
            found |= set(changed)
            yield f"with {written} it matches ({judged} of {total} query rows were judged so)"
