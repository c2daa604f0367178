"""Records a CUDA kernel that PyTorch calls, and adds what PyTorch computes from the same inputs.

usage: record.py [--shape B,H,HKV,SQ,SKV,D] [--causal] [--dtype f16|bf16] [--seed N] [--broken-reference] -o FILE
       record.py --backward [--fault NAME] [--shape ...] [--causal] [--dtype ...] [--seed N] -o FILE

Builds the extension, runs it, and writes one dump with /references/flash and /references/math for tile-diff. With
--backward the dump is that of the backward kernel, on o and lse of PyTorch's forward pass. Needs a GPU, PyTorch 2.3 or
newer, ninja, nvcc, h5py, and Tilescope: built here by ./dev build, or installed in TILESCOPE_ROOT.
"""

import argparse
import os
import pathlib
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.cpp_extension import load

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "samples"))
from references import DTYPES, append_references, for_each_query_head, references, scale_of  # noqa: E402
FAULTS = ["delta_missing", "delta_next_row", "mask_missing", "scale_missing", "group_overwritten", "dv_uses_ds"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="1,4,2,160,160,64", metavar="B,H,HKV,SQ,SKV,D",
                        help="sizes; D is 64 or 128 (default %(default)s)")
    parser.add_argument("--causal", action="store_true", help="row i sees keys up to i")
    parser.add_argument("--dtype", choices=DTYPES, default="f16", help="of q, k, v and o (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--broken-reference", action="store_true",
                        help="add a reference with another causal alignment; needs --causal")
    parser.add_argument("--backward", action="store_true", help="record the backward kernel")
    parser.add_argument("--fault", choices=FAULTS, default="", help="plant a mistake; needs --backward")
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", help="the dump to write")
    arguments = parser.parse_args()
    arguments.shape = tuple(int(size) for size in arguments.shape.split(","))
    if len(arguments.shape) != 6:
        parser.error("--shape has not six sizes")
    if arguments.broken_reference and not arguments.causal:
        parser.error("--broken-reference needs --causal")
    if arguments.broken_reference and arguments.backward:
        parser.error("--broken-reference is for the forward kernel")
    if arguments.fault and not arguments.backward:
        parser.error("--fault needs --backward")
    return arguments


def tilescope_folders():
    """Folders of the headers and of libtilescope: those of TILESCOPE_ROOT, where it is installed, or of build/ here."""
    if "TILESCOPE_ROOT" in os.environ:
        root = pathlib.Path(os.environ["TILESCOPE_ROOT"]).resolve()
        headers, libraries = root / "include/tilescope", root / "lib"
    else:
        headers, libraries = ROOT, ROOT / "build/dump"
    for path in (headers / "dump/hook.h", libraries / "libtilescope.so", libraries / "libtilescope_capture.a"):
        if not path.exists():
            sys.exit(f"record.py: {path} is missing; run ./dev build where nvcc is, or set TILESCOPE_ROOT to a prefix that "
                     "Tilescope with CUDA is installed in")
    return headers, libraries


def extension_flags(sources):
    """What load() takes beside the extension's name: compiled with hooks, and linked with what is installed."""
    headers, libraries = tilescope_folders()
    flags = ["-std=c++20", "-O2", "-DDEBUG_DUMP"]
    return {"sources": [str(source) for source in sources], "extra_include_paths": [str(headers), str(ROOT)],
            "extra_cflags": flags, "extra_cuda_cflags": flags,
            "extra_ldflags": [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltilescope_capture", "-ltilescope"]}


def build_extension():
    if not torch._C._GLIBCXX_USE_CXX11_ABI:
        sys.exit("record.py: this PyTorch is compiled with the old std::string, which libtilescope cannot be linked with; take "
                 "one where torch.compiled_with_cxx11_abi() is True")
    return load(name="tilescope_attention", **extension_flags([*sorted(HERE.glob("*.cu")), HERE / "binding.cpp"]))


def make_inputs(shape, dtype, seed):
    batch, heads, heads_kv, seqlen_q, seqlen_kv, head_dim = shape
    torch.manual_seed(seed)
    sizes = ((batch, heads, seqlen_q, head_dim), *[(batch, heads_kv, seqlen_kv, head_dim)] * 2)
    return [torch.randn(size, device="cuda", dtype=torch.float32).to(dtype) for size in sizes]


def fused_forward(q, k, v, causal):
    """o and lse of PyTorch's flash attention, or of its efficient attention where the first would align the causal
    mask to the other corner."""
    k, v = for_each_query_head(q, k, v)
    aten, scale = torch.ops.aten, scale_of(q)
    if causal and q.shape[2] != k.shape[2]:
        found = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal, scale=scale)
    else:
        found = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)
    # Some versions pad the rows of lse.
    return found[0].contiguous(), found[1][:, :, :q.shape[2]].contiguous()


def math_gradients(q, k, v, dout, causal):
    """dq, dk and dv by PyTorch's autograd in float32, those of k and v added up over the query heads."""
    leaves = [tensor.float().requires_grad_() for tensor in (q, k, v)]
    with sdpa_kernel(SDPBackend.MATH):
        o = scaled_dot_product_attention(leaves[0], *for_each_query_head(q, *leaves[1:]), is_causal=causal,
                                         scale=scale_of(q))
    return torch.autograd.grad(o, leaves, dout.float())


def record_forward(extension, arguments, q, k, v, path):
    o, _ = extension.forward(q, k, v, arguments.causal, path)
    found = references(q, k, v, arguments.causal, broken=arguments.broken_reference)
    append_references(path, found, arguments.dtype)
    for name, (other, _) in found.items():
        print(f"largest difference to {name}: {(o.float() - other.float()).abs().max().item():.3g}")


def record_backward(extension, arguments, q, k, v, path):
    dout = torch.randn(q.shape, device=q.device, dtype=torch.float32).to(q.dtype)
    o, lse = fused_forward(q, k, v, arguments.causal)
    gradients = extension.backward(q, k, v, o, lse, dout, arguments.causal, path, arguments.fault)
    expected = math_gradients(q, k, v, dout, arguments.causal)
    for name, gradient, other in zip(("dq", "dk", "dv"), gradients, expected):
        difference = (gradient.float() - other).abs().max().item()
        largest = other.abs().max().item()
        print(f"{name}: largest difference to autograd {difference:.3g}, largest element {largest:.3g}")


def main():
    arguments = parse_arguments()
    extension = build_extension()
    q, k, v = make_inputs(arguments.shape, DTYPES[arguments.dtype], arguments.seed)
    part = arguments.output + ".part"
    record = record_backward if arguments.backward else record_forward
    record(extension, arguments, q, k, v, part)
    os.replace(part, arguments.output)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
