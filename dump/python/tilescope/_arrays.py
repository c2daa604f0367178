"""Arrays of PyTorch, NumPy, JAX and whatever speaks DLPack, as bits in host memory that nobody copied without need."""

import sys

import numpy as np

# The names of dtypes of all of them, and what tilescope calls these.
DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "float4_e2m1fn_x2": "e2m1x2",
    "float4_e2m1fn": "e2m1",
}
# Two codes in a byte, the first in its lower half, and what they are one by one.
PACKED = {"e2m1x2": "e2m1"}
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class HostBits:
    """An array as unsigned integers of its width, with the dtype that they stand for."""

    def __init__(self, bits, dtype):
        self.bits = bits
        self.dtype = dtype

    @property
    def shape(self):
        return self.bits.shape

    def with_bits(self, bits):
        """The same dtype, another view."""
        return HostBits(bits, self.dtype)


def _dtype_of(what, name, codes_of):
    name = str(name).rsplit(".", maxsplit=1)[-1]
    if name == "uint8" and codes_of is not None:
        return codes_of
    if name not in DTYPES:
        raise TypeError(
            f"{what} is {name}; pass {', '.join(DTYPES)}, or uint8 with dtypes={{{what!r}: 'e4m3'}} or 'e5m2', "
            "and of other codes the numbers that they stand for"
        )
    return DTYPES[name]


def _torch_bits(what, tensor, codes_of):
    import torch

    dtype = _dtype_of(what, tensor.dtype, codes_of)
    tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return _one_by_one(tensor.view(integers).numpy(), dtype)


def _numpy_bits(what, array, codes_of):
    dtype = _dtype_of(what, array.dtype.name, codes_of)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return _one_by_one(array.view(BITS[array.dtype.itemsize]), dtype)


def _one_by_one(bits, dtype):
    if dtype not in PACKED:
        return HostBits(bits, dtype)
    codes = np.stack([bits & 15, bits >> 4], axis=-1)
    return HostBits(codes.reshape(*bits.shape[:-1], -1), PACKED[dtype])


def host_bits(what, array, codes_of=None):
    """The array's bits in host memory: a view where it lies there already, a copy where it lies on a device.

    `codes_of` is the dtype that elements of uint8 are codes of. Errors: TypeError for what is no array, and for a dtype
    that no kernel stores.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _torch_bits(what, array, codes_of)
    if isinstance(array, np.ndarray):
        return _numpy_bits(what, array, codes_of)
    if type(array).__module__.split(".")[0] in ("jax", "jaxlib"):
        return _numpy_bits(what, np.asarray(array), codes_of)
    if hasattr(array, "get") and type(array).__module__.startswith("cupy"):
        return _numpy_bits(what, array.get(), codes_of)
    if hasattr(array, "__dlpack__"):
        return _numpy_bits(what, np.from_dlpack(array), codes_of)
    found = type(array).__name__
    raise TypeError(f"{what} is a {found}; pass an array of PyTorch, NumPy, JAX or one that speaks DLPack")


def shape_bits(what, array, codes_of=None):
    """As host_bits(), of its shape and dtype alone: the elements stay where they are, and read as zeros."""
    dtype = _dtype_of(what, array.dtype, codes_of)
    width = array.dtype.itemsize
    return HostBits(np.broadcast_to(np.zeros((), BITS[width]), tuple(array.shape)), dtype)


def numbers(what, values):
    """A flat list of floats of an array, a number or a sequence."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.detach().double().cpu().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} holds no numbers: {error}") from None
