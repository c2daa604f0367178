#!/usr/bin/env python3
"""Takes code out of HOOKS.md: the program and the functions that stand alone behind it, or the block that begins
with "// NAME".

usage: hooks_example.py HOOKS.md DESTINATION [NAME]
"""

import pathlib
import re
import sys

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
blocks = re.findall(r"^```cuda\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(), re.MULTILINE | re.DOTALL)


def the_one(what, found):
    if len(found) != 1:
        sys.exit(f"{sys.argv[1]}: {len(found)} {what} are in it; there is one")
    return found[0]


if len(sys.argv) == 4:
    code = the_one(f"blocks {sys.argv[3]}", [block for block in blocks if block.startswith(f"// {sys.argv[3]}\n")])
else:
    code = the_one("programs", [block for block in blocks if "int main(" in block])
    code += "\n" + the_one("functions", [block for block in blocks if block.startswith("void ")])
pathlib.Path(sys.argv[2]).write_text(code)
