"""The grammar: a mistake is a site, a rewriting of its expression by a production, and a guard that says where it applies.

Productions rewrite text. They know which names are in scope and nothing of what the expression is for. A family is a kind
of change: the sites that have it and the productions that make it. Each of FAMILIES is a row of the tally.
"""

import dataclasses
import itertools
import re

from strangers.problem import chance, pick
from strangers.sites import INSTEAD, LEFT_OVER

FAMILIES = ("address", "subset", "weight", "recurrence", "value", "constant", "type", "mask", "merge", "store")
STRIDES = ("BM", "BN", "D", "DV", "NQ", "NK", "LDQ", "LDK", "LDV", "LDP", "H", "HKV")
LEGAL_IN_16_BITS = ("scale", "score", "bias", "cap")
OPERATORS = {"<": ("<=", ">", "!="), "<=": ("<", ">=", "!="), ">=": (">", "<=", "=="), "==": ("<", ">")}


@dataclasses.dataclass(frozen=True)
class Mistake:
    site: object
    family: str
    production: str
    scope: str
    guard: str
    text: str  # what stands in place of the site's expression


def occurrences(expression, names):
    return [match for match in re.finditer(r"\b[A-Za-z]\w*\b", expression) if match.group() in names]


def with_one(rng, expression, names, made):
    """The expression with made(name) in place of one occurrence of one of the names, or None where there is none."""
    found = occurrences(expression, names)
    if not found:
        return None
    match = pick(rng, *found)
    return expression[: match.start()] + made(match.group()) + expression[match.end():]


# ---- whole numbers

def power(rng):
    return pick(rng, 1, 2, 4, 8, 16)


def shifted(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: f"({x} {pick(rng, '+', '-')} {pick(rng, 1, 2, 3, 4, 8, 16)})")


def exclusive_or(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: f"({x} ^ {pick(rng, 1, 2, 3, 4, 5, 8, 12, 16)})")


def mixed_bits(rng, e, site):
    other = pick(rng, *site.scope)
    return with_one(rng, e, site.scope, lambda x: f"({x} ^ ({other} & {pick(rng, 1, 3, 7, 8)}))" if x != other else x)


def wrapped(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: f"({x} % {pick(rng, 2, 4, 8, 12, 16, '(BN / 2)', '(D / 2)', '(BM / 2)')})")


def coarse(rng, e, site):
    n = pick(rng, 2, 4, 8)
    return with_one(rng, e, site.scope, lambda x: f"({x} / {n} * {n})")


def reversed_order(rng, e, site):
    n = pick(rng, 4, 8, 16)
    return with_one(rng, e, site.scope, lambda x: f"({x} / {n} * {n} + {n - 1} - {x} % {n})")


def swapped_bits(rng, e, site):
    low = pick(rng, 0, 1, 2)
    high = low + pick(rng, 1, 2)
    mask = ~(1 << low | 1 << high)
    return with_one(rng, e, site.scope,
                    lambda x: f"(({x} & {mask}) | ({x} >> {low} & 1) << {high} | ({x} >> {high} & 1) << {low})")


def permuted(rng, e, site):
    n, odd = pick(rng, (8, 3), (8, 5), (16, 3), (16, 7), (16, 11))
    return with_one(rng, e, site.scope, lambda x: f"({x} / {n} * {n} + {x} * {odd} % {n})")


def clamped(rng, e, site):
    n = pick(rng, 3, 7, 12, 15, 20)
    return with_one(rng, e, site.scope, lambda x: f"({x} < {n} ? {x} : {n})")


def scaled(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: f"({x} * {pick(rng, 2, 3)})")


def dropped(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: "0")


def another_name(rng, e, site):
    return with_one(rng, e, site.scope, lambda x: pick(rng, *site.scope))


def another_stride(rng, e, site):
    return with_one(rng, e, STRIDES, lambda x: pick(rng, *STRIDES))


