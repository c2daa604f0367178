#include "tests/oracle/honest_backward.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "tests/oracle/draws.h"
#include "tests/oracle/honest_backward_tile.h"

namespace tilescope::test {

namespace {

Tile transposed(const Tile& tile) {
    Tile result(tile.cols, tile.rows);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t j = 0; j < tile.cols; ++j) result.at(j, i) = tile.at(i, j);
    }
    return result;
}

/// A tile that is read as if it had been transposed already.
Tile read_untransposed(const Tile& tile) {
    Tile result(tile.cols, tile.rows);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t j = 0; j < tile.cols; ++j) result.at(j, i) = tile.at(j % tile.rows, i % tile.cols);
    }
    return result;
}

/// A tile of dq, dk or dv, while it is added up.
class GradientTile {
 public:
    GradientTile(Sum how, bool atomic, bool skips_hidden, std::int64_t rows, std::int64_t cols)
        : how_(how), atomic_(atomic), skips_hidden_(skips_hidden), sum_(rows, cols) {}

    /// Adds a b times `factor`.
    void add(const Tile& a, const Tile& b, float factor = 1) {
        const bool chained = !atomic_ && factor == 1;
        Tile part(sum_.rows, sum_.cols);
        for (std::int64_t i = 0; i < sum_.rows; ++i) {
            for (std::int64_t d = 0; d < sum_.cols; ++d) {
                if (chained) {
                    sum_.at(i, d) = product(sum_.at(i, d), a.row(i), b, d);
                } else {
                    part.at(i, d) = product(0, a.row(i), b, d) * factor;
                }
            }
        }
        if (atomic_) {
            parts_.push_back(std::move(part));
        } else if (!chained) {
            join(part);
        }
    }
    void join(const Tile& part) {
        for (std::size_t i = 0; i < sum_.values.size(); ++i) {
            const float sum = sum_.values[i] + part.values[i];
            sum_.values[i] = is_half(how_) ? to_half(sum) : sum;
        }
    }
    const Tile& finish(Random& random) {
        std::ranges::shuffle(parts_, random);
        for (const Tile& part : parts_) join(part);
        parts_.clear();
        return sum_;
    }

 private:
    float product(float start, std::span<const float> a, const Tile& b, std::int64_t d) const {
        if (!skips_hidden_) return sum_of_products(how_, start, a, b.values.data() + d, b.cols);
        std::vector<float> column;
        for (std::int64_t t = 0; t < b.rows; ++t) column.push_back(a[std::size_t(t)] == 0 ? 0 : b.at(t, d));
        return sum_of_products(how_, start, a, column.data(), 1);
    }

    Sum how_;
    bool atomic_;
    bool skips_hidden_;
    Tile sum_;
    std::vector<Tile> parts_;
};

/// Everything of one batch entry.
class EntryGradients {
 public:
    EntryGradients(const Call& call, const Plant& plant, const Problem& entry, std::int64_t batch,
                   KernelRun& run)
        : call_(call),
          a_(call.arithmetic),
          plant_(plant),
          p_(entry),
          batch_(batch),
          run_(run),
          random_(call.arithmetic.order_seed + std::uint64_t(batch)) {
        const bool atomic_dq = a_.nest == LoopNest::keys_outside;
        for (std::int64_t i = 0; i < p_.heads * p_.q_blocks(); ++i)
            dq_.emplace_back(a_.dq_sum, atomic_dq, a_.skips_hidden_terms, rows_of(i % p_.q_blocks()),
                             p_.head_dim);
        for (std::int64_t i = 0; i < slots() * p_.kv_tiles(); ++i) {
            const std::int64_t keys = keys_of(i % p_.kv_tiles());
            dk_.emplace_back(a_.dk_sum, a_.dkv_atomic, a_.skips_hidden_terms, keys, p_.head_dim);
            dv_.emplace_back(a_.dv_sum, a_.dkv_atomic, a_.skips_hidden_terms, keys, p_.head_dim_v);
        }
    }

    void run() {
        std::vector<std::int64_t> heads(std::size_t(p_.heads));
        std::iota(heads.begin(), heads.end(), 0);
        std::ranges::shuffle(heads, random_);
        for (const std::int64_t head : heads) {
            if (a_.nest == LoopNest::two_passes) row_pass(head);
            for (std::int64_t kv_tile = 0; kv_tile < p_.kv_tiles(); ++kv_tile) column_pass(head, kv_tile);
        }
        for (std::int64_t i = 0; i < p_.heads * p_.q_blocks(); ++i)
            store_dq(i / p_.q_blocks(), i % p_.q_blocks());
        for (std::int64_t i = 0; i < p_.dkv_heads() * p_.kv_tiles(); ++i)
            store_dkv(i / p_.kv_tiles(), i % p_.kv_tiles());
    }

