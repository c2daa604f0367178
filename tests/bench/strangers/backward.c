/* A healthy attention kernel, backward: query block after query block, KV tile by KV tile, with dk and dv added up in float
   over the query heads of a KV head. What SITE and RECORD are, forward.c says. */

void KERNEL(const struct Call *call) {
    UNPACK
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h) {
            /* dk and dv begin empty, for each KV head or each query head */
            const int first_of_group = PER_HEAD || h % GROUP == 0, last_of_group = PER_HEAD || (h + 1) % GROUP == 0;
            if (SITE(group_first, first_of_group)) {
                for (int i = 0; i < NK * D; ++i) ON(DK_SUM, i) = SITE(dk_first, 0.0f);
                for (int i = 0; i < NK * DV; ++i) ON(DV_SUM, i) = SITE(dv_first, 0.0f);
            }

            for (int qb = 0; qb < (NQ + BM - 1) / BM; ++qb) {
                const int hk = SITE(k_head, h / GROUP);
                const int hv = SITE(v_head, h / GROUP);

                /* q and dout into shared memory; delta; dq begins empty */
                for (int r = 0; r < BM; ++r)
                    for (int d = 0; d < D; ++d) {
                        const int row = SITE(q_row, qb * BM + r);
                        float x = 0;
                        if (SITE(q_bound, row < NQ)) x = IN(Q, SITE(q_read, ((b * H + h) * NQ + row) * D + d));
                        ON(SQ, SITE(q_write, r * LDQ + d)) = SITE(q_value, x);
                        ON(ACC, r * D + d) = SITE(dq_first, 0.0f);
                    }
                for (int r = 0; r < BM; ++r)
                    for (int d = 0; d < DV; ++d) {
                        const int row = SITE(dout_row, qb * BM + r);
                        float x = 0;
                        if (SITE(dout_bound, row < NQ)) x = IN(DOUT, SITE(dout_read, ((b * H + h) * NQ + row) * DV + d));
                        ON(SDO, SITE(dout_write, r * LDV + d)) = SITE(dout_value, x);
                    }
                for (int r = 0; r < BM; ++r) {
                    const int row = qb * BM + r;
                    float x = 0;
                    if (row < NQ)
                        for (int d = SITE(delta_begin, 0); d < SITE(delta_end, DV); ++d)
                            x = fmaf(SITE(delta_term, ON(SDO, SITE(delta_dout, r * LDV + d))), IN(OIN, SITE(o_read, ((b * H + h) * NQ + row) * DV + d)), x);
                    ON(DELTA, r) = SITE(delta_value, x);
                }
                RECORD_Q
                RECORD_DOUT
                RECORD_DELTA

                for (int t = 0; t < (NK + BN - 1) / BN; ++t) {
                    if (SKIPS && CAUSAL && t * BN > qb * BM + BM - 1 + DIAG) continue;

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

                    /* scores, probabilities and the gradients of both */
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            const int row = qb * BM + r, col = t * BN + c;
                            float x = SITE(dot_first, 0.0f);
                            for (int d = SITE(dot_begin, 0); d < SITE(dot_end, D); ++d)
                                x = fmaf(SITE(dot_term, ON(SQ, SITE(dot_q, r * LDQ + d))), ON(SK, SITE(dot_k, c * LDK + d)), x);
                            x = SITE(scale, x * FACTOR);
                            const int sees = row < NQ && SITE(mask_tail, col < NK) && (!CAUSAL || SITE(mask_causal, col <= row + DIAG)) &&
                                             (LEFT < 0 || SITE(mask_left, col >= row + DIAG - LEFT)) &&
                                             (RIGHT < 0 || SITE(mask_right, col <= row + DIAG + RIGHT));
                            if (!sees) x = SITE(mask_value, -INFINITY);
                            ON(SCORE, r * BN + c) = x;
                        }
                    RECORD_S
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            const int row = qb * BM + r;
                            const float lse = row < NQ ? IN(LSEIN, SITE(lse_read, (b * H + h) * NQ + row)) * LSE_FACTOR : 0;
                            const float s = ON(SCORE, SITE(p_read, r * BN + c));
                            float x = s == -INFINITY ? 0 : EXP(SITE(exponent, s * STRETCH - lse));
                            x = SITE(p_value, x);
                            ON(WIDE, r * BN + c) = x;
                            ON(SP, SITE(p_write, r * LDP + c)) = narrow(x, SITE(p_type, PTYPE));
                        }
                    RECORD_P
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            float x = SITE(dp_first, 0.0f);
                            for (int d = SITE(dp_begin, 0); d < SITE(dp_end, DV); ++d)
                                x = fmaf(SITE(dp_term, ON(SDO, SITE(dp_dout, r * LDV + d))), ON(SV, SITE(dp_v, c * LDV + d)), x);
                            ON(DP, r * BN + c) = SITE(dp_value, x);
                        }
                    RECORD_DP
                    for (int r = 0; r < BM; ++r)
                        for (int c = 0; c < BN; ++c) {
                            const float p = ON(WIDE, SITE(ds_p, r * BN + c)), dp = ON(DP, SITE(ds_dp, r * BN + c)), delta = ON(DELTA, SITE(ds_delta, r));
                            const float x = SITE(ds_value, p * (dp - delta));
                            ON(WIDE_DS, r * BN + c) = x;
                            ON(SDS, SITE(ds_write, r * LDP + c)) = narrow(x, SITE(ds_type, DSTYPE));
                        }
                    RECORD_DS

                    /* the gradients of q, k and v */
                    for (int r = 0; r < BM; ++r)
                        for (int d = 0; d < D; ++d) {
                            float x = SITE(dq_sum, ON(ACC, r * D + d));
                            for (int c = SITE(dq_begin, 0); c < SITE(dq_end, BN); ++c)
                                x = fmaf(SITE(dq_term, ON(SDS, SITE(dq_ds, r * LDP + c))), ON(SK, SITE(dq_k, c * LDK + d)), x);
                            ON(ACC, r * D + d) = x;
                        }
                    for (int c = 0; c < BN; ++c) {
                        const int col = t * BN + c;
                        if (col >= NK) continue;
                        for (int d = 0; d < D; ++d) {
                            float x = SITE(dk_sum, ON(DK_SUM, col * D + d));
                            for (int r = SITE(dk_begin, 0); r < SITE(dk_end, BM); ++r)
                                x = fmaf(SITE(dk_term, ON(SDS, SITE(dk_ds, r * LDP + c))), ON(SQ, SITE(dk_q, r * LDQ + d)), x);
                            ON(DK_SUM, col * D + d) = x;
                        }
                        for (int d = 0; d < DV; ++d) {
                            float x = SITE(dv_sum, ON(DV_SUM, col * DV + d));
                            for (int r = SITE(dv_begin, 0); r < SITE(dv_end, BM); ++r)
                                x = fmaf(SITE(dv_term, ON(SP, SITE(dv_p, r * LDP + c))), ON(SDO, SITE(dv_dout, r * LDV + d)), x);
                            ON(DV_SUM, col * DV + d) = x;
                        }
                    }
                }

                for (int r = 0; r < BM; ++r)
                    for (int d = 0; d < D; ++d) {
                        const int row = qb * BM + r;
                        const float x = SITE(dq_scale, ON(ACC, r * D + d) * SM_SCALE);
                        if (SITE(dq_bound, row < NQ)) OUT(DQ, SITE(dq_write, ((b * H + h) * NQ + row) * D + d)) = narrow(SITE(dq_value, x), SITE(dq_type, OTYPE));
                    }
            }

            /* dk and dv into global memory, when the last head has added to them */
            if (!last_of_group) continue;
            const int hg = PER_HEAD ? h : h / GROUP, HG = PER_HEAD ? H : HKV;
            for (int col = 0; col < NK; ++col) {
                for (int d = 0; d < D; ++d) {
                    const float x = SITE(dk_scale, ON(DK_SUM, col * D + d) * SM_SCALE);
                    if (SITE(dk_bound, col < NK)) OUT(DK, SITE(dk_write, ((b * HG + hg) * NK + col) * D + d)) = narrow(SITE(dk_value, x), SITE(dk_type, OTYPE));
                }
                for (int d = 0; d < DV; ++d) {
                    const float x = SITE(dv_scale, ON(DV_SUM, col * DV + d));
                    if (SITE(dv_bound, col < NK)) OUT(DV_OUT, SITE(dv_write, ((b * HG + hg) * NK + col) * DV + d)) = narrow(SITE(dv_value, x), SITE(dv_type, OTYPE));
                }
            }
        }
}