def padded_stride(rng, e, site):
    return with_one(rng, e, STRIDES, lambda x: f"({x} {pick(rng, '+', '-')} {pick(rng, 1, 2, 4, 8)})")


def exchanged(rng, e, site):
    """Two names of the expression in each other's place."""
    present = sorted({match.group() for match in occurrences(e, site.scope)})
    if len(present) < 2:
        return None
    first, second = (present[i] for i in rng.choice(len(present), 2, replace=False))
    return re.sub(rf"\b({first}|{second})\b", lambda match: second if match.group() == first else first, e)


def moved(rng, e, site):
    return f"{e} {pick(rng, '+', '-')} {pick(rng, 1, 2, 3, 4, 8, 16)}"


def other_index(rng, e, site):
    return pick(rng, *INSTEAD[site.name]) if site.name in INSTEAD else None


# ---- ranges and conditions

def other_range(rng, e, site):
    if site.name in INSTEAD:
        return pick(rng, *INSTEAD[site.name])
    if e == "0":
        return str(pick(rng, 1, 2, 4, 8))
    return pick(rng, f"{e} - {power(rng)}", f"{e} / 2", f"{e} / 4 * 3", str(pick(rng, 1, 4, 8, 12)),
                f"{e} + {pick(rng, 1, 2, 4)}", f"{e} / 16 * 16 - 8")


def range_by_name(rng, e, site):
    name = pick(rng, *site.scope)
    return pick(rng, f"{name} % {pick(rng, 2, 4, 8)}", f"{e} - {name} % {pick(rng, 2, 4)}")


def other_operator(rng, e, site):
    match = re.search(r"<=|>=|==|<|>", e)
    return e[: match.start()] + pick(rng, *OPERATORS[match.group()]) + e[match.end():] if match else None


def moved_bound(rng, e, site):
    return f"{e} {pick(rng, '+', '-')} {pick(rng, 1, 1, 2, 4, 8)}"


def never(rng, e, site):
    return "0"


def always(rng, e, site):
    return "1"


def other_test(rng, e, site):
    name = pick(rng, *site.scope)
    return pick(rng, f"{e} && {name} % {pick(rng, 2, 4, 8)} != {pick(rng, 0, 1)}", f"{e} && {name} >= {pick(rng, 1, 4, 8)}",
                f"{e} && {name} < {pick(rng, 12, 16, 20)}")


# ---- floats

def factor(rng, e, site):
    return f"({e}) * " + pick(rng, "0.5f", "2.0f", "0.6931472f", "1.442695f", "0.9f", "1.0625f", "-1.0f", "(float)D",
                              "(1.0f / D)", "SM_SCALE")


def offset(rng, e, site):
    return f"({e}) + {pick(rng, '0.25f', '-0.5f', '1.0f', '-2.0f', '0.0625f')}"


def constant(rng, e, site):
    return pick(rng, "0.0f", "1.0f", "0.5f", "-1.0f")


def literal(rng, e, site):
    """Another constant inside of the expression."""
    return with_one(rng, e, ("FACTOR", "STRETCH", "UNIT", "TOP", "LSE_UNIT", "SUM_SCALE", "CAP"),
                    lambda x: pick(rng, "1.0f", f"({x} * {x})", f"({x} * 0.5f)", f"({x} * 1.25f)", "SM_SCALE", "1.442695f",
                                   "0.6931472f"))


def by_sign(rng, e, site):
    return pick(rng, f"fmaxf({e}, 0)", f"fabsf({e})", f"({e}) < 0 ? ({e}) * 0.5f : ({e})", f"({e}) > 0 ? -({e}) : ({e})")


def by_threshold(rng, e, site):
    threshold = pick(rng, "0.25f", "0.5f", "1.0f", "0.125f", "1.5f")
    return pick(rng, f"fminf({e}, {threshold})", f"fmaxf({e}, -{threshold})", f"fabsf({e}) < {threshold} ? 0 : ({e})",
                f"({e}) > {threshold} ? {threshold} * 2 - ({e}) : ({e})", f"({e}) > {threshold} ? ({e}) * 2 : ({e})")