 private:
    std::int64_t rows_of(std::int64_t q_block) const {
        return std::min(p_.seqlen_q - q_block * p_.block_m, p_.block_m);
    }
    std::int64_t keys_of(std::int64_t kv_tile) const {
        return std::min(p_.seqlen_kv - kv_tile * p_.block_n, p_.block_n);
    }
    /// Sums of dk and dv that are held side by side.
    std::int64_t slots() const { return a_.group_in_parts ? p_.heads : p_.dkv_heads(); }
    std::int64_t slot_of(std::int64_t head) const {
        if (a_.group_in_parts || p_.dkv_per_head) return head;
        return is_interleaved() ? head % p_.heads_kv : head / p_.dkv_group();
    }
    bool is_interleaved() const { return p_.head_grouping == HeadGrouping::interleaved; }
    /// The i-th query head of a head of dk and dv.
    std::int64_t member_of(std::int64_t dkv_head, std::int64_t i) const {
        return is_interleaved() && !p_.dkv_per_head ? dkv_head + i * p_.heads_kv
                                                    : dkv_head * p_.dkv_group() + i;
    }
    bool faulty(Mistake mistake, std::int64_t head) const { return plant_.is(mistake, batch_, head); }
    /// Of a head of dk and dv.
    bool faulty_group(Mistake mistake, std::int64_t dkv_head) const {
        for (std::int64_t i = 0; i < p_.dkv_group(); ++i) {
            if (faulty(mistake, member_of(dkv_head, i))) return true;
        }
        return false;
    }
    Block block(std::int64_t head, std::int64_t q_block, std::int64_t kv_tile) {
        return {p_, a_, call_.inputs, plant_, run_, {batch_, head, q_block, kv_tile}, rows_of(q_block)};
    }
    bool is_skipped(const Block& b) const { return a_.skips_hidden_tiles && tile_is_hidden(b); }

    void row_pass(std::int64_t head) {
        for (std::int64_t q_block = 0; q_block < p_.q_blocks(); ++q_block) {
            Block b = block(head, q_block, 0);
            const GradientRows rows = load_rows(b);
            for (std::int64_t kv_tile = 0; kv_tile < p_.kv_tiles(); ++kv_tile) {
                b.id.kv_tile = kv_tile;
                if (!is_skipped(b)) add_dq(b, compute_tile(b, rows));
            }
        }
    }

    void column_pass(std::int64_t head, std::int64_t kv_tile) {
        // What the last block finds in shared memory of the one before.
        std::optional<std::pair<GradientRows, TileGradients>> before;
        for (std::int64_t i = 0; i < p_.q_blocks(); ++i) {
            const std::int64_t q_block = a_.reversed_blocks ? p_.q_blocks() - 1 - i : i;
            Block b = block(head, q_block, kv_tile);
            const GradientRows rows = load_rows(b);
            if (is_skipped(b)) continue;
            const TileGradients tile = compute_tile(b, rows);
            if (a_.nest == LoopNest::keys_outside) add_dq(b, tile);
            add_dkv(b, rows, tile);
            if (b.makes(Mistake::tail_rows_counted) && before && rows.q.rows < before->first.q.rows)
                add_tail(b, before->first, before->second);
            before.emplace(rows, tile);
        }
    }

    void add_dq(const Block& b, const TileGradients& tile) {
        if (b.makes(Mistake::dq_tile_lost) && b.id.kv_tile == 1) return;
        const float factor =
            b.a.k.dequantises ? 1 : b.in.side.descale_k.at(b.id.batch, b.head_kv(), b.first_key());
        dq_[std::size_t(b.id.head * p_.q_blocks() + b.id.q_block)].add(
            tile.ds_operand, takes_unscaled(a_.k) ? operand_before_its_scale(b, Stage::k) : tile.k, factor);
    }

