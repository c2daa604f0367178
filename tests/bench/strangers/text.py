"""The text of kernels: the sites of a template, a kernel with other expressions at some of them, and its machine code."""

import ctypes
import pathlib
import subprocess
import tempfile

from strangers import call

HERE = pathlib.Path(__file__).parent
MARK = "SITE("


def template(direction):
    return (HERE / f"{direction}.c").read_text().split("*/\n\n", 1)[1]


def end_of(text, begin):
    """Where the parenthesis that is open at begin closes."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError(f"a parenthesis is not closed: {text[begin:begin + 60]}")


def render(text, changes, found=None):
    """The text without its marks, with changes[site] in place of the expressions; found collects what stood there."""
    at = text.find(MARK)
    if at < 0:
        return text
    begin = at + len(MARK)
    end = end_of(text, begin)
    site, expression = text[begin:end].split(",", 1)
    expression = render(expression.strip(), changes, found)
    if found is not None:
        found[site] = expression
    return text[:at] + changes.get(site, expression) + render(text[end + 1:], changes, found)


def expressions(direction):
    """{site: its healthy expression}"""
    found = {}
    render(template(direction), {}, found)
    return found


def changed_lines(direction, changes):
    """What the changes do to the text, as a diff without context."""
    healthy, mistaken = (render(template(direction), each).splitlines() for each in ({}, changes))
    pairs = [(old.strip(), new.strip()) for old, new in zip(healthy, mistaken) if old != new]
    return [line for old, new in pairs for line in ("- " + old, "+ " + new)]


def compile_kernels(direction, all_changes):
    """A function for each of the changes, of one compilation."""
    last_include = "#include <stdint.h>\n"
    prelude = (HERE / "prelude.c").read_text().replace(last_include, last_include + call.declaration(), 1)
    body = template(direction)
    kernels = [render(body, changes).replace("KERNEL", f"kernel_{i}", 1) for i, changes in enumerate(all_changes)]
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder) / "kernels.c", pathlib.Path(folder) / "kernels.so"
        source.write_text("\n".join([prelude, *kernels]))
        subprocess.run(["cc", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o", library, source, "-lm"], check=True)
        loaded = ctypes.CDLL(str(library))
    functions = [loaded[f"kernel_{i}"] for i in range(len(kernels))]
    for function in functions:
        function.restype = None
    return functions
