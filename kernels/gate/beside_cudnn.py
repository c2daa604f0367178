"""The gate of evidence.py that times `fast` beside PyTorch's cuDNN and flash backends, all launches of a configuration in turn."""

import json
import sys

from programs import FAILED, MISSING, PASSED, ROOT, Result, last_line

MASKS = ("none", "causal")
DTYPES = ("f16", "bf16")
# What is asked beside cuDNN: the ratio's interval of 95 % ends at most here.
ASKED = {"1.00": ("1,8,512,512,64", "2,8,512,512,64", "1,8,512,512,128", "4,16,2048,2048,64"),
         "0.95": ("4,16,2048,2048,128", "4,16,4096,4096,128")}
BASELINES = ("cudnn", "flash")


def beside_cudnn(evidence, _):
    for dtype in DTYPES:
        for ratio, shapes in ASKED.items():
            yield measure_in_turn(evidence, dtype, ratio, shapes)


def measure_in_turn(evidence, dtype, ratio, shapes):
    gate = f"fast beside cuDNN, {dtype}, at most {ratio}"
    file = evidence.folder / "latency" / f"turns_{dtype}_{ratio}.csv"
    repeated = [("--shape", shapes), ("--mask", MASKS), ("--backend", BASELINES)]
    code, output, log = evidence.run(
        f"turns_{dtype}_{ratio}", sys.executable, ROOT / "tests/bench/measure_sdpa.py", "--kernel", "fast", "--library",
        evidence.program("libtilescope_launches.so"), "--dtype", dtype, "--most-seconds", evidence.most_seconds,
        *[word for option, values in repeated for value in values for word in (option, value)], "-o", file)
    if code != 0:
        return Result(gate, MISSING, last_line(output), [log])
    files = [evidence.relative(file)]
    for baseline in reversed(BASELINES):
        report = evidence.folder / "latency" / f"turns_{dtype}_{ratio}_{baseline}.json"
        code, output, log = evidence.run(
            f"turns_{dtype}_{ratio}_{baseline}", evidence.program("tile-gate"), "latency", file, file, "--candidate", "fast",
            "--baseline", f"sdpa_{baseline}", "--json", report, *(["--require-ratio", ratio] if baseline == "cudnn" else []))
        files += [evidence.relative(report), log]
    return Result(gate, FAILED if code else PASSED, last_line(output), files)


def turns_table(folder):
    """Lines of the summary: each configuration with its medians and ratios; none where nothing was measured."""
    rows = {}
    for dtype in DTYPES:
        for ratio in ASKED:
            for baseline in BASELINES:
                path = folder / "latency" / f"turns_{dtype}_{ratio}_{baseline}.json"
                if not path.exists():
                    continue
                for compared in json.loads(path.read_text()).get("configurations", []):
                    key = compared["configuration"]
                    shape = ",".join(key[part] for part in ("batch", "heads", "seqlen_q", "seqlen_kv", "head_dim"))
                    row = rows.setdefault((dtype, shape, key["mask"]), {"fast": compared["candidate"]["median"]})
                    low, high = compared["ratio_interval"]
                    row[baseline] = compared["baseline"]["median"], f"{compared['ratio']:.3f} [{low:.3f}, {high:.3f}]"
    if not rows:
        return []
    lines = ["", "`fast` beside PyTorch's backends, replays of all three in turn, in random order: medians in us, and the ratio of "
             "`fast` to each with its interval of 95 %.", "",
             "| dtype | B,H,Sq,Skv,D | mask | fast | cuDNN | flash | fast / cuDNN | fast / flash |", "|---|---|---|---|---|---|---|---|"]
    for key, row in rows.items():
        medians, ratios = zip(*(row.get(baseline, ("", "")) for baseline in BASELINES))
        cells = [*key, *(f"{median:.4g}" if median else "" for median in (row["fast"], *medians)), *ratios]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
