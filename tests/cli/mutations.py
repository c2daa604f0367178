"""Changes to a recording that keep it a file of HDF5: its attributes, links, types, chunks, filters, spaces and values.

mutate(file, draw) makes one of them, which `draw` chooses, in a file that is open, and says in a few words which.
"""

import h5py
import numpy as np

NUMBERS = [0, 1, -1, 2, 3, 7, 16, 127, 255, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)]
REALS = [0.0, -0.0, 0.5, -1.0, 1e-310, 1e-45, 3.4e38, 1e300, np.inf, -np.inf, np.nan]
WORDS = ["", "none", "causal", "f32", "bf16", "e4m3", "true", "A" * 300, "A" * 60000, "\x1b[31mred\x1b[0m", "two\nlines", "q\u00e9\u202e", "%s%n"]
TYPES = ["f2", "<f4", ">f4", "f8", "i1", "u1", "i2", "i4", ">i4", "i8", "u8", "c8", "?", "S5", "V3", [("a", "f4"), ("b", "i4")], ("f4", (2,))]
SPECIAL_TYPES = [h5py.string_dtype(), h5py.string_dtype("ascii", 4), h5py.vlen_dtype("f4"), h5py.ref_dtype,
                 h5py.enum_dtype({"no": 0, "yes": 1}, "u1")]
MOST_ELEMENTS = 1 << 18


def values_of(draw):
    """What an attribute may be set to, of a kind each."""
    return {
        "a number": lambda: np.array(draw.choice(NUMBERS), np.int64),
        "a small number": lambda: np.array(draw.randrange(128)).astype(draw.choice(["i1", "u1", "i2", "u4", ">i4"])),
        "a real number": lambda: np.float64(draw.choice(REALS)),
        "a short real number": lambda: np.float32(draw.choice([real for real in REALS if abs(real) < 1e38])),
        "a word": lambda: draw.choice(WORDS),
        "bytes": lambda: np.bytes_(bytes(draw.randrange(1, 256) for _ in range(draw.randrange(1, 40)))),
        "words": lambda: [draw.choice(WORDS[:8]) for _ in range(draw.randrange(1, 5))],
        "numbers": lambda: np.array([draw.choice(NUMBERS) for _ in range(draw.randrange(1, 9))], np.int64),
        "reals": lambda: np.array([draw.choice(REALS) for _ in range(draw.randrange(1, 9))]),
        "nothing": lambda: h5py.Empty(draw.choice(["f4", "i8", "S4"])),
        "a table": lambda: np.zeros((draw.randrange(0, 4), 3), draw.choice(["f4", "i8"])),
        "a compound": lambda: np.zeros(2, [("a", "f4"), ("b", "i4")]),
        "much": lambda: np.arange(draw.choice([1000, 8000])),
    }


def objects_of(file):
    """Names of all that is reached without following links in circles."""
    names = ["/"]
    file.visit(lambda name: names.append("/" + name))
    return names


def datasets_of(file):
    return [name for name in objects_of(file) if isinstance(file.get(name), h5py.Dataset)]


def change_attribute(file, draw):
    carriers = [name for name in objects_of(file) if len(file[name].attrs)]
    if not carriers:
        return "no attribute"
    name = draw.choice(carriers)
    attributes = file[name].attrs
    key = draw.choice(sorted(attributes))
    kind = draw.choice(["removed", "renamed", "near", "near", "near", *values_of(draw)])
    if kind == "near" and np.issubdtype(getattr(attributes[key], "dtype", "S"), np.number):
        attributes.modify(key, attributes[key] + attributes[key].dtype.type(draw.choice([-1, 1, 2])))
    elif kind == "near":
        attributes[key] = draw.choice(WORDS)
    elif kind == "removed":
        del attributes[key]
    elif kind == "renamed":
        attributes.modify(key + "x", attributes[key])
        del attributes[key]
    else:
        attributes[key] = values_of(draw)[kind]()
    return f"{name}@{key} {kind}"


def add_attribute(file, draw):
    name = draw.choice(objects_of(file))
    key = draw.choice(["dtype", "s_scaled", "log_base", "requires", "mask", "window_left", "kv_order", "splits", "heads", "unheard_of", "ended"])
    kind = draw.choice(list(values_of(draw)))
    file[name].attrs[key] = values_of(draw)[kind]()
    return f"{name}@{key} is now {kind}"


def change_link(file, draw):
    names = objects_of(file)[1:]
    if not names:
        return "no link"
    name, other = draw.choice(names), draw.choice(objects_of(file))
    into = name + "_" if draw.random() < 0.3 else name
    kind = draw.choice(["removed", "moved", "hard", "soft", "dangling", "itself", "external", "up"])
    if kind == "moved":
        file.move(name, name + "_moved")
        return f"{name} moved"
    target = file[other] if kind in ("hard", "up") else None
    if into == name:
        del file[name]
    links = {"hard": lambda: target, "soft": lambda: h5py.SoftLink(other), "dangling": lambda: h5py.SoftLink("/no/such"),
             "itself": lambda: h5py.SoftLink(into), "external": lambda: h5py.ExternalLink("other.h5", other), "up": lambda: file["/"]}
    if kind in links:
        file[into] = links[kind]()
    return f"{into} {kind} {other}"


def content_of(dataset, shape, dtype):
    """As much of it as fits, for a dataset of that shape and type."""
    if h5py.check_dtype(vlen=dtype) or h5py.check_dtype(ref=dtype) or dtype.names or dtype.subdtype:
        return None
    if 0 in shape or np.prod(shape, dtype=float) > MOST_ELEMENTS:
        return None
    old = dataset[()] if dataset.shape is not None and dataset.dtype.kind in "fiu" else np.zeros(1)
    with np.errstate(all="ignore"):
        return np.resize(np.nan_to_num(old), shape).astype(dtype)


