/* What every kernel here stands on: memory that no index can leave, number types, and the hooks that record a stage.
   kernels.py writes `struct Call` and UNPACK above this text. */

#include <math.h>
#include <stdint.h>

/* A wrong index reads or writes whatever lies there, as on a GPU, but within the arena: its ends are joined. */
static __attribute__((noinline)) long joined(long i, long n) {
    i %= n;
    return i < 0 ? i + n : i;
}
static inline long within(long i, long n) { return (unsigned long)i < (unsigned long)n ? i : joined(i, n); }
#define IN(array, i) call->global[within(call->array + (long)(i), call->global_size)]
#define ON(array, i) call->shared[within(call->array + (long)(i), call->shared_size)]
#define OUT(array, i) call->output[within(call->array + (long)(i), call->output_size)]

#define EXP(x) (BASE2 ? exp2f(x) : expf(x))

enum { F32, F16, BF16, E4M3, INT8 };

/* Rounded to nearest, ties to even, with the subnormals of the type. Beyond the largest number is infinity; of e4m3, which
   has none, it is that number. */
static __attribute__((noinline)) float narrow(float x, int type) {
    static const int bits[] = {24, 11, 8, 4}, smallest[] = {-125, -13, -125, -5};
    if (type == F32 || !isfinite(x)) return x;
    if (type == INT8) return rintf(fminf(fmaxf(x * 127, -127), 127)) / 127;
    int exponent;
    frexpf(x, &exponent);
    if (exponent < smallest[type]) exponent = smallest[type];
    x = ldexpf(rintf(ldexpf(x, bits[type] - exponent)), exponent - bits[type]);
    if (type == F16 && fabsf(x) > 65504) return copysignf(INFINITY, x);
    if (type == E4M3 && fabsf(x) > 448) return copysignf(448, x);
    return x;
}

/* The bits of a number, for what depends on its value. */
static inline uint32_t bits_of(float x) {
    union {
        float number;
        uint32_t bits;
    } of = {x};
    return of.bits;
}
static inline float with_bits(uint32_t bits) {
    union {
        uint32_t bits;
        float number;
    } of = {bits};
    return of.number;
}

/* Between -1 and 1, of no pattern: noise. */
static inline float hashed(uint32_t x) {
    x = (x ^ 61u ^ (x >> 16)) * 9u;
    x = (x ^ (x >> 4)) * 0x27d4eb2du;
    return (float)((x ^ (x >> 15)) & 0xffffff) / 8388608.0f - 1.0f;
}

/* The hooks: what the kernel holds, with the right coordinates whatever the kernel does. A tile that there is not is not
   recorded. */
#define FOR(i, n) for (int i = 0; i < (n); ++i)
#define FOR_ROWS FOR(r, BM) if (qb * BM + r < NQ)
#define FOR_KEYS FOR(c, BN) if (t >= 0 && t * BN + c < NK)
#define IN_TILES if (t >= 0 && t * BN < NK)
#define QUERY ((b * H + h) * NQ + qb * BM + r)
#define KEY (((b * H + h) * ((NQ + BM - 1) / BM) + qb) * NK + t * BN + c)
#define CELL (QUERY * NK + t * BN + c)
#define STATE (((b * H + h) * ((NK + BN - 1) / BN) + t) * NQ + qb * BM + r)
#define RECORD_Q FOR_ROWS FOR(d, D) call->tile_q[QUERY * D + d] = ON(SQ, r * LDQ + d);
#define RECORD_K FOR_KEYS FOR(d, D) call->tile_k[KEY * D + d] = ON(SK, c * LDK + d);
#define RECORD_V FOR_KEYS FOR(d, DV) call->tile_v[KEY * DV + d] = ON(SV, c * LDV + d);
#define RECORD_S FOR_ROWS FOR_KEYS call->tile_s[CELL] = ON(SCORE, r * BN + c);
#define RECORD_M IN_TILES FOR_ROWS call->tile_m[STATE] = ON(MAX, z * BM + r);
#define RECORD_P FOR_ROWS FOR_KEYS call->tile_p[CELL] = P_IS_CAST ? ON(SP, r * LDP + c) : ON(WIDE, r * BN + c);
#define RECORD_L IN_TILES FOR_ROWS FOR(lane, LANES) call->tile_l[STATE * LANES + lane] = ON(SUM, (z * BM + r) * LANES + lane);
#define RECORD_ACC IN_TILES FOR_ROWS FOR(d, DV) call->tile_acc[STATE * DV + d] = ON(ACC, (z * BM + r) * DV + d);
#define RECORD_DOUT FOR_ROWS FOR(d, DV) call->tile_dout[QUERY * DV + d] = ON(SDO, r * LDV + d);
#define RECORD_DELTA FOR_ROWS call->tile_delta[QUERY] = ON(DELTA, r);
#define RECORD_DP FOR_ROWS FOR_KEYS call->tile_dp[CELL] = ON(DP, r * BN + c);
#define RECORD_DS FOR_ROWS FOR_KEYS call->tile_ds[CELL] = DS_IS_CAST ? ON(SDS, r * LDP + c) : ON(WIDE_DS, r * BN + c);
