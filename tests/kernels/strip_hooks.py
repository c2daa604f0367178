#!/usr/bin/env python3
"""Removes Tilescope's hooks from the source of a kernel, as if it had been written without them.

usage: strip_hooks.py SOURCE DESTINATION

Removes the include of dump/hook.h and every use of a hook macro, from its name to the closing parenthesis and
the semicolon after it; of TILESCOPE_BLOCK_CALL the call stays. Exit codes: 0 done, 1 there was no hook to remove, 2 it could not be done.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"dump/hook\.h"[ \t]*\n', re.MULTILINE)
HOOK = re.compile(r"[ \t]*\bTILESCOPE_(?:(?:HOST_)?SINK_PARAM|SINK_ARG|SINK_SYMBOL|NAMED_TILE|BLOCK|VALUE|REPLICATED|TILE|ROWS|FRAGMENT)\s*\(")
BLOCK = re.compile(r"[ \t]*\bTILESCOPE_(?:BLOCK_PARAM|CALL_PARAM|BLOCK_ARG)\b")
# What stands in place of these without hooks: the call behind five arguments, and nothing to record.
CALL = re.compile(r"\bTILESCOPE_BLOCK_CALL\s*\(")
RECORDS = re.compile(r"\bTILESCOPE_RECORDS\(\w+\)")


def end_of_call(text, start):
    """Position after the parenthesis that closes the one just before `start`."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position + 1
    raise ValueError("a hook macro's parentheses are not balanced")


def last_argument(text, arguments):
    """What stands behind so many arguments."""
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        arguments -= letter == "," and depth == 0
        if arguments == 0:
            return text[position + 1:].strip()
    raise ValueError("TILESCOPE_BLOCK_CALL has too few arguments")


def strip(text):
    """The text without hooks, and how many there were."""
    text, includes = INCLUDE.subn("", text)
    text, blocks = BLOCK.subn("", text)
    text, asked = RECORDS.subn("false", text)
    kept, position, hooks = [], 0, asked
    while match := CALL.search(text):
        end = end_of_call(text, match.end())
        text = text[:match.start()] + last_argument(text[match.end():end - 1], 5) + text[end:]
        hooks += 1
    while match := HOOK.search(text, position):
        kept.append(text[position:match.start()])
        position = end_of_call(text, match.end())
        if text.startswith(";", position):
            position += 1
            starts_line = match.start() == 0 or text[match.start() - 1] == "\n"
            if starts_line and text.startswith("\n", position):
                position += 1
        hooks += 1
    return "".join(kept) + text[position:], includes + blocks + hooks


def main(source, destination):
    text, hooks = strip(pathlib.Path(source).read_text())
    if hooks == 0:
        print(f"{source}: holds no hook", file=sys.stderr)
        return 1
    pathlib.Path(destination).write_text(text)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:]))
    except (OSError, ValueError) as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        sys.exit(2)
