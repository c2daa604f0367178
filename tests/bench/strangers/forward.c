/* A healthy attention kernel, forward: a query block after the other, KV tile by KV tile, with an online softmax.
   SITE(name, expression) is a place where a mistake may be drawn: grammar.py rewrites the expression, sites.py says what
   kind of place it is. RECORD is what a hook records; no mistake is made there. */

void KERNEL(const struct Call *call) {
    UNPACK
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int qb = 0; qb < (NQ + BM - 1) / BM; ++qb) {
                const int hk = SITE(k_head, h / GROUP);
                const int hv = SITE(v_head, h / GROUP);

                /* q into shared memory */
                for (int r = 0; r < BM; ++r)
                    for (int d = 0; d < D; ++d) {
                        const int row = SITE(q_row, qb * BM + r);
                        float x = 0;
                        if (SITE(q_bound, row < NQ)) x = IN(Q, SITE(q_read, ((b * H + h) * NQ + row) * D + d));
                        ON(SQ, SITE(q_write, r * LDQ + d)) = SITE(q_value, x);
                    }
                RECORD_Q

                /* the running state of each split, which begins empty */
                for (int i = 0; i < SPLITS * BM; ++i) {
                    const int r = i % BM;
                    ON(MAX, i) = SITE(max_first, -INFINITY);
                    for (int lane = 0; lane < LANES; ++lane) ON(SUM, i * LANES + lane) = SITE(sum_first, 0.0f);
                    for (int d = 0; d < DV; ++d) ON(ACC, i * DV + d) = SITE(acc_first, 0.0f);
                }

                /* tiles that a row of the block sees */
                const int last_row = (qb + 1) * BM < NQ ? (qb + 1) * BM - 1 : NQ - 1;
                int begin = 0, end = (NK + BN - 1) / BN;
                if (SKIPS && CAUSAL && last_row + DIAG < NK) end = last_row + DIAG < 0 ? 0 : (last_row + DIAG) / BN + 1;
                if (SKIPS && LEFT >= 0 && qb * BM + DIAG - LEFT > 0) begin = (qb * BM + DIAG - LEFT) / BN;
                for (int step = SITE(tile_begin, begin); step < SITE(tile_end, end); ++step) {
                    const int t = REVERSE ? begin + end - 1 - step : step;
                    const int z = SPLIT ? t / SPLIT : 0;

                    /* k and v into shared memory */
                    for (int c = 0; c < BN; ++c)
                        for (int d = 0; d < D; ++d) {
                            const int col = SITE(k_col, t * BN + c);
                            float x = 0;
                            if (SITE(k_bound, col < NK)) x = IN(K, SITE(k_read, ((b * HKV + hk) * NK + col) * D + d));
                            ON(SK, SITE(k_write, c * LDK + d)) = SITE(k_value, x);
                        }
                    RECORD_K
                    for (int c = 0; c < BN; ++c)
                        for (int d = 0; d < DV; ++d) {
                            const int col = SITE(v_col, t * BN + c);
                            float x = 0;
                            if (SITE(v_bound, col < NK)) x = IN(V, SITE(v_read, ((b * HKV + hv) * NK + col) * DV + d));
                            ON(SV, SITE(v_write, c * LDV + d)) = SITE(v_value, x);
                        }
                    RECORD_V

                    /* scores */
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            const int row = qb * BM + r, col = t * BN + c;
                            float x = SITE(dot_first, 0.0f);
                            for (int d = SITE(dot_begin, 0); d < SITE(dot_end, D); ++d)
                                x = fmaf(SITE(dot_term, ON(SQ, SITE(dot_q, r * LDQ + d))), ON(SK, SITE(dot_k, c * LDK + d)), x);
                            x = SITE(scale, x * FACTOR);
                            if (CAP > 0) x = SITE(cap, CAP * tanhf(x / CAP));
                            if (ALIBI) x += SITE(bias, call->slopes[h] * (float)(col - row - DIAG));
                            x = SITE(score, x * UNIT);
                            const int sees = SITE(mask_tail, col < NK) && (!CAUSAL || SITE(mask_causal, col <= row + DIAG)) &&
                                             (LEFT < 0 || SITE(mask_left, col >= row + DIAG - LEFT)) &&
                                             (RIGHT < 0 || SITE(mask_right, col <= row + DIAG + RIGHT));
                            if (!sees) x = SITE(mask_value, -INFINITY);
                            ON(SCORE, r * BN + c) = x;
                        }
                    RECORD_S

                    /* the running maximum */
                    for (int r = 0; r < BM; ++r) {
                        const float old = SITE(max_old, ON(MAX, z * BM + r));
                        float top = old;
                        for (int c = SITE(max_begin, 0); c < SITE(max_end, BN); ++c)
                            top = fmaxf(top, SITE(max_term, ON(SCORE, SITE(max_read, r * BN + c))));
                        if (SITE(max_stays, top <= old + STALE)) top = old;
                        ON(MAX, z * BM + r) = SITE(max_new, top);
                        ON(OLD, r) = old;
                    }
                    RECORD_M

                    /* probabilities */
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            const float old = ON(OLD, r), m = SITE(p_max, ON(MAX, z * BM + r));
                            const float s = ON(SCORE, SITE(p_read, r * BN + c));
                            float x = SITE(exponent, (s - (m == -INFINITY ? 0 : m)) * STRETCH);
                            x = SITE(p_value, EXP(x));
                            ON(WIDE, r * BN + c) = x * PSCALE;
                            ON(SP, SITE(p_write, r * LDP + c)) = narrow(x * PSCALE, SITE(p_type, PTYPE));
                        }
                    RECORD_P

                    /* the running sum, a part of it in each lane */
                    for (int r = 0; r < BM; ++r) {
                        const float m = ON(MAX, z * BM + r), old = ON(OLD, r);
                        const float alpha = SITE(rescale, old == -INFINITY ? 0 : EXP((old - m) * STRETCH));
                        ON(ALPHA, r) = alpha;
                        for (int lane = 0; lane < LANES; ++lane)
                            ON(SUM, (z * BM + r) * LANES + lane) = SITE(sum_rescale, ON(SUM, (z * BM + r) * LANES + lane) * alpha);
                        for (int c = SITE(sum_begin, 0); c < SITE(sum_end, BN); ++c) {
                            const float x = SUMCAST ? ON(SP, SITE(sum_read_cast, r * LDP + c)) : ON(WIDE, SITE(sum_read, r * BN + c));
                            ON(SUM, (z * BM + r) * LANES + c / LANE_COLS % LANES) += SITE(sum_term, x);
                        }
                    }
                    RECORD_L

                    /* the accumulator */
                    for (int r = 0; r < BM; ++r)
                        for (int d = 0; d < DV; ++d) {
                            const float alpha = ON(ALPHA, SITE(acc_alpha, r)), m = ON(MAX, z * BM + r), old = ON(OLD, r);
                            float x = SITE(acc_rescale, ON(ACC, (z * BM + r) * DV + d) * alpha);
                            for (int c = SITE(pv_begin, 0); c < SITE(pv_end, BN); ++c)
                                x = fmaf(SITE(pv_term, ON(SP, SITE(pv_p, r * LDP + c))), ON(SV, SITE(pv_v, c * LDV + d)), x);
                            ON(ACC, (z * BM + r) * DV + d) = SITE(acc_value, narrow(x, ATYPE));
                        }
                    RECORD_ACC
                }

                /* the splits together, divided by the sum, into global memory */
                for (int r = 0; r < BM; ++r) {
                    const int row = qb * BM + r;
                    float top = -INFINITY, total = 0;
                    for (int z = SITE(merge_begin, 0); z < SITE(merge_end, SPLITS); ++z) top = fmaxf(top, ON(MAX, SITE(merge_max, z * BM + r)));
                    for (int z = 0; z < SPLITS; ++z) {
                        const float m = ON(MAX, z * BM + r);
                        ON(WEIGHT, z) = SITE(merge_weight, m == -INFINITY ? 0 : EXP((m - top) * STRETCH));
                        for (int lane = SITE(lane_begin, 0); lane < SITE(lane_end, LANES); ++lane)
                            total += SITE(merge_sum, ON(WEIGHT, z) * ON(SUM, SITE(merge_read, (z * BM + r) * LANES + lane)));
                    }
                    for (int d = 0; d < DV; ++d) {
                        float x = 0;
                        for (int z = 0; z < SPLITS; ++z)
                            x += SITE(merge_acc, ON(WEIGHT, SITE(merge_factor, z)) * ON(ACC, SITE(acc_read, (z * BM + r) * DV + d)));
                        x = total > 0 ? SITE(normalise, x / total) : 0;
                        if (SITE(o_bound, row < NQ))
                            OUT(O, SITE(o_write, ((b * H + h) * NQ + row) * DV + d)) = narrow(SITE(o_value, x), SITE(o_type, OTYPE));
                    }
                    if (SITE(lse_bound, row < NQ))
                        OUT(LSE, SITE(lse_write, (b * H + h) * NQ + row)) =
                            total > 0 ? SITE(lse_value, (top * TOP + logf(total / SUM_SCALE)) * LSE_UNIT) : -INFINITY;
                }
            }
}
