#include "tests/oracle/honest_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "dump/dtype.h"

namespace tilescope::test {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2e = 1.44269504f;
constexpr float ln2 = 0.69314718f;

/// -1 or 1, from the bits of `value`: errors that do not cancel and do not depend on anything else.
double sign_from(float value) {
    const std::uint32_t hash = (std::bit_cast<std::uint32_t>(value) + 0x9e3779b9u) * 0x85ebca6bu;
    return (hash >> 31) != 0 ? 1.0 : -1.0;
}

/// `exact` off by most of 2 ulp: a relative error of 2^-23 is between one and two of them.
float off_by_two_ulp(double exact, float key) {
    return float(exact * (1 + sign_from(key) * 0.74 * 0x1p-23));
}

bool is_visible(const Problem& p, std::int64_t row, std::int64_t key) {
    const std::int64_t offset =
        p.causal_alignment == CausalAlignment::bottom_right ? p.seqlen_kv - p.seqlen_q : 0;
    if (p.mask == Mask::causal && key > row + offset) return false;
    if (p.window_right >= 0 && key > row + offset + p.window_right) return false;
    if (p.window_left >= 0 && key < row + offset - p.window_left) return false;
    return true;
}

/// A tile without padding, row-major.
struct Tile {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::vector<float> values;

    Tile(std::int64_t r, std::int64_t c, float fill = 0)
        : rows(r), cols(c), values(std::size_t(r * c), fill) {}
    float& at(std::int64_t row, std::int64_t col) { return values[std::size_t(row * cols + col)]; }
    float at(std::int64_t row, std::int64_t col) const { return values[std::size_t(row * cols + col)]; }
    std::span<const float> row(std::int64_t r) const {
        return std::span(values).subspan(std::size_t(r * cols), std::size_t(cols));
    }
};

/// One thread block: a query block of a head.
class Block {
 public:
    Block(const Problem& problem, const Arithmetic& arithmetic, const Inputs& inputs, const Plant& plant,
          TileId id, KernelRun& run)
        : p_(problem),
          a_(arithmetic),
          in_(inputs),
          plant_(plant),
          id_(id),
          run_(run),
          scale_(float(problem.sm_scale)),
          scale_log2_(scale_ * log2e),
          rows_(tile_extent(problem, Stage::q, id).rows),
          q_(rows_, problem.head_dim),
          m_(rows_, 1, -infinity),
          l_(rows_, 1),
          acc_(rows_, problem.head_dim_v) {}

    void compute() {
        stage_q();
        for (std::int64_t i = 0; i < p_.kv_tiles(); ++i) {
            id_.kv_tile = a_.kv_order == KvOrder::reverse ? p_.kv_tiles() - 1 - i : i;
            if (a_.skips_hidden_tiles && tile_is_hidden()) continue;
            compute_tile();
        }
        id_.kv_tile = 0;
        write_outputs();
    }

 private:
    std::int64_t first_row() const { return id_.q_block * p_.block_m; }
    std::int64_t first_key() const { return id_.kv_tile * p_.block_n; }
    bool faulty(Mistake mistake) const {
        return plant_.mistake == mistake && plant_.applies(id_.batch, id_.head, id_.kv_tile);
    }
    bool faulty(Mistake mistake, std::int64_t row) const {
        return faulty(mistake) && plant_.applies_to_row(first_row() + row);
    }

    bool tile_is_hidden() const {
        const std::int64_t keys = tile_extent(p_, Stage::k, id_).rows;
        for (std::int64_t i = 0; i < rows_; ++i) {
            for (std::int64_t j = 0; j < keys; ++j) {
                if (is_visible(p_, first_row() + i, first_key() + j)) return false;
            }
        }
        return true;
    }

    /// `got` in place of `healthy`, remembered where it differs.
    float changed(float healthy, float got, std::int64_t row, std::int64_t col) {
        if (healthy == got) return got;
        const auto key = [](const Changed& c) {
            return std::tuple(c.tile.kv_tile, c.tile.batch, c.tile.head, c.row, c.col, c.tile.q_block);
        };
        const Changed here{id_, row, col};
        if (!run_.first_changed || key(here) < key(*run_.first_changed)) run_.first_changed = here;
        return got;
    }

