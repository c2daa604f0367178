#include "kernels/run/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "kernels/run/quantise_inputs.h"

namespace tilescope {

namespace {

// Only additions, multiplications and square roots: their results are the same on every machine, those of
// log and cos are not.

/// The sum of twelve uniform numbers: mean 0, variance 1 to four digits, never beyond +-6.
double next_noise(std::mt19937_64& random) {
    std::int64_t sum = 0;
    for (int draw = 0; draw < 3; ++draw) {
        const std::uint64_t bits = random();
        for (int part = 0; part < 4; ++part) sum += std::int64_t(bits >> (16 * part) & 0xffff);
    }
    return double(sum - 6 * 65535) / 65536.0;
}

double random_element(const Problem&, Input, std::int64_t, std::int64_t, std::int64_t, double noise) {
    return noise;
}

/// Feature 0 adds key / 32 to every score (up to 16384), the others noise of about a quarter.
double ramped_element(const Problem& problem, Input input, std::int64_t, std::int64_t row,
                      std::int64_t feature, double noise) {
    if (input == Input::v) return noise;
    if (feature > 0) return 0.5 * noise;
    if (input == Input::q) return 0.5 * std::sqrt(double(problem.head_dim));
    return std::min(double(row) / 16.0, 32768.0);
}

double distinct_v_element(const Problem&, Input input, std::int64_t head, std::int64_t, std::int64_t feature,
                          double noise) {
    if (input != Input::v) return noise;
    return 1.0 + 0.25 * double(head) + double(feature) / 32.0 + 0.125 * noise;
}

double negative_element(const Problem&, Input input, std::int64_t, std::int64_t, std::int64_t, double noise) {
    switch (input) {
        case Input::q:
            return 1.0 + 0.125 * noise;
        case Input::k:
            return -2.5 + 0.25 * noise;
        default:
            return noise;
    }
}

double large_element(const Problem&, Input input, std::int64_t, std::int64_t, std::int64_t, double noise) {
    return input == Input::v ? noise : 80.0 * noise;
}

/// A zero tensor has no largest element to take a scale from.
double zero_head_element(const Problem& problem, Input input, std::int64_t head, std::int64_t, std::int64_t,
                         double noise) {
    const bool is_zero =
        (input == Input::k && head == 0) || (input == Input::v && head == problem.heads_kv - 1);
    return is_zero ? 0 : noise;
}

// The first row that each of these spoils; those before it are random.
constexpr std::int64_t needle_row = 8, nan_row = 5, infinite_row = 9;

/// From row 8 on, key 3 has a score of about 160 and the others none beyond 6.
double needle_element(const Problem& problem, Input input, std::int64_t, std::int64_t row,
                      std::int64_t feature, double noise) {
    if (input == Input::v || feature > 0) return noise;
    if (input == Input::q) return row < needle_row ? 0.0 : std::sqrt(double(problem.head_dim));
    return row == 3 ? 160.0 : 0.0;
}

double non_finite_element(const Problem&, Input input, std::int64_t, std::int64_t row, std::int64_t feature,
                          double noise) {
    if (input != Input::q || feature > 0) return noise;
    if (row == nan_row) return NAN;
    return row == infinite_row ? INFINITY : noise;
}

constexpr InputKind kinds[] = {
    {"random", "q, k and v are standard normal", random_element},
    {"ramped", "the row maximum rises in every KV tile", ramped_element},
    {"distinct_v", "v differs by head and column and has a mean that is not zero", distinct_v_element},
    {"negative", "all scores are well below zero", negative_element},
    {"large", "scores reach about +-30000", large_element, 0, true},
    {"ties", "keys repeat every 16 rows, so the row maximum is reached more than once", random_element, 16},
    {"zero_head", "k of the first KV head and v of the last one are zero", zero_head_element},
    {"needle", "from row 8 on, the score of key 3 is about 150 above all others", needle_element, 0, true},
    {"non_finite", "q holds NaN in row 5 and Inf in row 9", non_finite_element, 0, true},
};

std::vector<std::byte> make_input(const Problem& problem, const InputKind& kind, Input input,
                                  std::uint64_t seed) {
    const std::int64_t heads = input == Input::q ? problem.heads : problem.heads_kv;
    const std::int64_t seqlen = input == Input::q ? problem.seqlen_q : problem.seqlen_kv;
    const std::int64_t period = input == Input::k && kind.key_period > 0 ? kind.key_period : seqlen;
    std::mt19937_64 random(seed * 3 + std::uint64_t(input));

    const Dtype dtype = input == Input::q   ? problem.dtype_q
                        : input == Input::k ? problem.dtype_k
                                            : problem.dtype_v;
    std::vector<std::byte> bytes(input_bytes(problem, input));
    std::byte* next = bytes.data();
    const std::size_t row_bytes = std::size_t(problem.head_dim) * sizeof(std::uint16_t);
    for (std::int64_t matrix = 0; matrix < problem.batch * heads; ++matrix) {
        for (std::int64_t row = 0; row < seqlen; ++row, next += row_bytes) {
            if (row >= period) {
                std::memcpy(next, next - std::size_t(period) * row_bytes, row_bytes);
                continue;
            }
            for (std::int64_t feature = 0; feature < problem.head_dim; ++feature) {
                const double value =
                    kind.element(problem, input, matrix % heads, row, feature, next_noise(random));
                const auto bits = std::uint16_t(encode(dtype, value));
                std::memcpy(next + std::size_t(feature) * sizeof(bits), &bits, sizeof(bits));
            }
        }
    }
    return bytes;
}

}  // namespace

std::span<const InputKind> all_input_kinds() {
    return kinds;
}

const InputKind* find_input_kind(std::string_view name) {
    const auto* kind = std::ranges::find(kinds, name, &InputKind::name);
    return kind == std::end(kinds) ? nullptr : kind;
}

RunInputs make_inputs(const Problem& problem, const InputKind& kind, std::uint64_t seed) {
    const bool quantised = problem.dtype_q == Dtype::e4m3;
    Problem made = problem;
    if (quantised) made.dtype_q = made.dtype_k = made.dtype_v = Dtype::f16;
    InputArrays arrays = {make_input(made, kind, Input::q, seed), make_input(made, kind, Input::k, seed),
                          make_input(made, kind, Input::v, seed)};
    if (!quantised) return {std::move(arrays), {}, {}};
    return quantise_inputs(problem, std::move(arrays));
}

}  // namespace tilescope