def create_again(file, name, shape, dtype, **how):
    """The dataset under its name, with its attributes, made otherwise."""
    old = file[name]
    attributes = dict(old.attrs)
    data = None if shape is None else content_of(old, shape, np.dtype(dtype))
    del file[name]
    if shape is None:
        file[name] = h5py.Empty("f4")
    else:
        file.create_dataset(name, shape=shape, dtype=dtype, data=data, **how)
    for key, value in attributes.items():
        file[name].attrs[key] = value


def drawn_dataset(file, draw):
    plain = [name for name in datasets_of(file) if file[name].shape]
    return draw.choice(plain) if plain else None


def change_type(file, draw):
    name = drawn_dataset(file, draw)
    if name is None:
        return "no dataset"
    dtype = draw.choice(TYPES + SPECIAL_TYPES)
    create_again(file, name, file[name].shape, dtype, chunks=file[name].chunks)
    return f"{name} of type {dtype}"


def change_chunks(file, draw):
    name = drawn_dataset(file, draw)
    if name is None:
        return "no dataset"
    shape = file[name].shape
    chunks = draw.choice([None, True, shape, tuple(max(1, extent // 2) for extent in shape), (1,) * len(shape),
                          tuple(draw.randrange(1, extent + 1) for extent in shape)])
    create_again(file, name, shape, file[name].dtype, chunks=chunks)
    return f"{name} in chunks {chunks}"


def change_filters(file, draw):
    name = drawn_dataset(file, draw)
    if name is None:
        return "no dataset"
    chosen = draw.choice([{"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {"fletcher32": True},
                          {"compression": "gzip", "shuffle": True, "fletcher32": True}, {"scaleoffset": 3}])
    if "scaleoffset" in chosen and file[name].dtype.kind != "i":
        chosen = {"compression": "gzip", "compression_opts": 9}
    create_again(file, name, file[name].shape, file[name].dtype, chunks=file[name].chunks or True, **chosen)
    return f"{name} with {chosen}"


def change_space(file, draw):
    name = drawn_dataset(file, draw)
    if name is None:
        return "no dataset"
    shape = list(file[name].shape)
    axis = draw.randrange(len(shape))
    kind = draw.choice(["one more", "one less", "none", "huge", "axis more", "axis less", "null", "unlimited", "swapped"])
    how = {}
    if kind == "null":
        create_again(file, name, None, None)
        return f"{name} null"
    if kind == "unlimited":
        how = {"maxshape": (None,) * len(shape)}
    elif kind == "axis more":
        shape.insert(axis, draw.choice([1, 2]))
    elif kind == "axis less":
        del shape[axis]
    elif kind == "swapped":
        shape.reverse()
    else:
        shape[axis] = {"one more": shape[axis] + 1, "one less": max(0, shape[axis] - 1), "none": 0, "huge": 1 << 40}[kind]
    if kind == "huge":
        how = {"chunks": tuple(min(extent, 16) for extent in shape)}
    create_again(file, name, tuple(shape), file[name].dtype, **how)
    return f"{name} {kind} {tuple(shape)}"


def change_values(file, draw):
    name = drawn_dataset(file, draw)
    if name is None or file[name].dtype.kind not in "fiu":
        return "no numbers"
    dataset = file[name]
    if 0 in dataset.shape or np.prod(dataset.shape, dtype=float) > MOST_ELEMENTS:
        return "no numbers"
    values = dataset[()]
    rng = np.random.default_rng(draw.randrange(2**32))
    kind = draw.choice(["bits", "one", "row", "all", "unwritten"])
    with np.errstate(all="ignore"):
        special = np.array(draw.choice(REALS if values.dtype.kind == "f" else [0, 1, 255])).astype(values.dtype)
    if kind == "bits":
        raw = bytearray(values.tobytes())
        for _ in range(draw.choice([1, 8, 64])):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        values = np.frombuffer(bytes(raw), values.dtype).reshape(values.shape)
    elif kind == "one":
        values[np.unravel_index(draw.randrange(values.size), values.shape)] = special
    elif kind == "row":
        values[tuple(rng.integers(0, values.shape[:-1]))] = special
    elif kind == "all":
        values[...] = special
    elif values.dtype == np.float32:
        values.view(np.uint32)[rng.random(values.shape) < 0.3] = 0x7FD17E5C
    dataset[...] = values
    return f"{name} holds {kind} {special}"


def store_elsewhere(file, draw):
    """Where no recording may have it."""
    name = drawn_dataset(file, draw)
    if name is None:
        return "no dataset"
    shape, dtype = file[name].shape, file[name].dtype
    kind = draw.choice(["external", "virtual", "filled"])
    del file[name]
    if kind == "external":
        file.create_dataset(name, shape, dtype, external=[("other.raw", 0, h5py.h5f.UNLIMITED)])
    elif kind == "virtual":
        layout = h5py.VirtualLayout(shape, dtype)
        layout[...] = h5py.VirtualSource("other.h5", "there", shape)
        file.create_virtual_dataset(name, layout)
    else:
        file.create_dataset(name, shape, dtype, chunks=True, fillvalue=None if dtype.kind not in "fiu" else 1)
    return f"{name} {kind}"


MUTATIONS = [change_attribute] * 3 + [change_values] * 6 + [add_attribute, change_link, change_type, change_chunks, change_filters,
                                                            change_space, store_elsewhere]


def mutate(file, draw):
    mutation = draw.choice(MUTATIONS)
    try:
        return mutation(file, draw)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError) as refused:
        # HDF5 or h5py will not have it; what it had begun is as good.
        return f"{mutation.__name__} refused: {str(refused)[:60]}"
