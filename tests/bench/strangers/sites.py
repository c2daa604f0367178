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
    rose: bool = False  # it can be told there whether the maximum rose
    needs: str = ""  # the site is reached only where this holds of the sizes of a call


def sites(place, rows):
    """Sites of one place: a line for each with its name, kind, scope and, after a bar, what it needs; `rose` is no name."""
    found = []
    for line in rows.strip().splitlines():
        words, _, needs = line.partition("|")
        name, kind, *scope = words.split()
        names = tuple(name for name in scope if name != "rose")
        found.append(Site(name, place, kind, names, "rose" in scope, needs.strip()))
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
        p_write  index r c t rose
        p_type   type  r c t h rose"""),
    *sites("index", """
        dot_q         index r c d t qb h
        dot_k         index c r d t qb h
        max_read      index c r t h
        p_read        index c r t h
        sum_read      index c r t h      | not SUMCAST
        sum_read_cast index c r t h      | SUMCAST
        acc_alpha     index r d t h
        pv_p          index c r d t h rose
        pv_v          index d c r t h rose"""),
    *sites("sum", """
        tile_begin  range qb h | not STALE
        tile_end    range qb h | not STALE
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
        max_stays   state r t qb h
        max_new     value r t qb h
        p_max       state r c t qb h
        exponent    value r c t qb h rose
        p_value     value r c t qb h rose
        rescale     state r t qb h rose
        sum_first   first r qb h
        sum_rescale state r t qb h rose
        sum_begin   range r t qb h
        sum_end     range r t qb h
        sum_term    term  c r t qb h rose
        acc_first   first r d qb h
        acc_rescale state r d t qb h rose
        pv_begin    range r d t qb h
        pv_end      range r d t qb h
        pv_term     term  c r d t qb h rose
        acc_value   value r d t qb h rose"""),
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

SHARED_SITES = """k_head v_head q_row q_bound q_read q_write q_value k_col k_bound k_read k_write k_value v_col v_bound v_read
v_write v_value p_write p_type dot_q dot_k p_read dot_first dot_begin dot_end dot_term scale exponent p_value mask_tail
mask_causal mask_left mask_right mask_value""".split()
BACKWARD = [
    *(dataclasses.replace(site, rose=False) for site in FORWARD if site.name in SHARED_SITES),
    *sites("operand", """
        dout_row   index r d qb h
        dout_bound test  row r d qb h
        dout_read  index row r d qb h b
        dout_write index r d qb
        dout_value value r d row qb h
        o_read     index row d r qb h b
        lse_read   index row r t qb h b
        ds_write   index r c t
        ds_type    type  r c t h"""),
    *sites("index", """
        delta_dout index r d qb h
        dp_dout    index r d c t qb h
        dp_v       index c d r t qb h
        ds_p       index r c t h
        ds_dp      index r c t h
        ds_delta   index r c t h
        dq_ds      index r c d t h
        dq_k       index c d r t h
        dk_ds      index r c d t h
        dk_q       index r d c t h
        dv_p       index r c d t h
        dv_dout    index r d c t h"""),
    *sites("sum", """
        delta_begin range r qb h
        delta_end   range r qb h
        delta_term  term  d r qb h
        delta_value value r row qb h
        dp_first    first r c t qb h
        dp_begin    range r c t qb h
        dp_end      range r c t qb h
        dp_term     term  d r c t qb h
        dp_value    value r c t qb h
        ds_value    value r c t qb h
        dq_first    first r d qb h
        dq_sum      state r d t qb h
        dq_begin    range r d t qb h
        dq_end      range r d t qb h
        dq_term     term  c r d t qb h
        dk_first    first h
        dk_sum      state c d col t qb h
        dk_begin    range c d col t qb h
        dk_end      range c d col t qb h
        dk_term     term  r c d col t qb h
        dv_first    first h
        dv_sum      state c d col t qb h
        dv_begin    range c d col t qb h
        dv_end      range c d col t qb h
        dv_term     term  r c d col t qb h"""),
    *sites("merge", """
        group_first test  h | not PER_HEAD and GROUP > 1
        dq_scale    state r d row h
        dk_scale    state d col h
        dv_scale    state d col h"""),
    *sites("store", """
        dq_bound test  row r d qb h
        dq_write index row r d qb h b
        dq_value value row r d qb h
        dq_type  type  row r d qb h
        dk_bound test  col d h
        dk_write index col d h b hg
        dk_value value col d h
        dk_type  type  col d h
        dv_bound test  col d h
        dv_write index col d h b hg
        dv_value value col d h
        dv_type  type  col d h"""),
]
TABLES = {"forward": FORWARD, "backward": BACKWARD}

# What is left where a value is not brought in.
LEFT_OVER = {
    "q_value": ["ON(SQ, r * LDQ + d)"],
    "k_value": ["ON(SK, c * LDK + d)"],
    "v_value": ["ON(SV, c * LDV + d)"],
    "dout_value": ["ON(SDO, r * LDV + d)"],
    "p_value": ["ON(WIDE, r * BN + c) / PSCALE"],
    "score": ["ON(SCORE, r * BN + c)"],
    "dp_value": ["ON(DP, r * BN + c)"],
}

# What an author could have written in place of the expression, where that is no small change of it.
INSTEAD = {
    "tile_begin": ["begin + 1", "begin + qb % 2", "begin + h % 2"],
    "tile_end": ["end - 1", "NK / BN", "end - qb % 2", "(end + 1) / 2", "end - h % 2", "end > 2 ? 2 : end"],
    "k_head": ["h % HKV", "0", "h", "qb % HKV"],
    "v_head": ["h % HKV", "0", "h", "qb % HKV"],
    "q_read": ["((b * NQ + row) * H + h) * D + d", "((b * H + h) * D + d) * NQ + row",
               "((b * H + h) * NQ + row) * LDQ + d"],
    "k_read": ["((b * NK + col) * HKV + hk) * D + d", "((b * HKV + hk) * D + d) * NK + col",
               "((b * HKV + hk) * NQ + col) * D + d"],
    "v_read": ["((b * NK + col) * HKV + hv) * DV + d", "((b * HKV + hv) * DV + d) * NK + col",
               "((b * HKV + hv) * NQ + col) * DV + d"],
    "dout_read": ["((b * NQ + row) * H + h) * DV + d", "((b * H + h) * DV + d) * NQ + row"],
    "o_write": ["((b * NQ + row) * H + h) * DV + d", "((b * H + h) * DV + d) * NQ + row"],
    "dq_write": ["((b * NQ + row) * H + h) * D + d", "((b * H + h) * D + d) * NQ + row"],
    "dk_write": ["((b * NK + col) * HG + hg) * D + d", "((b * HG + hg) * D + d) * NK + col"],
    "dv_write": ["((b * NK + col) * HG + hg) * DV + d", "((b * HG + hg) * DV + d) * NK + col"],
    "dot_k": ["d * LDK + c", "d * BN + c", "c * LDK + D - 1 - d"],
    "pv_v": ["d * LDV + c", "d * BN + c", "(BN - 1 - c) * LDV + d"],
    "dot_first": ["ON(SCORE, r * BN + c)"],
    "max_first": ["ON(MAX, i)"],
    "sum_first": ["ON(SUM, i * LANES + lane)"],
    "acc_first": ["ON(ACC, i * DV + d)"],
    "max_old": ["-INFINITY", "ON(OLD, r)", "ON(MAX, z * BM + (r ^ 1))", "ON(MAX, z * BM + r / 4 * 4)",
                "ON(MAX, z * BM)"],
    "max_stays": ["1", "t > 0", "t % 2 == 1", "top > old + STALE", "r % 4 == 0 && t > 0", "top < 1.0f",
                  "qb > 0 && t > 0"],
    "p_max": ["old", "ON(MAX, z * BM + (r ^ 1))", "ON(MAX, z * BM + r / 4 * 4)", "ON(MAX, z * BM)"],
    "rescale": ["1.0f", "EXP((m - old) * STRETCH)", "old == -INFINITY ? 0 : EXP((old - m) * STRETCH * 2)", "0.0f",
                "old == -INFINITY ? 1 : EXP(old * STRETCH)", "old == -INFINITY ? 0 : EXP((old - m) * STRETCH * 0.5f)",
                "old == -INFINITY ? 0 : EXP(fmaxf((old - m) * STRETCH, -1.0f))", "ON(ALPHA, r)"],
    "sum_rescale": ["ON(SUM, (z * BM + r) * LANES + lane)", "ON(SUM, (z * BM + r) * LANES + lane) * alpha * alpha",
                    "ON(SUM, (z * BM + r) * LANES + lane) / alpha", "0.0f",
                    "ON(SUM, (z * BM + r) * LANES + lane) + alpha",
                    "ON(SUM, (z * BM + (r ^ 1)) * LANES + lane) * alpha",
                    "ON(SUM, (z * BM + r) * LANES + lane) * fmaxf(alpha, 0.5f)"],
    "acc_rescale": ["ON(ACC, (z * BM + r) * DV + d)", "ON(ACC, (z * BM + r) * DV + d) * alpha * alpha", "0.0f",
                    "ON(ACC, (z * BM + r) * DV + d) / alpha", "ON(ACC, (z * BM + (r ^ 1)) * DV + d) * alpha",
                    "ON(ACC, (z * BM + r) * DV + (d ^ 1)) * alpha",
                    "ON(ACC, (z * BM + r) * DV + d) * fmaxf(alpha, 0.5f)",
                    "ON(ACC, (z * BM + r) * DV + d) * EXP((m - old) * STRETCH)"],
    "merge_weight": ["1.0f", "1.0f / SPLITS", "EXP((top - m) * STRETCH)",
                     "m == -INFINITY ? 0 : EXP((m - top) * STRETCH * 0.5f)", "m == -INFINITY ? 0 : EXP(m * STRETCH)",
                     "z == 0"],
    "normalise": ["x", "x / (total + 1)", "x / total / total", "x * total", "x / (total + 0.1f)",
                  "x / ON(SUM, (SPLITS - 1) * BM * LANES + r * LANES)", "x / (r > 0 ? total : 1)",
                  "x / fmaxf(total, 4.0f)"],
    "ds_value": ["p * dp", "p * (delta - dp)", "p * (dp + delta)", "dp - delta", "p * (1 - p) * dp",
                 "p * p * (dp - delta)", "p * (dp - delta) * SM_SCALE", "p * dp - delta"],
    "dq_first": ["ON(ACC, r * D + d)"],
    "dq_sum": ["0.0f", "ON(ACC, (r ^ 1) * D + d)", "ON(ACC, r * D + (d ^ 1))", "ON(ACC, r * D + d) * 0.5f"],
    "dk_first": ["ON(DK_SUM, i)"],
    "dv_first": ["ON(DV_SUM, i)"],
    "dk_sum": ["0.0f", "ON(DK_SUM, (col ^ 1) * D + d)", "qb > 0 ? ON(DK_SUM, col * D + d) : 0",
               "ON(DK_SUM, col * D + d) * 0.5f"],
    "dv_sum": ["0.0f", "ON(DV_SUM, (col ^ 1) * DV + d)", "qb > 0 ? ON(DV_SUM, col * DV + d) : 0",
               "ON(DV_SUM, col * DV + d) * 0.5f"],
    "group_first": ["1", "h == 0", "h % 2 == 0"],
    "dq_scale": ["ON(ACC, r * D + d)", "ON(ACC, r * D + d) * SM_SCALE * SM_SCALE", "ON(ACC, r * D + d) / SM_SCALE"],
    "dk_scale": ["ON(DK_SUM, col * D + d)", "ON(DK_SUM, col * D + d) * SM_SCALE * SM_SCALE",
                 "ON(DK_SUM, col * D + d) / GROUP"],
    "dv_scale": ["ON(DV_SUM, col * DV + d) * SM_SCALE", "ON(DV_SUM, col * DV + d) / GROUP",
                 "ON(DV_SUM, col * DV + d) / NQ"],
    "mask_value": ["x", "0.0f", "-8.0f", "x - 4.0f"],
    "lse_value": ["top * TOP + logf(total / SUM_SCALE) * LSE_UNIT", "logf(total / SUM_SCALE) * LSE_UNIT",
                  "top * TOP * LSE_UNIT", "(top + logf(total / SUM_SCALE)) * LSE_UNIT + 1.0f",
                  "(top * TOP - logf(total / SUM_SCALE)) * LSE_UNIT",
                  "(top * TOP + log2f(total / SUM_SCALE)) * LSE_UNIT", "top * TOP + total"],
}
