#!/usr/bin/env python3
"""Mutants of C++ and CUDA sources, after mutation testing: each differs in one place by one operator of the table below.

usage: mutate.py SOURCE [--functions NAME,...] [--operators NAME,...] [--write N FILE | --together LIST FILE | --count]

Prints a line of JSON for each mutant: number, operator, line, column, what stood there and what stands there then, and
whether the line is a hook or a declaration. --functions: only the bodies of these. --write: writes the source as mutant N
has it. --together: writes one source with the source as it is and the mutants of a list of such lines, each in a namespace of
its own. It reads tokens and knows no grammar, so that some mutants do not compile. Exit codes: 0, 2 bad arguments.

It shares nothing with oracle/: what it draws is no grammar of the search.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>(?:0[xX][0-9a-fA-F']+|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[a-zA-Z]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|<=>|\.\.\.|->|::|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.X | re.M | re.S)

EXCHANGED = {
    "relational": {"<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="]},
    "arithmetic": {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "+=": ["-=", "="], "-=": ["+="], "*=": ["/=", "="],
                   "/=": ["*="], "++": ["--"], "--": ["++"]},
    "bits": {"&": ["|"], "|": ["&"], "^": ["|"], "<<": [">>"], ">>": ["<<"], "&&": ["||"], "||": ["&&"]},
    "extremum": {"max": ["min"], "min": ["max"], "fmaxf": ["fminf"], "fminf": ["fmaxf"], "fmax": ["fmin"], "fmin": ["fmax"]},
}
NUMBER_TYPES = {"int", "unsigned", "long", "short", "float", "double", "bool", "char", "auto", "size_t", "half", "__half",
                "int32_t", "int64_t", "uint32_t", "uint64_t", "uint16_t", "uint8_t"}
WHOLE_TYPES = NUMBER_TYPES - {"float", "double", "half", "__half", "auto"}
NO_STATEMENT = {"for", "while", "if", "else", "do", "return", "switch", "case", "default", "using", "template", "struct", "class",
                "namespace", "constexpr", "const", "static", "typedef", "extern", "enum", "public", "private"}
HOOK = re.compile(r"\b(TILESCOPE_\w+|tilescope::\w+)")
OPERATORS = [*EXCHANGED, "constant", "variable", "index", "statement", "bound", "cast"]


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    at: int

    @property
    def end(self):
        return self.at + len(self.text)


@dataclasses.dataclass(frozen=True)
class Edit:
    """What stands in source[at:end] then."""
    operator: str
    at: int
    end: int
    text: str


def tokens_of(source):
    tokens = []
    at = 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None:
            at += 1
            continue
        if match.lastgroup != "skip":
            tokens.append(Token(match.lastgroup, match.group(), at))
        at = match.end()
    return tokens


def closing_of(tokens):
    """For the number of each opening bracket, that of the one that closes it, and the other way round."""
    pairs = {")": "(", "]": "[", "}": "{"}
    open_ones, partner = [], {}
    for i, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token.text in pairs.values():
            open_ones.append(i)
        elif token.text in pairs and open_ones and tokens[open_ones[-1]].text == pairs[token.text]:
            partner[i] = open_ones.pop()
            partner[partner[i]] = i
    return partner


def brackets_around(tokens, partner):
    """For each token the bracket that it stands in, "" outside of all."""
    around, open_ones = [], [""]
    for i, token in enumerate(tokens):
        if partner.get(i, i) < i:
            open_ones.pop()
        around.append(open_ones[-1])
        if partner.get(i, i) > i:
            open_ones.append(token.text)
    return around


class Source:
    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.partner = closing_of(self.tokens)
        self.around = brackets_around(self.tokens, self.partner)

    def sign(self, i):
        inside = 0 <= i < len(self.tokens) and self.tokens[i].kind == "sign"
        return self.tokens[i].text if inside else ""

    def between(self, first, last):
        """The text of tokens first to last, with both."""
        return self.text[self.tokens[first].at:self.tokens[last].end]

    def bodies(self, names):
        """Ranges of tokens within the braces of the functions."""
        for i, token in enumerate(self.tokens):
            if token.kind != "name" or token.text not in names or self.sign(i + 1) != "(" or i + 1 not in self.partner:
                continue
            after = self.partner[i + 1] + 1
            while after < len(self.tokens) and self.tokens[after].text in ("const", "noexcept"):
                after += 1
            if self.sign(after) == "{" and after in self.partner:
                yield range(after + 1, self.partner[after])


# ---- operators; each yields edits of token i

def is_binary(source, i):
    """Whether something stands before the sign that it may join: otherwise it is one of a pointer or of a number's sign."""
    before = source.tokens[i - 1] if i > 0 else None
    if before is None or before.text in ("return", "case"):
        return False
    return before.kind in ("number", "name") and before.text not in NUMBER_TYPES or before.text in (")", "]")


