#!/usr/bin/env python3
"""Takes the kernel out of HOOKS.md.

usage: hooks_example.py HOOKS.md DESTINATION
"""

import pathlib
import re
import sys

if len(sys.argv) != 3:
    sys.exit(__doc__)
blocks = re.findall(r"^```cuda\n(.*?)^```$", pathlib.Path(sys.argv[1]).read_text(), re.MULTILINE | re.DOTALL)
whole = [block for block in blocks if "int main(" in block]
if len(whole) != 1:
    sys.exit(f"{sys.argv[1]}: {len(whole)} programs are in it; there is one")
pathlib.Path(sys.argv[2]).write_text(whole[0])
