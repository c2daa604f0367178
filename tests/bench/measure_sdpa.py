#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention, and bundled kernels beside it, into a CSV as tile-gate measure writes it.

Events around replays of CUDA graphs whose launches rotate over copies of the inputs, twice the L2 in all, after a warm-up.
Replays of all that is measured of a configuration take turns in random order, so that clocks and neighbours are the same
for all:
    python3 tests/bench/measure_sdpa.py --kernel fast --backend cudnn --shape 4,16,2048,2048,128 -o both.csv
    tile-gate latency both.csv both.csv --candidate fast --baseline sdpa_cudnn
The backend `default` is the one that PyTorch chooses. Comments of the file say what a call launches by the profiler's
account, each kernel with its share: of a call of several kernels, or of one that clears memory first, the latency is that
of all. A backend that has no kernel for a configuration is named in a comment and on stderr. Exit codes: 0 something was
measured, 2 nothing could be.
"""

import argparse
import contextlib
import ctypes
import datetime
import pathlib
import random
import re
import statistics
import sys

TIMES_L2 = 2
LEAST_COPIES = 2
LEAST_SAMPLES = 20
METHOD = f"events around replays of a CUDA graph, inputs rotated, {TIMES_L2} x L2"
IN_TURN = ", graphs in turn, in random order"
COLUMNS = ("implementation,dtype,batch,heads,heads_kv,seqlen_q,seqlen_kv,head_dim,mask,sample,launches,"
           "sm_clock_mhz,latency_us")
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH",
            "default": None}
# What kernels of a backend have in their names; that of none of these is `math`.
NAMES = {"flash": "flash_fwd", "cudnn": "cudnn", "efficient": "fmha_cutlass"}
PROFILED_CALLS = 20
DRIVER = pathlib.Path("/proc/driver/nvidia/version")
DTYPES = {"f16": "float16", "bf16": "bfloat16"}
LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "build/bin/libtilescope_launches.so"
# cudaStreamPerThread, in which the library launches.
THREADS_STREAM = 2


class Unmeasured(Exception):
    """What makes a measurement impossible, as one line."""


def parse_shape(text):
    sizes = text.split(",")
    if len(sizes) != 5 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: give batch,heads,seqlen_q,seqlen_kv,head_dim")
    return tuple(map(int, sizes))


def mask_name(shape, mask):
    # PyTorch aligns its causal mask to the top left corner.
    return mask if mask == "none" or shape[2] == shape[3] else "causal_top_left"


def l2_bytes(options, torch):
    size = options.l2_bytes or getattr(torch.cuda.get_device_properties(0), "L2_cache_size", None)
    if not size:
        raise Unmeasured("this PyTorch does not know the size of the L2; give --l2-bytes")
    return size


def make_copies(options, torch, shape):
    """Inputs, as many times as it takes to keep the L2 from holding a copy until it is read again."""
    batch, heads, seqlen_q, seqlen_kv, head_dim = shape
    heads_kv = options.heads_kv or heads
    torch.manual_seed(options.seed)
    sizes = [(batch, heads, seqlen_q, head_dim), *[(batch, heads_kv, seqlen_kv, head_dim)] * 2]
    dtype = getattr(torch, DTYPES[options.dtype])
    inputs = [torch.randn(size, device="cuda").to(dtype) for size in sizes]
    one = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    count = max(LEAST_COPIES, TIMES_L2 * l2_bytes(options, torch) // one + 1)
    return [inputs] + [[tensor.clone() for tensor in inputs] for _ in range(count - 1)]


def elapsed_us(begin, end):
    end.synchronize()
    return 1000 * begin.elapsed_time(end)


def sm_clock_mhz(torch):
    """From the difference of two waits of known cycles: what a launch costs is in both."""
    def wait(cycles):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        return elapsed_us(begin, end)
    shorter, longer = 200000, 2200000
    wait(shorter)
    begin = wait(shorter)
    return (longer - shorter) / (wait(longer) - begin)


class Call(ctypes.Structure):
    """TilescopeCall of kernels/gate/launch_library.h."""
    _fields_ = [*((name, ctypes.c_char_p) for name in ("kernel", "config", "dtype")),
                *((name, ctypes.c_int64) for name in ("batch", "heads", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim", "causal")),
                *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse"))]


def bundled(options, torch, kernel, causal):
    """A bundled kernel without hooks, as a function of q, k and v."""
    try:
        launch = ctypes.CDLL(str(options.library)).tilescope_launch
    except OSError as error:
        raise Unmeasured(f"{error}; ./dev build makes it where CUDA is, or give --library") from None
    text = ctypes.create_string_buffer(1000)

    def call(q, k, v):
        o = torch.empty_like(q)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device="cuda")
        arrays = [array.data_ptr() for array in (q, k, v, o, lse)]
        asked = Call(kernel.encode(), b"", options.dtype.encode(), q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2],
                     q.shape[3], causal, *arrays)
        if launch(ctypes.byref(asked), text, ctypes.c_size_t(len(text))) != 0:
            raise RuntimeError(text.value.decode(errors="replace"))
        return o

    return call


def pytorch(options, torch, backend, causal, grouped):
    """PyTorch's attention by a backend, likewise."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attention = torch.nn.functional.scaled_dot_product_attention
    more = {"enable_gqa": True} if grouped else {}

    def call(q, k, v):
        chosen = sdpa_kernel(getattr(SDPBackend, BACKENDS[backend])) if BACKENDS[backend] else contextlib.nullcontext()
        with chosen:
            return attention(q, k, v, is_causal=causal, **more)

    return call