def exchanged(source, i):
    token = source.tokens[i]
    if token.text in ("+", "-", "*", "&") and not is_binary(source, i):
        if token.text == "-":
            yield Edit("arithmetic", token.at, token.end, "")
        return
    for operator, table in EXCHANGED.items():
        for text in table.get(token.text, []):
            yield Edit(operator, token.at, token.end, text)


def constants(source, i):
    token = source.tokens[i]
    if token.kind != "number":
        return
    match = re.fullmatch(r"(\d+)([uUlLzZ]*)", token.text)
    if match:
        value = int(match.group(1))
        others = {value + 1, value * 2, value // 2} | ({value - 1} if value > 0 else set())
        for other in sorted(others - {value}):
            yield Edit("constant", token.at, token.end, f"{other}{match.group(2)}")
    elif re.fullmatch(r"[\d.]+([eE][+-]?\d+)?[fF]?", token.text):
        suffix = token.text[-1] if token.text[-1] in "fF" else ""
        for factor in ("2.0", "0.5"):
            yield Edit("constant", token.at, token.end, f"({factor}{suffix} * {token.text})")


def declared(source):
    """(token number, name, type, number of the brace that ends its scope) of local variables, parameters and constants."""
    all_ones, scopes = [], [len(source.tokens)]
    for i, token in enumerate(source.tokens):
        if token.text == "{" and i in source.partner:
            scopes.append(source.partner[i])
        while i >= scopes[-1]:
            scopes.pop()
        if token.kind != "name" or i < 1 or source.sign(i + 1) not in ("=", ",", ";", ")", "[", "{", ":"):
            continue
        first = i - 1
        while first >= 0 and (source.tokens[first].text in ("*", "&", "const", "std", "::") or
                              source.tokens[first].text in NUMBER_TYPES):
            first -= 1
        words = [t.text for t in source.tokens[first + 1:i] if t.text not in ("const", "std", "::")]
        if any(word in NUMBER_TYPES for word in words):
            # A parameter is of the body that follows.
            end = scopes[-1]
            all_ones.append((i, token.text, " ".join(words), end))
        elif source.sign(i - 1) == ",":
            # Another one of the same declaration.
            before = next((one for one in reversed(all_ones) if one[3] == scopes[-1]), None)
            is_list = before is not None and ";" not in [t.text for t in source.tokens[before[0]:i]] and \
                "(" not in [t.text for t in source.tokens[before[0]:i]]
            if is_list and source.sign(i + 1) in ("=", ",", ";", "["):
                all_ones.append((i, token.text, before[2], before[3]))
    return all_ones


def end_of_declarator(source, i):
    """Past the value that the name at token i begins with, in which it has none yet."""
    while source.sign(i) not in (";", ",", ")") and i < len(source.tokens):
        i = source.partner[i] + 1 if source.partner.get(i, 0) > i else i + 1
    return i


def variables(source, i, known):
    token = source.tokens[i]
    if token.kind != "name" or source.sign(i - 1) in (".", "->", "::"):
        return
    in_scope = [one for one in known if end_of_declarator(source, one[0]) <= i < one[3]]
    mine = next((one for one in reversed(in_scope) if one[1] == token.text), None)
    if mine is None:
        return
    others = []
    for _, name, of_type, _ in reversed(in_scope):
        if name != token.text and of_type == mine[2] and name not in others:
            others.append(name)
    for name in others[:3]:
        yield Edit("variable", token.at, token.end, name)


def terms_of(source, first, last):
    """Ranges of tokens of the terms of a sum: [(sign's number or None, first, last)]."""
    terms, start, sign, i = [], first, None, first
    while i <= last:
        if i in source.partner and source.partner[i] > i:
            i = source.partner[i]
        elif source.sign(i) in ("+", "-") and is_binary(source, i):
            terms.append((sign, start, i - 1))
            sign, start = i, i + 1
        i += 1
    return [*terms, (sign, start, last)]


def indices(source, i):
    if source.sign(i) != "[" or i not in source.partner or source.partner[i] < i + 2 or source.sign(i - 1) in ("=", "(", ",", ";", "{"):
        return
    first, last = i + 1, source.partner[i] - 1
    if source.between(first, last) != "0":
        yield Edit("index", source.tokens[first].at, source.tokens[last].end, "0")
    terms = terms_of(source, first, last)
    if len(terms) < 2:
        return
    for sign, start, end in terms:
        if sign is None:
            yield Edit("index", source.tokens[start].at, source.tokens[terms[1][0]].end, "")
        else:
            yield Edit("index", source.tokens[sign].at, source.tokens[end].end, "")


def statements(source, i):
    """The statement that begins at token i, if it may be left out."""
    if source.around[i] != "{" or source.sign(i - 1) not in (";", "{", "}", ")") or source.tokens[i].kind not in ("name", "sign"):
        return
    first = source.tokens[i]
    if first.text in NO_STATEMENT | NUMBER_TYPES | {"}", "{", ";", ")"} or (first.kind == "sign" and first.text not in ("++", "--", "*")):
        return
    if source.sign(i - 1) == ")" and source.tokens[source.partner.get(i - 1, i) - 1].text not in ("for", "if", "while"):
        return
    end = i
    while end < len(source.tokens) and source.sign(end) != ";":
        if source.sign(end) in ("{", "}"):
            return
        end = source.partner[end] + 1 if source.sign(end) in ("(", "[") and end in source.partner else end + 1
    if end < len(source.tokens) and not is_declaration(source, i, end):
        yield Edit("statement", first.at, source.tokens[end - 1].end, "")


def is_declaration(source, first, end):
    """Two names side by side, or with signs of a pointer between them, begin one."""
    i = first
    while source.sign(i + 1) == "::":
        i += 2
    while source.sign(i + 1) in ("*", "&"):
        i += 1
    return i + 1 < end and source.tokens[first].kind == "name" and source.tokens[i + 1].kind == "name"


def bounds(source, i):
    """The end of a loop, one further or one less."""
    if source.tokens[i].text != "for" or source.sign(i + 1) != "(" or i + 1 not in source.partner:
        return
    close = source.partner[i + 1]
    ends = [j for j in range(i + 2, close) if source.sign(j) == ";"]
    if len(ends) != 2:
        return
    compared = next((j for j in range(ends[0], ends[1]) if source.sign(j) in ("<", "<=", ">", ">=", "!=")), None)
    if compared is not None:
        bound = source.between(compared + 1, ends[1] - 1)
        for by in ("+ 1", "- 1"):
            yield Edit("bound", source.tokens[compared + 1].at, source.tokens[ends[1] - 1].end, f"{bound} {by}")


def casts(source, i):
    token = source.tokens[i]
    if token.text in NUMBER_TYPES and source.sign(i + 1) == "(" and i + 1 in source.partner and source.sign(i - 1) not in ("<", "::"):
        yield Edit("cast", token.at, token.end, "")
    if token.text == "=" and i > 0:
        end = i
        while end < len(source.tokens) and source.sign(end) not in (";", ",", ")", "{", "}"):
            end = source.partner[end] + 1 if source.sign(end) in ("(", "[") and source.partner.get(end, 0) > end else end + 1
        text = source.between(i + 1, end - 1) if source.sign(end) == ";" and end > i + 1 else ""
        if not re.fullmatch(r"|-?[\d.]+\w*", text):
            yield Edit("cast", source.tokens[i + 1].at, source.tokens[end - 1].end, f"static_cast<int>({text})")


def edits_of(source, functions=None, operators=OPERATORS):
    """In the order of the text."""
    inside = range(len(source.tokens)) if functions is None else [i for body in source.bodies(functions) for i in body]
    known = declared(source)
    makers = [exchanged, constants, lambda s, i: variables(s, i, known), indices, statements, bounds, casts]
    edits = []
    for i in inside:
        for make in makers:
            edits += [edit for edit in make(source, i) if edit.operator in operators]
    return sorted(set(edits), key=lambda edit: (edit.at, edit.end, OPERATORS.index(edit.operator), edit.text))


def mutated(text, edit):
    return text[:edit.at] + edit.text + text[edit.end:]


def in_a_hook(text, at):
    """Whether a hook or a declaration is in the line, or reaches over it."""
    begin, end = text.rfind("\n", 0, at) + 1, (text.find("\n", at) + 1 or len(text) + 1) - 1
    if HOOK.search(text, begin, end):
        return True
    before = max((match.end() for match in HOOK.finditer(text, 0, begin)), default=None)
    if before is None:
        return False
    open_ones = 0
    for sign in re.findall(r"[()]", text[before:begin]):
        open_ones += 1 if sign == "(" else -1
        if open_ones <= 0:
            return False
    return open_ones > 0


def described(text, number, edit):
    line = text.count("\n", 0, edit.at) + 1
    is_hook = in_a_hook(text, edit.at) or HOOK.search(text, edit.at, edit.end) is not None
    return {"mutant": number, "operator": edit.operator, "line": line, "column": edit.at - text.rfind("\n", 0, edit.at),
            "before": text[edit.at:edit.end], "after": edit.text, "hook": is_hook}


def named(text, edits, one):
    """The edit that a line of JSON describes, which stands where it stood."""
    keys = ("operator", "line", "column", "before", "after")
    for edit in edits:
        if all(described(text, 0, edit)[key] == one[key] for key in keys):
            return edit
    raise KeyError(f"{one['operator']} of line {one['line']}, {one['before']} -> {one['after']}: the source has no such mutant any more")


def together(text, edits, list_of_mutants):
    """A source with the source as it is and the mutants of the list, each in a namespace of its own, and MUTANTS(name), which
    lists that name in each mutant."""
    bodies = {"as_it_is": text}
    bodies |= {f"mutant_{number}": mutated(text, named(text, edits, one)) for number, one in enumerate(list_of_mutants)}
    include = re.compile(r"^#include.*\n", re.M)
    parts = include.findall(text)
    for name, body in bodies.items():
        parts.append(f"namespace {name} {{\n{include.sub('', body)}}}\n")
    parts.append("#define MUTANTS(name) " + ", ".join(f"mutant_{number}::name" for number in range(len(list_of_mutants))) + "\n")
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--functions", type=lambda text: text.split(","))
    parser.add_argument("--operators", type=lambda text: text.split(","), default=OPERATORS)
    parser.add_argument("--write", nargs=2, metavar=("N", "FILE"))
    parser.add_argument("--together", nargs=2, metavar=("LIST", "FILE"))
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    unknown = set(options.operators) - set(OPERATORS)
    if unknown:
        parser.error(f"--operators: {', '.join(sorted(unknown))}: there are {', '.join(OPERATORS)}")
    text = options.source.read_text()
    source = Source(text)
    edits = edits_of(source, options.functions, options.operators)
    if options.functions and not list(source.bodies(options.functions)):
        parser.error(f"--functions: {options.source} has none of {', '.join(options.functions)}")
    if options.write:
        number, path = int(options.write[0]), pathlib.Path(options.write[1])
        if not 0 <= number < len(edits):
            parser.error(f"--write {number}: there are {len(edits)} mutants, from 0 on")
        path.write_text(mutated(text, edits[number]))
        return 0
    if options.together:
        mutants = json.loads(pathlib.Path(options.together[0]).read_text())
        try:
            pathlib.Path(options.together[1]).write_text(together(text, edits, mutants))
        except KeyError as error:
            parser.error(error.args[0])
        return 0
    if options.count:
        for operator in OPERATORS:
            print(f"{sum(edit.operator == operator for edit in edits):6} {operator}")
        print(f"{len(edits):6} together")
        return 0
    for number, edit in enumerate(edits):
        print(json.dumps(described(text, number, edit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
