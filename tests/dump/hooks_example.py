#!/usr/bin/env python3
"""Takes code out of HOOKS.md: the program, or the block that begins with "// NAME".

usage: hooks_example.py HOOKS.md DESTINATION [NAME]
"""

import pathlib
import re
import sys

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
blocks = re.findall(r"^```cuda\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(), re.MULTILINE | re.DOTALL)
if len(sys.argv) == 4:
    found = [block for block in blocks if block.startswith(f"// {sys.argv[3]}\n")]
else:
    found = [block for block in blocks if "int main(" in block]
if len(found) != 1:
    sys.exit(f"{sys.argv[1]}: {len(found)} such blocks are in it; there is one")
pathlib.Path(sys.argv[2]).write_text(found[0])