def contenders(options, torch, shape, mask):
    """{implementation: function of q, k and v}, the bundled kernels first."""
    causal, grouped = mask == "causal", options.heads_kv not in (None, shape[1])
    return {**{kernel: bundled(options, torch, kernel, causal) for kernel in options.kernel or []},
            **{f"sdpa_{backend}": pytorch(options, torch, backend, causal, grouped)
               for backend in options.backend or BACKENDS}}


def record_graph(torch, call, copies):
    call(*copies[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        # Kept, so that every launch writes to memory of its own.
        outputs = [call(*inputs) for inputs in copies]
    return graph, outputs


def time_graphs(torch, graphs, launches, options):
    """{implementation: microseconds of a launch}, and the clock right after."""
    def event():
        recorded = torch.cuda.Event(enable_timing=True)
        recorded.record()
        return recorded
    begin, passed, rounds = event(), 0, 0
    while passed < 1000 * options.warmup_ms or rounds < 1:
        for graph in graphs.values():
            graph.replay()
        rounds += 1
        passed = elapsed_us(begin, event())
    affordable = int(1e6 * options.most_seconds * len(graphs) / (passed / rounds))
    order, turns = random.Random(options.seed), []
    for _ in range(min(options.samples, max(LEAST_SAMPLES, affordable))):
        turns += order.sample(list(graphs), len(graphs))
    # All are enqueued before the first is waited for; a first replay gives the host time to enqueue the next.
    graphs[turns[0]].replay()
    events = [event()]
    for name in turns:
        graphs[name].replay()
        events.append(event())
    times = {name: [] for name in graphs}
    for name, first, second in zip(turns, events, events[1:]):
        times[name].append(elapsed_us(first, second) / launches)
    return times, sm_clock_mhz(torch)


def launched(torch, call, inputs):
    """[(what, launches a call, microseconds a call)], in the order of the first call, by the profiler's account."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED_CALLS):
            call(*inputs)
        torch.cuda.synchronize()
    found = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            count, passed = found.get(event.name, (0, 0.0))
            found[event.name] = count + 1, passed + event.time_range.elapsed_us()
    return [(name, count / PROFILED_CALLS, passed / PROFILED_CALLS) for name, (count, passed) in found.items()]


def is_kernel(name):
    return not name.startswith(("Memset", "Memcpy"))


def backend_of(names):
    """The backend that kernels of these names are of."""
    return next((backend for backend, part in NAMES.items() if any(part in name for name in names)), "math")


def launch_lines(key, found):
    """Comments on what a call launches. Names of templates hold colons, which would make metadata of a comment."""
    if not found:
        return [f"# a call of {key} was not seen by the profiler"]
    kernels = [one for one in found if is_kernel(one[0])]
    others = [one for one in found if not is_kernel(one[0])]
    def summed_up(launches, one, several):
        count = sum(count for _, count, _ in launches)
        return f"{count:g} {one if count == 1 else several}, {sum(passed for *_, passed in launches):.3f} us"
    says = summed_up(kernels, "kernel", "kernels")
    if others:
        says += "; " + summed_up(others, "copy or memset", "copies and memsets")
    if key.startswith("sdpa_"):
        says += f"; by its kernels it is {backend_of([name for name, *_ in kernels])}"
    lines = [f"# a call of {key} is {says}"]
    for name, count, passed in found:
        lines.append(f"#   {count:g} x {name.replace(':', '.')[:100]}, {passed:.3f} us")
    return lines


def percentiles_line(key, times):
    """As tile-gate measure says it."""
    of_100 = statistics.quantiles(times, n=100, method="inclusive")
    return f"# microseconds of {key} p50 {of_100[49]:.4f} p90 {of_100[89]:.4f} p99 {of_100[98]:.4f}"


def measure(options, torch, shape, mask):
    """The lines of a configuration, and how many implementations they are of."""
    copies, graphs, written, lines = make_copies(options, torch, shape), {}, {}, []
    torch.cuda.synchronize()
    with torch.no_grad(), torch.cuda.stream(torch.cuda.ExternalStream(THREADS_STREAM)):
        calls = contenders(options, torch, shape, mask)
        for name, call in list(calls.items()):
            try:
                graphs[name], written[name] = record_graph(torch, call, copies)
            except RuntimeError as error:
                why = f"{name} {','.join(map(str, shape))} {mask}: {str(error).strip().splitlines()[0]}"
                lines.append(f"# not measured: {why}")
                print(f"measure_sdpa.py: not measured: {why}", file=sys.stderr)
        if not graphs:
            return lines, 0
        times, clock = time_graphs(torch, graphs, len(copies), options)
        found = {name: launched(torch, calls[name], copies[0]) for name in graphs}
    batch, heads, seqlen_q, seqlen_kv, head_dim = shape
    for name in graphs:
        key = (f"{name},{options.dtype},{batch},{heads},{options.heads_kv or heads},{seqlen_q},{seqlen_kv},{head_dim},"
               f"{mask_name(shape, mask)}")
        if not all(torch.isfinite(output).all() for output in written[name]):
            raise Unmeasured(f"{key}: its output is not finite")
        summed_up = percentiles_line(key, times[name]), *launch_lines(key, found[name])
        for line in summed_up:
            print(line.removeprefix("# "))
        lines += [f"{key},{i},{len(copies)},{clock:.1f},{time:.4f}" for i, time in enumerate(times[name])]
        lines += summed_up
    return lines, len(graphs)


def driver_version(words):
    """Of the words of /proc/driver/nvidia/version; None where they have none."""
    return next((word for word in words.split() if re.fullmatch(r"\d+(\.\d+)+", word)), None)


def head(options, torch):
    major, minor = map(int, torch.version.cuda.split(".")[:2])
    several = len(options.kernel or []) + len(options.backend or BACKENDS) > 1
    now = datetime.datetime.now(datetime.timezone.utc)
    driver = driver_version(DRIVER.read_text()) if DRIVER.is_file() else None
    return [f"# device: {torch.cuda.get_device_name(0)}", *([f"# driver: {driver}"] if driver else []),
            f"# cuda_runtime: {1000 * major + 10 * minor}", f"# pytorch: {torch.__version__}",
            f"# cudnn: {torch.backends.cudnn.version()}", f"# l2_bytes: {l2_bytes(options, torch)}",
            f"# time: {now:%Y-%m-%dT%H:%M:%SZ}", f"# method: {METHOD}{IN_TURN if several else ''}", COLUMNS]


def measure_all(options, torch):
    lines, measured = head(options, torch), 0
    for shape in options.shape:
        for mask in options.mask or ["none"]:
            found, count = measure(options, torch, shape, mask)
            lines += found
            measured += count
            torch.cuda.empty_cache()
    if not measured:
        raise Unmeasured("nothing has a kernel for any of the shapes; see the lines above")
    return lines


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=parse_shape, action="append", required=True, metavar="B,H,Sq,Skv,D")
    parser.add_argument("--mask", choices=("none", "causal"), action="append", help="default: none")
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="default: all of them")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="a bundled kernel, measured as well: scalar, wmma, stable, fast")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY, metavar="FILE",
                        help="libtilescope_launches.so, which has the bundled kernels (default: that of build/bin)")
    parser.add_argument("--heads-kv", type=int, help="KV heads, when fewer than query heads")
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--samples", type=int, default=200, help="of each configuration (default %(default)s)")
    parser.add_argument("--warmup-ms", type=float, default=300, help="default %(default)s")
    parser.add_argument("--most-seconds", type=float, default=20,
                        help=f"of an implementation and configuration, but {LEAST_SAMPLES} samples are taken (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs (default %(default)s)")
    parser.add_argument("--l2-bytes", type=int, help="where PyTorch does not know it")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        import torch
    except ImportError:
        raise Unmeasured("PyTorch: not found; run it with a Python that has it") from None
    if not torch.cuda.is_available():
        raise Unmeasured("PyTorch sees no GPU; run it on a machine that has one")
    options.output.write_text("\n".join(measure_all(options, torch)) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unmeasured, OSError) as error:
        print(f"measure_sdpa.py: {error}", file=sys.stderr)
        sys.exit(2)
