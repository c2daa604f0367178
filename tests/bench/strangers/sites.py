"""The sites of the templates: what each is, which names are in scope there, and what else its author could have meant.

Places in code: `operand` brings a value to where a product reads it (or the type it has there), `index` says where a step
reads what an earlier one left, `sum` is the arithmetic over these: ranges, first values, factors, recurrences; `mask` says
which cells count; `merge` puts lanes and splits together and divides; `store` writes to global memory.

Kinds say what grammar.py may do: `index` and `range` are whole numbers, `test` is a condition, `value` a float, `term` a
float that is added up, `first` what a recurrence begins with, `state` a step of a recurrence, `type` a number type.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Site:
    name: str
    place: str
    kind: str
    scope: tuple  # names of whole numbers that the expression could have used
    needs: str = ""  # the site is reached only where this holds of the sizes of a call


def sites(place, rows):
    """Sites of one place: a line for each, with its name, kind, scope and, after a bar, what it needs."""
    found = []
    for line in rows.strip().splitlines():
        words, _, needs = line.partition("|")
        name, kind, *scope = words.split()
        found.append(Site(name, place, kind, tuple(scope), needs.strip()))
    return found


FORWARD = [
    *sites("operand", """
        k_head   index b h qb
        v_head   index b h qb
        q_row    index r d qb h
        q_bound  test  row r d qb h
        q_read   index row r d qb h b
        q_write  index r d qb
        q_value  value r d row qb h
        k_col    index c d t qb h
        k_bound  test  col c d t qb h
        k_read   index col c d t qb h b hk
        k_write  index c d t
        k_value  value c d col t qb h
        v_col    index c d t qb h
        v_bound  test  col c d t qb h
        v_read   index col c d t qb h b hv
        v_write  index c d t
        v_value  value c d col t qb h
        p_write  index r c t
        p_type   type  r c t h"""),
    *sites("index", """
        dot_q         index r c d t qb h
        dot_k         index c r d t qb h
        max_read      index c r t h
        p_read        index c r t h
        sum_read      index c r t h      | not SUMCAST
        sum_read_cast index c r t h      | SUMCAST
        acc_alpha     index r d t h
        pv_p          index c r d t h
        pv_v          index d c r t h"""),
    *sites("sum", """
        dot_first   first r c row col t qb h
        dot_begin   range r c row col t qb h
        dot_end     range r c row col t qb h
        dot_term    term  d r c row col t qb h
        scale       value r c row col t qb h
        cap         value r c row col t qb h | CAP
        bias        value r c row col t qb h | ALIBI
        score       value r c row col t qb h
        max_first   first r qb h
        max_old     state r t qb h
        max_begin   range r t qb h
        max_end     range r t qb h
        max_term    value c r t qb h
        max_stays   test  r t qb h
        max_new     value r t qb h
        p_max       state r c t qb h
        exponent    value r c t qb h
        p_value     value r c t qb h
        rescale     state r t qb h
        sum_first   first r qb h
        sum_rescale state r t qb h
        sum_begin   range r t qb h
        sum_end     range r t qb h
        sum_term    term  c r t qb h
        acc_first   first r d qb h
        acc_rescale state r d t qb h
        pv_begin    range r d t qb h
        pv_end      range r d t qb h
        pv_term     term  c r d t qb h
        acc_value   value r d t qb h"""),
    *sites("mask", """
        mask_tail   test  col row c r t qb h | NK % BN
        mask_causal test  col row c r t qb h | CAUSAL
        mask_left   test  col row c r t qb h | LEFT >= 0
        mask_right  test  col row c r t qb h | RIGHT >= 0
        mask_value  first col row c r t qb h | CAUSAL or LEFT >= 0 or NK % BN"""),
    *sites("merge", """
        merge_begin  range row r h       | SPLITS > 1
        merge_end    range row r h       | SPLITS > 1
        merge_max    index z r           | SPLITS > 1
        merge_weight state z r row h     | SPLITS > 1
        lane_begin   range z r row h     | LANES > 1
        lane_end     range z r row h     | LANES > 1
        merge_sum    term  lane z r row h
        merge_read   index lane z r row
        merge_factor index z r d         | SPLITS > 1
        merge_acc    term  z d r row h
        acc_read     index d r z
        normalise    state d r row h"""),
    *sites("store", """
        o_bound   test  row r d qb h
        o_write   index row r d qb h b
        o_value   value row r d qb h
        o_type    type  row r d qb h
        lse_bound test  row r qb h
        lse_write index row r qb h b
        lse_value value row r qb h"""),
]

# What an author could have written in place of the expression, where that is no small change of it.
INSTEAD = {
    "q_value": ["ON(SQ, r * LDQ + d)"],
    "k_value": ["ON(SK, c * LDK + d)"],
    "v_value": ["ON(SV, c * LDV + d)"],
    "k_head": ["h % HKV", "0", "h", "qb % HKV"],
    "v_head": ["h % HKV", "0", "h", "qb % HKV"],
    "dot_first": ["ON(SCORE, r * BN + c)"],
    "max_first": ["ON(MAX, i)"],
    "sum_first": ["ON(SUM, i * LANES + lane)"],
    "acc_first": ["ON(ACC, i * DV + d)"],
    "max_old": ["-INFINITY", "ON(OLD, r)", "ON(MAX, z * BM + (r ^ 1))", "ON(MAX, z * BM + r / 4 * 4)", "ON(MAX, z * BM)"],
    "p_max": ["old", "ON(MAX, z * BM + (r ^ 1))", "ON(MAX, z * BM + r / 4 * 4)", "ON(MAX, z * BM)"],
    "rescale": ["1.0f", "EXP((m - old) * STRETCH)", "old == -INFINITY ? 0 : EXP((old - m) * STRETCH * 2)", "0.0f",
                "old == -INFINITY ? 1 : EXP(old * STRETCH)", "old == -INFINITY ? 0 : EXP((old - m) * STRETCH * 0.5f)",
                "old == -INFINITY ? 0 : EXP(fmaxf((old - m) * STRETCH, -1.0f))", "ON(ALPHA, r)"],
    "sum_rescale": ["ON(SUM, (z * BM + r) * LANES + lane)", "ON(SUM, (z * BM + r) * LANES + lane) * alpha * alpha",
                    "ON(SUM, (z * BM + r) * LANES + lane) / alpha", "0.0f", "ON(SUM, (z * BM + r) * LANES + lane) + alpha",
                    "ON(SUM, (z * BM + (r ^ 1)) * LANES + lane) * alpha", "ON(SUM, (z * BM + r) * LANES + lane) * fmaxf(alpha, 0.5f)"],
    "acc_rescale": ["ON(ACC, (z * BM + r) * DV + d)", "ON(ACC, (z * BM + r) * DV + d) * alpha * alpha", "0.0f",
                    "ON(ACC, (z * BM + r) * DV + d) / alpha", "ON(ACC, (z * BM + (r ^ 1)) * DV + d) * alpha",
                    "ON(ACC, (z * BM + r) * DV + (d ^ 1)) * alpha", "ON(ACC, (z * BM + r) * DV + d) * fmaxf(alpha, 0.5f)",
                    "ON(ACC, (z * BM + r) * DV + d) * EXP((m - old) * STRETCH)"],
    "merge_weight": ["1.0f", "1.0f / SPLITS", "EXP((top - m) * STRETCH)", "m == -INFINITY ? 0 : EXP((m - top) * STRETCH * 0.5f)",
                     "m == -INFINITY ? 0 : EXP(m * STRETCH)", "z == 0"],
    "normalise": ["x", "x / (total + 1)", "x / total / total", "x * total", "x / (total + 0.1f)", "x / ON(SUM, (SPLITS - 1) * BM * LANES + r * LANES)",
                  "x / (r > 0 ? total : 1)", "x / fmaxf(total, 4.0f)"],
    "mask_value": ["x", "0.0f", "-8.0f", "x - 4.0f"],
    "lse_value": ["top * TOP + logf(total / SUM_SCALE) * LSE_UNIT", "logf(total / SUM_SCALE) * LSE_UNIT", "top * TOP * LSE_UNIT",
                  "(top + logf(total / SUM_SCALE)) * LSE_UNIT + 1.0f", "(top * TOP - logf(total / SUM_SCALE)) * LSE_UNIT",
                  "(top * TOP + log2f(total / SUM_SCALE)) * LSE_UNIT", "top * TOP + total"],
}