def by_bits(rng, e, site):
    return pick(rng, f"(bits_of({e}) >> 23 & 1 ? ({e}) * 2 : ({e}))",
                f"(bits_of({e}) >> {pick(rng, 20, 21, 22)} & 1 ? -({e}) : ({e}))",
                f"with_bits(bits_of({e}) & {pick(rng, '0xffc00000u', '0xff800000u', '0xffe00000u')})",
                f"with_bits(bits_of({e}) | {pick(rng, '0x00400000u', '0x00200000u')})",
                f"with_bits(bits_of({e}) ^ {pick(rng, '0x00400000u', '0x00200000u', '0x00600000u')})")


def other_float(rng, e, site):
    return pick(rng, *INSTEAD[site.name]) if site.name in INSTEAD else None


def stale(rng, e, site):
    """What was there before: of the tile, the block or the head before this one."""
    return pick(rng, *LEFT_OVER[site.name]) if site.name in LEFT_OVER else None


def first_value(rng, e, site):
    return pick(rng, "0.0f", "1.0f", "0.5f", "2.0f", "-1.0f", f"(float)({pick(rng, *site.scope)} % 4)")


def other_type(rng, e, site):
    """Scores in 16 bits are what healthy kernels keep, too (dump/FORMAT.md)."""
    drawn = pick(rng, "E4M3", "INT8", *(("F16", "BF16") if site.name not in LEGAL_IN_16_BITS else ()))
    return drawn if site.kind == "type" else f"narrow({e}, {drawn})"


def weighted(rng, e, site):
    name, n = site.scope[0], pick(rng, 2, 4, 8, 16)
    k = int(rng.integers(n))
    return f"({e}) * " + pick(rng, f"({name} % {n} != {k})", f"({name} % {n} == {k} ? 2 : 1)", f"(1 + {name} % {n})",
                              f"({name} / {n} % 2 ? 2 : 1)", f"({name} / {n} % 2 == 0)", f"({name} < {n})", "0.5f", "2", "4",
                              "32")


def noisy(rng, e, site):
    """Of no pattern: what no description covers (never drawn as a mistake, only asked for by name)."""
    key = "0"
    for name in site.scope:
        key = f"({key} * 97 + {name})"
    amplitude = pick(rng, "0.25f", "0.03f")
    return f"({e}) * (1 + {amplitude} * hashed({int(rng.integers(1 << 31))}u ^ (uint32_t){key}))"


INDEX = (shifted, exclusive_or, mixed_bits, wrapped, coarse, reversed_order, swapped_bits, permuted, clamped, scaled,
         dropped, another_name, another_stride, padded_stride, exchanged, moved, other_index, other_index, other_index)
VALUE = (by_sign, by_threshold, by_bits)
CONSTANT = (factor, offset, constant, literal)
TEST = (other_operator, moved_bound, never, always, shifted, other_test, another_name)
RANGE = (other_range, range_by_name)

# Of each family: places (None: any but mask, merge and store), and the productions of each kind of site.
GRAMMAR = {
    "address": (None, {"index": INDEX}),
    "subset": (None, {"range": RANGE, "test": TEST}),
    "weight": (None, {"term": (weighted,)}),
    "recurrence": (None, {"first": (first_value, other_float), "state": (other_float,), "value": (stale,)}),
    "value": (None, {"value": VALUE, "term": VALUE}),
    "constant": (None, {"value": (*CONSTANT, other_float)}),
    "type": (None, {"type": (other_type,), "value": (other_type,), "term": (other_type,)}),
    "mask": (("mask",), {"test": (other_operator, moved_bound, always, shifted, other_test, another_name, dropped),
                         "first": (other_float,)}),
    "merge": (("merge",), {"index": INDEX, "range": RANGE, "test": (other_index,), "state": (other_float, factor, offset),
                           "term": (weighted, factor, *VALUE)}),
    "noise": (("operand", "sum"), {"value": (noisy,), "term": (noisy,)}),
    "store": (("store",), {"index": INDEX, "test": TEST, "value": (*VALUE, *CONSTANT, other_float), "type": (other_type,)}),
}