    void add_dkv(const Block& b, const GradientRows& rows, const TileGradients& tile) {
        const auto at = std::size_t(slot_of(b.id.head) * p_.kv_tiles() + b.id.kv_tile);
        const bool untransposed = b.makes(Mistake::dv_untransposed);
        dv_[at].add(untransposed ? read_untransposed(tile.p_operand) : transposed(tile.p_operand), rows.dout);
        if (b.makes(Mistake::dk_without_last_block) && b.id.q_block == p_.q_blocks() - 1) return;
        const float factor =
            b.a.q.dequantises ? 1 : b.in.side.descale_q.at(b.id.batch, b.id.head, b.first_row());
        dk_[at].add(transposed(tile.ds_operand),
                    takes_unscaled(a_.q) ? operand_before_its_scale(b, Stage::q) : rows.q, factor);
    }

    void add_tail(const Block& b, GradientRows rows, TileGradients tile) {
        for (Tile* part : {&rows.q, &rows.dout, &tile.p_operand, &tile.ds_operand})
            std::fill_n(part->values.begin(), b.rows * part->cols, 0.0f);
        add_dkv(b, rows, tile);
    }

    void store_dq(std::int64_t head, std::int64_t q_block) {
        Tile dq = dq_[std::size_t(head * p_.q_blocks() + q_block)].finish(random_);
        const float factor =
            faulty(Mistake::dq_not_scaled, head) ? 1 / float(a_.ds_scale) : scale_after_sum(a_.k);
        store(Stage::dq, {batch_, head, q_block, 0}, factor, p_.dtype_dq, dq);
    }

    bool takes_unscaled(const Loading& loading) const {
        return a_.unscaled_in_gradients && loading.scale != 1;
    }
    /// sm_scale, as far as ds and the operand are without it.
    float scale_after_sum(const Loading& loading) const {
        const float scale = float(p_.sm_scale) / float(a_.ds_scale);
        return a_.unscaled_in_gradients ? scale : scale / loading.scale;
    }

    void store_dkv(std::int64_t dkv_head, std::int64_t kv_tile) {
        const TileId id{batch_, dkv_head, 0, kv_tile};
        const bool twice = faulty_group(Mistake::dk_scaled_twice, dkv_head);
        const float factor = scale_after_sum(a_.q) * (twice ? float(p_.sm_scale) : 1);
        const bool strided = faulty_group(Mistake::dk_of_wrong_heads, dkv_head);
        store(Stage::dk, id, factor, p_.dtype_dk, of_group(dk_, dkv_head, kv_tile, strided));
        store(Stage::dv, id, 1 / float(a_.p_scale), p_.dtype_dv, of_group(dv_, dkv_head, kv_tile, false));
    }

    /// The sum over the query heads of a head of dk and dv.
    Tile of_group(std::vector<GradientTile>& sums, std::int64_t dkv_head, std::int64_t kv_tile,
                  bool strided) {
        const std::int64_t per_head = slots() / p_.dkv_heads();
        std::vector<std::int64_t> in_group;
        for (std::int64_t i = 0; i < per_head; ++i)
            in_group.push_back(strided         ? dkv_head + i * p_.dkv_heads()
                               : per_head == 1 ? dkv_head
                                               : member_of(dkv_head, i));
        std::ranges::shuffle(in_group, random_);
        const auto sum_at = [&](std::int64_t slot) -> GradientTile& {
            return sums[std::size_t(slot * p_.kv_tiles() + kv_tile)];
        };
        Tile first = sum_at(in_group.front()).finish(random_);
        for (std::size_t i = 1; i < in_group.size(); ++i) {
            const Tile& next = sum_at(in_group[i]).finish(random_);
            for (std::size_t e = 0; e < first.values.size(); ++e) first.values[e] += next.values[e];
        }
        return first;
    }

    void store(Stage stage, const TileId& id, float factor, Dtype dtype, Tile tile) {
        for (float& value : tile.values) {
            if (factor != 1) value *= factor;
            value = rounded(dtype, value);
        }
        Block b = block(id.head, id.q_block, id.kv_tile);
        b.record(stage, tile);
    }

    const Call& call_;
    const Arithmetic& a_;
    const Plant& plant_;
    const Problem& p_;
    std::int64_t batch_;
    KernelRun& run_;
    Random random_;
    std::vector<GradientTile> dq_;  ///< [heads][q_blocks]
    std::vector<GradientTile> dk_;  ///< [slots][kv_tiles]
    std::vector<GradientTile> dv_;
};

}  // namespace

void compute_gradients(const Call& call, const Plant& plant, KernelRun& run) {
    for (std::int64_t batch = 0; batch < call.problem.batch; ++batch) {
        const Problem entry = problem_of(call.problem, call.inputs.side, batch);
        EntryGradients(call, plant, entry, batch, run).run();
    }
}

}  // namespace tilescope::test
