#!/usr/bin/env python3
"""Checks that the links of the pages lead somewhere, and that README.md lists every page.

usage: check_links.py ROOT

Prints one line for each relative link whose file or heading is not there, and for each page that README.md does not
link to. Links to other sites are not looked at. Exit codes: 0 none, 1 some, 2 no pages.
"""

import pathlib
import re
import sys

FENCE = re.compile(r"^( {0,3})(```+|~~~+).*?^ {0,3}\2[`~]*\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: +(\S+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
FOLDERS = (".github", "dump", "kernels", "oracle", "samples", "tests", "viewer")
NOT_LISTED = ("README.md", ".github/ISSUE_TEMPLATE/")


def pages_of(root):
    """The pages by their paths."""
    paths = [*root.glob("*.md"), *(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


def anchors_of(text):
    """What GitHub calls the headings: lower case, no punctuation, spaces as hyphens, numbered where they repeat."""
    anchors = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{name}-{number}" if number else name) in anchors:
            number += 1
        anchors.add(anchor)
    return anchors


def links_of(text):
    found = LINK.findall(CODE.sub("``", FENCE.sub("", text)))
    return [link for link in (inline or reference for inline, reference in found) if not ELSEWHERE.match(link)]


def broken_link(root, pages, page, link):
    """Why the link of the page leads nowhere; None where it does not."""
    name, _, anchor = link.partition("#")
    target = (root / page).parent / name if name else root / page
    if not target.exists():
        return f"there is no {name}"
    if not target.resolve().is_relative_to(root.resolve()):
        return f"{name} is not in the repository"
    path = target.resolve().relative_to(root.resolve()).as_posix()
    if anchor and anchor not in anchors_of(pages.get(path, "")):
        return f"{path} has no heading #{anchor}"
    return None


def find_violations(root):
    pages = pages_of(root)
    found = []
    for page, text in pages.items():
        for link in links_of(text):
            if why := broken_link(root, pages, page, link):
                found.append(f"{page}: links to {link}, and {why}")
    listed = {link.partition("#")[0] for link in links_of(pages.get("README.md", ""))}
    found += [f"README.md: does not list {page}; add a line to its index"
              for page in pages if page not in listed and not page.startswith(NOT_LISTED)]
    return found


def main(root):
    pages = pages_of(root)
    if not pages:
        print(f"{root}: holds no pages; give the root of the repository")
        return 2
    violations = find_violations(root)
    print("\n".join(violations + [f"{len(pages)} pages, {len(violations)} findings"]))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