def sites_of(family, sites):
    places, productions = GRAMMAR[family]
    return [site for site in sites if site.kind in productions
            and (site.place in places if places else site.place not in ("mask", "merge", "store"))]


# ---- where it applies

def guards(rng, site):
    """{class of scope: conditions} that the names in scope allow."""
    scope, found = site.scope, {"batch": ["b == B - 1"]}
    if "h" in scope:
        found["head"] = ["h == 0", "h == 1", "h >= 1", "h % 2 == 1", "h == H - 1"]
    if "t" in scope:
        found["tile"] = ["t == 0", "t == 1", "t > 0", "t % 2 == 1", "t == (NK - 1) / BN"]
    if "qb" in scope:
        found["tile of q"] = ["qb == 0", "qb > 0", "qb % 2 == 1"]
    if "r" in scope:
        found["warp"] = [f"r / {n} % {k} == {int(rng.integers(k))}" for n, k in ((16, 2), (8, 4), (8, 2), (4, 4))]
        found["row"] = [f"r % {n} == {int(rng.integers(n))}" for n in (2, 4, 8)] + ["r >= 8", "r < 5"]
    for name in ("c", "d"):
        if name in scope:
            found["lane " + name] = [f"{name} % {n} == {int(rng.integers(n))}" for n in (2, 4, 8)] + [
                f"{name} / 8 % 2 == {int(rng.integers(2))}", f"{name} / 4 % 4 == {int(rng.integers(4))}",
                f"{name} >= {pick(rng, 4, 8, 12)}"]
    if "row" in scope:
        found["rows at the end"] = ["row >= NQ / BM * BM", f"row % 16 == {int(rng.integers(16))}"]
    if "col" in scope:
        found["keys at the end"] = ["col >= NK / BN * BN", "col >= NK - 8"]
    if site.rose:
        found["maximum rose"] = ["m > old"]
    return found


def draw_guard(rng, site):
    """(class, condition); half of the mistakes are everywhere."""
    if chance(rng, 0.5):
        return "everywhere", ""
    found = guards(rng, site)
    name = pick(rng, *found)
    condition = pick(rng, *found[name])
    if chance(rng, 0.15):
        second = pick(rng, *found)
        if second != name:
            return f"{name} and {second}", f"{condition} && {pick(rng, *found[second])}"
    return name, condition


def holds(guard, size):
    """Where the guard holds in a call of these sizes: "always", "sometimes" or "never". A guard that always holds there cannot be
    told from none."""
    ranges = dict(b=size["B"], h=size["H"], qb=-(-size["NQ"] // size["BM"]), t=-(-size["NK"] // size["BN"]), r=size["BM"],
                  c=size["BN"], d=max(size["D"], size["DV"]), row=size["NQ"], col=size["NK"], m=2, old=1)
    names = [name for name in ranges if re.search(rf"\b{name}\b", guard)]
    code = compile((guard or "1").replace("/", "//").replace("&&", "and"), guard, "eval")
    values = {bool(eval(code, dict(size), dict(zip(names, at))))
              for at in itertools.product(*(range(ranges[name]) for name in names))}
    return "sometimes" if len(values) == 2 else "always" if values == {True} else "never"


def draw_mistake(rng, family, sites, healthy):
    """A mistake of the family at one of the sites, or None where the production has nothing to change."""
    site = pick(rng, *sites_of(family, sites))
    production = pick(rng, *GRAMMAR[family][1][site.kind])
    expression = healthy[site.name]
    wrong = production(rng, expression, site)
    if wrong is None or wrong == expression:
        return None
    scope, guard = draw_guard(rng, site) if family != "noise" else ("everywhere", "")
    text = f"(({guard}) ? ({wrong}) : ({expression}))" if guard else f"({wrong})"
    return Mistake(site, family, production.__name__, scope, guard, text)