    /// Records a tile; its padding holds NaN, which nobody may look at.
    void record(Stage stage, const Tile& tile) {
        const TileShape shape = tile_shape(p_, stage);
        std::vector<float> whole(std::size_t(shape.elements()), std::numeric_limits<float>::quiet_NaN());
        for (std::int64_t i = 0; i < tile.rows; ++i)
            std::ranges::copy(tile.row(i), whole.begin() + i * shape.cols);
        run_.recording.set_tile(stage, id_, std::move(whole));
    }

    void stage_q() {
        const float* source =
            in_.q.data() + ((id_.batch * p_.heads + id_.head) * p_.seqlen_q + first_row()) * p_.head_dim;
        for (std::int64_t i = 0; i < rows_; ++i) {
            for (std::int64_t d = 0; d < p_.head_dim; ++d) {
                const float value = source[i * p_.head_dim + d];
                q_.at(i, d) =
                    faulty(Mistake::q_row_zeroed, i) ? changed(value, 0, first_row() + i, d) : value;
            }
        }
        record(Stage::q, q_);
    }

    Tile stage_kv(const std::vector<float>& input, std::int64_t cols, Mistake mistake, Stage stage) {
        Tile tile(tile_extent(p_, stage, id_).rows, cols);
        const std::int64_t head_kv = id_.head / (p_.heads / p_.heads_kv);
        const float* source =
            input.data() + ((id_.batch * p_.heads_kv + head_kv) * p_.seqlen_kv + first_key()) * cols;
        const bool stale = faulty(mistake) && id_.kv_tile > 0;
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t d = 0; d < cols; ++d) {
                const float value = source[i * cols + d];
                const float before = stale ? source[(i - p_.block_n) * cols + d] : value;
                tile.at(i, d) = changed(value, before, first_key() + i, d);
            }
        }
        record(stage, tile);
        return tile;
    }

    float held_score(float raw) const {
        switch (a_.softmax) {
            case Softmax::natural:
            case Softmax::natural_contracted:
            case Softmax::natural_exp2:
            case Softmax::natural_fast:
            case Softmax::natural_with_base_two_max:
                return raw * scale_;
            case Softmax::base_two:
                return raw * scale_log2_;
            default:
                return raw;
        }
    }

    /// A maximum of held scores, as m holds it.
    float held_max(float score) const {
        if (a_.softmax == Softmax::raw_with_base_two_max) return score * scale_log2_;
        if (a_.softmax == Softmax::natural_with_base_two_max) return score * log2e;
        return score;
    }

    /// The argument of the exponential, to the base that exponential() takes.
    float argument(float raw, float score, float m) const {
        switch (a_.softmax) {
            case Softmax::natural:
            case Softmax::natural_fast:
            case Softmax::base_two:
                return score - m;
            case Softmax::natural_contracted:
                return std::fma(raw, scale_, -m);
            case Softmax::natural_exp2:
                return (score - m) * log2e;
            case Softmax::raw_exp:
                return std::fma(raw, scale_, -(m * scale_));
            case Softmax::raw_exp2:
                return std::fma(raw, scale_log2_, -(m * scale_log2_));
            case Softmax::raw_exp2_unfused:
                return raw * scale_log2_ - m * scale_log2_;
            case Softmax::raw_with_base_two_max:
                return std::fma(raw, scale_log2_, -m);
            case Softmax::natural_with_base_two_max:
                return std::fma(score, log2e, -m);
        }
        return 0;
    }

    float rescale_argument(float before, float now) const {
        switch (a_.softmax) {
            case Softmax::natural_exp2:
                return (before - now) * log2e;
            case Softmax::raw_exp:
                return (before - now) * scale_;
            case Softmax::raw_exp2:
            case Softmax::raw_exp2_unfused:
                return (before - now) * scale_log2_;
            default:
                return before - now;
        }
    }

    float exponential(float x) const {
        const bool natural = a_.softmax == Softmax::natural || a_.softmax == Softmax::natural_contracted ||
                             a_.softmax == Softmax::raw_exp;
        // __expf multiplies with log2(e) and takes the exponential to the base two.
        const float y = a_.softmax == Softmax::natural_fast ? x * log2e : x;
        if (!a_.worst_exp) return natural ? std::exp(y) : std::exp2(y);
        return off_by_two_ulp(natural ? std::exp(double(y)) : std::exp2(double(y)), y);
    }

    float probability(float raw, float score, float m, std::int64_t row, std::int64_t key) {
        if (score == -infinity) return 0;
        const float x = argument(raw, score, m);
        const float p = exponential(x);
        return faulty(Mistake::p_clamped, row)
                   ? changed(p, exponential(std::max(x, -1.0f)), first_row() + row, key)
                   : p;
    }

    /// Scores of the tile: what q k sums up to, and what the kernel holds.
    std::pair<Tile, Tile> compute_scores(const Tile& k) {
        Tile raw(rows_, k.rows);
        Tile held(rows_, k.rows);
        Tile dumped(rows_, k.rows);
        for (std::int64_t i = 0; i < rows_; ++i) {
            for (std::int64_t j = 0; j < k.rows; ++j) {
                const std::int64_t row = first_row() + i;
                const std::int64_t key = first_key() + j;
                const float product = sum_of_products(a_.score_sum, 0, q_.row(i), k.row(j).data(), 1);
                raw.at(i, j) = faulty(Mistake::scaled_twice, i) ? product * scale_ : product;
                const bool visible = is_visible(p_, row, key);
                const bool taken =
                    faulty(Mistake::mask_off_by_one, i) ? is_visible(p_, row + 1, key) : visible;
                const float healthy = visible ? held_score(product) : -infinity;
                held.at(i, j) = taken ? held_score(raw.at(i, j)) : -infinity;
                changed(healthy, held.at(i, j), row, key);
                dumped.at(i, j) = a_.dumps_unmasked_s ? held_score(raw.at(i, j)) : held.at(i, j);
            }
        }
        record(Stage::s, dumped);
        return {std::move(raw), std::move(held)};
    }

    void compute_max(const Tile& scores) {
        for (std::int64_t i = 0; i < rows_; ++i) {
            const auto row = scores.row(i);
            const auto some = row.first(std::size_t(std::max<std::int64_t>(1, scores.cols / 2)));
            const float healthy = std::max(m_.at(i, 0), held_max(*std::ranges::max_element(row)));
            const float partial = std::max(m_.at(i, 0), held_max(*std::ranges::max_element(some)));
            m_.at(i, 0) = faulty(Mistake::max_of_half_tile, i) ? changed(healthy, partial, first_row() + i, 0)
                                                               : healthy;
        }
        record(Stage::m, m_);
    }

    void compute_tile() {
        const Tile k = stage_kv(in_.k, p_.head_dim, Mistake::stale_k_tile, Stage::k);
        const Tile v = stage_kv(in_.v, p_.head_dim_v, Mistake::swapped_v_tile, Stage::v);
        const auto [raw, scores] = compute_scores(k);
        const Tile before = m_;
        compute_max(scores);

        Tile p(rows_, k.rows);
        Tile operand(rows_, k.rows);
        for (std::int64_t i = 0; i < rows_; ++i) {
            for (std::int64_t j = 0; j < k.rows; ++j) {
                p.at(i, j) = probability(raw.at(i, j), scores.at(i, j), m_.at(i, 0), i, first_key() + j);
                operand.at(i, j) = decode(a_.p_operand, encode(a_.p_operand, p.at(i, j)));
            }
        }
        record(Stage::p, a_.dumps_cast_p ? operand : p);

        for (std::int64_t i = 0; i < rows_; ++i) {
            const float factor = before.at(i, 0) == -infinity
                                     ? 0.0f
                                     : exponential(rescale_argument(before.at(i, 0), m_.at(i, 0)));
            const float sum = sum_over_lanes((a_.l_sums_cast_p ? operand : p).row(i), a_.lanes);
            const float l = std::fma(l_.at(i, 0), factor, sum);
            l_.at(i, 0) =
                faulty(Mistake::l_not_rescaled, i) ? changed(l, l_.at(i, 0) + sum, first_row() + i, 0) : l;
            accumulate_row(i, factor, operand, v);
        }
        record(Stage::l, l_);
        record(Stage::acc, acc_);
    }

    void accumulate_row(std::int64_t i, float factor, const Tile& operand, const Tile& v) {
        const auto next = [&](float acc, float by, std::int64_t d) {
            const float* column = v.values.data() + d;
            if (!a_.separate_pv) return sum_of_products(a_.pv_sum, acc * by, operand.row(i), column, v.cols);
            return std::fma(acc, by, sum_of_products(a_.pv_sum, 0, operand.row(i), column, v.cols));
        };
        for (std::int64_t d = 0; d < v.cols; ++d) {
            const float healthy = next(acc_.at(i, d), factor, d);
            acc_.at(i, d) = faulty(Mistake::acc_not_rescaled, i)
                                ? changed(healthy, next(acc_.at(i, d), 1, d), first_row() + i, d)
                                : healthy;
        }
    }

    float divided(float value, float by) const {
        if (a_.approximate) return off_by_two_ulp(double(value) / double(by), value);
        return a_.reciprocal ? value * (1 / by) : value / by;
    }

    float logarithm(float value, bool base_two) const {
        const double exact = base_two ? std::log2(double(value)) : std::log(double(value));
        if (!a_.approximate) return float(exact);
        // __logf and __log2f: an absolute bound between 1/2 and 2, 3 and 2 ulp elsewhere.
        const bool near_one = value >= 0.5f && value <= 2;
        const double bound = base_two ? 0x1p-22 : std::exp2(-21.41);
        if (near_one) return float(exact + sign_from(value) * 0.9 * bound);
        return off_by_two_ulp(exact, value);
    }

    float log_sum_exp(float m, float l) const {
        const bool base_two = a_.lse_log_base == LogBase::two;
        switch (a_.softmax) {
            case Softmax::base_two:
            case Softmax::raw_with_base_two_max:
            case Softmax::natural_with_base_two_max: {
                const float lse = m + logarithm(l, true);
                return base_two ? lse : lse * ln2;
            }
            case Softmax::raw_exp:
            case Softmax::raw_exp2:
            case Softmax::raw_exp2_unfused:
                return base_two ? m * scale_log2_ + logarithm(l, true) : m * scale_ + logarithm(l, false);
            default: {
                const float lse = m + logarithm(l, false);
                return base_two ? lse * log2e : lse;
            }
        }
    }

    void write_outputs() {
        Tile o(rows_, p_.head_dim_v);
        Tile lse(rows_, 1);
        const auto stored = [&](float value) { return decode(p_.dtype_o, encode(p_.dtype_o, value)); };
        for (std::int64_t i = 0; i < rows_; ++i) {
            const float l = l_.at(i, 0);
            for (std::int64_t d = 0; d < o.cols; ++d) {
                const float acc = acc_.at(i, d);
                const float healthy = l == 0 ? 0 : divided(acc, l);
                float got = healthy;
                if (faulty(Mistake::o_not_normalised, i)) got = acc;
                if (faulty(Mistake::o_normalised_twice, i) && l != 0) got = divided(healthy, l);
                o.at(i, d) = changed(stored(healthy), stored(got), first_row() + i, d);
            }
            const float healthy = l == 0 ? -infinity : log_sum_exp(m_.at(i, 0), l);
            lse.at(i, 0) = faulty(Mistake::lse_base_two, i)
                               ? changed(healthy, healthy * log2e, first_row() + i, 0)
                               : healthy;
        }
        record(Stage::o, o);
        record(Stage::lse, lse);
    }

    const Problem& p_;
    const Arithmetic& a_;
    const Inputs& in_;
    const Plant& plant_;
    TileId id_;
    KernelRun& run_;
    float scale_;
    float scale_log2_;
    std::int64_t rows_;
    Tile q_;
    Tile m_;
    Tile l_;
    Tile acc_;
};

}  // namespace

KernelRun run_kernel(Problem problem, const Arithmetic& arithmetic, const Inputs& inputs,
                     const Plant& plant) {
    problem.dtype_p = arithmetic.p_operand;
    KernelRun run{MemoryRecording(problem, units_of(arithmetic)), std::nullopt};
    run.recording.set_input(Input::q, inputs.q);
    run.recording.set_input(Input::k, inputs.k);
    run.recording.set_input(Input::v, inputs.v);
    for (std::int64_t i = 0; i < tile_count(problem, Stage::o); ++i) {
        Block(problem, arithmetic, inputs, plant, tile_at(problem, Stage::o, i), run).compute();
    }
    return run;
}

}  // namespace tilescope::test
