#include "oracle/ranks/merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/output.h"
#include "oracle/ranks/part_rows.h"

namespace tilescope {

namespace {

/// Rows whose mistake is looked for: as many tell one mistake from another.
constexpr std::size_t most_samples = 512;

/// Rows over different keys, in the order in which they are merged, and what came of them.
struct MergeSample {
    std::vector<PartialRow> rows;
    int merged_before = 0;  ///< how many steps the first one is merged from; 0: it is what one step left
    Eigen::RowVectorXd o;
    double lse = 0;
    bool o_is_wrong = false;
    bool lse_is_wrong = false;
};

PartialRow merge_all(const MergeSample& sample, LogBase base, const MergeMistake* mistake) {
    // A first row that is no merge yet is merged with nothing.
    const bool begins = sample.merged_before == 0;
    PartialRow merged = begins ? empty_row(sample.rows.front().o.size()) : sample.rows.front();
    for (std::size_t i = begins ? 0 : 1; i < sample.rows.size(); ++i) {
        const int before = sample.merged_before + int(i) - (begins ? 0 : 1);
        merged = mistake == nullptr ? merge_rows(merged, sample.rows[i])
                                    : merge_wrongly(merged, sample.rows[i], before, base, *mistake);
    }
    return merged;
}

/// Where a rank's rows of the whole call stood after the steps before one.
class Before {
 public:
    /// Without `end`: after the last step that was recorded.
    Before(const RunOfRanks& run, std::int64_t rank, std::optional<std::int64_t> end) {
        for (const Recording* const step : run.steps_of(rank)) {
            const std::int64_t number = step->problem().shard.step;
            if (end && number >= *end) break;
            Step& before = steps_.emplace_back();
            before.recording = step;
            if (const auto stages = merged_stages(*step)) before.merged.emplace(*step, *stages);
            if (const auto stages = output_stages(*step)) before.partial.emplace(*step, *stages);
        }
        end_ = end ? *end : steps_.empty() ? 0 : steps_.back().number() + 1;
    }

    /// What the row is merged from: what was merged up to the last step that says so, and the o and lse of the steps with
    /// the row since. `merged_steps`: how many went into the first, 0 where it is no merge. nullopt where one of them was
    /// not recorded.
    std::optional<std::vector<PartialRow>> rows(std::int64_t batch, std::int64_t head, std::int64_t position,
                                                int& merged_steps) {
        std::vector<PartialRow> found;
        std::optional<PartialRow> merged;
        merged_steps = 0;
        std::int64_t next = end_;
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
            if (!merged && step->number() != --next) return std::nullopt;
            const Problem& problem = step->recording->problem();
            const std::int64_t row = row_at(problem.shard.q_positions, position);
            if (row < 0 || row >= problem.seqlen_q) continue;
            if (merged) {
                ++merged_steps;
                continue;
            }
            if (step->merged) merged = step->merged->row(batch, head, row);
            if (merged) {
                found.push_back(*merged);
                merged_steps = 1;
                continue;
            }
            const std::optional<PartialRow> partial =
                step->partial ? step->partial->row(batch, head, row) : std::nullopt;
            if (!partial) return std::nullopt;
            found.push_back(*partial);
        }
        if (!merged && next != 0) return std::nullopt;
        std::ranges::reverse(found);
        return found;
    }

 private:
    struct Step {
        const Recording* recording = nullptr;
        std::optional<PartRows> merged;
        std::optional<PartRows> partial;

        std::int64_t number() const { return recording->problem().shard.step; }
    };
    std::deque<Step> steps_;
    std::int64_t end_ = 0;  ///< the number after the last of them
};

/// Gives what a row is merged from; empty where that was not recorded.
using SampleOf = std::function<MergeSample(std::int64_t batch, std::int64_t head, std::int64_t row)>;

/// Judges recorded rows against what they are merged from.
class MergeJudge {
 public:
    /// `dtype_o`: in which o is stored.
    MergeJudge(const Recording& recording, const RowStages& stages, Dtype dtype_o)
        : rows_(recording, stages), stages_(stages), dtype_o_(dtype_o) {}

    MergeReport judge(const SampleOf& sample_of) {
        const Problem& problem = rows_.recording().problem();
        for (std::int64_t i = 0; i < tile_count(problem, Stage::q); ++i) {
            const TileId tile = tile_at(problem, Stage::q, i);
            if (rows_.read(tile.batch, tile.head, tile.q_block)) judge_block(tile, sample_of);
        }
        if (report_.o.diverges() || report_.lse.diverges()) explain();
        return report_;
    }

 private:
    double unit() const { return base() == LogBase::two ? std::numbers::log2e : 1; }
    LogBase base() const { return rows_.recording().units().lse_log_base; }

    void judge_block(const TileId& tile, const SampleOf& sample_of) {
        const Problem& problem = rows_.recording().problem();
        const std::int64_t count = tile_extent(problem, Stage::q, tile).rows;
        constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
        // Of a row of which it is not known what it is merged from nothing is expected: NaN, and not for certain.
        Estimate o{Matrix::Constant(count, problem.head_dim_v, nothing),
                   Matrix::Ones(count, problem.head_dim_v),
                   {}};
        Estimate lse{Matrix::Constant(count, 1, nothing), Matrix::Ones(count, 1), {}};
        for (std::int64_t i = 0; i < count; ++i) {
            MergeSample sample = sample_of(tile.batch, tile.head, tile.q_block * problem.block_m + i);
            if (sample.rows.empty()) continue;
            const PartialRow right = merge_all(sample, base(), nullptr);
            report_.is_judged = true;
            fill(right, i, o, lse);
            sample.o = rows_.o().row(i).cast<double>();
            sample.lse = double(rows_.lse()(i, 0)) / unit();
            sample.o_is_wrong = differs(sample.o, o, i);
            sample.lse_is_wrong = !(std::abs(sample.lse * unit() - lse.value(i, 0)) <= lse.error(i, 0)) &&
                                  sample.lse * unit() != lse.value(i, 0);
            if ((sample.o_is_wrong || sample.lse_is_wrong) && samples_.size() < most_samples)
                samples_.push_back(std::move(sample));
        }
        compare(tile, stages_.o, rows_.o().topRows(count), o, dtype_o_, report_.o);
        compare(tile, stages_.lse, rows_.lse().topRows(count), lse, Dtype::f32, report_.lse);
    }

    /// In the units of the recording; a row over no key holds what its units say.
    void fill(const PartialRow& row, Eigen::Index i, Estimate& o, Estimate& lse) const {
        if (row.is_empty()) {
            const Units& units = rows_.recording().units();
            o.value.row(i).setConstant(empty_value(units.o_empty_row));
            o.error.row(i).setZero();
            lse.value(i, 0) = empty_value(units.lse_empty_row);
            lse.error(i, 0) = 0;
            return;
        }
        lse.value(i, 0) = row.lse * unit();
        lse.error(i, 0) = row.lse_error * unit() + gamma(2, u_f32) * std::abs(lse.value(i, 0));
        for (Eigen::Index j = 0; j < o.value.cols(); ++j) {
            o.value(i, j) = row.o(j);
            o.error(i, j) = row.o_error(j) + cast_bound(dtype_o_, std::abs(row.o(j)) + row.o_error(j));
        }
    }

    static bool differs(const Eigen::RowVectorXd& got, const Estimate& o, Eigen::Index i) {
        for (Eigen::Index j = 0; j < got.size(); ++j)
            if (!(std::abs(got(j) - o.value(i, j)) <= o.error(i, j)) && o.value(i, j) == o.value(i, j))
                return true;
        return false;
    }

    void compare(const TileId& tile, Stage stage, const MatrixF& got, const Estimate& expected, Dtype dtype,
                 StageTally& tally) const {
        TileContext context = tile_context(rows_.recording().problem(), stage, tile);
        context.dtype = dtype;
        context.sees.clear();
        compare_tile(context, got, expected, nullptr, CompareOptions(), tally);
    }

    /// How many of the samples' wrong outputs the mistake reproduces.
    template <class Wrong, class Fits>
    const MergeMistake* best(const Wrong& is_wrong, const Fits& fits) const {
        for (const MergeMistake& mistake : merge_mistakes()) {
            std::int64_t wrong = 0;
            std::int64_t explained = 0;
            for (const MergeSample& sample : samples_) {
                if (!is_wrong(sample)) continue;
                ++wrong;
                explained += fits(sample, merge_all(sample, base(), &mistake));
            }
            // Two rows at least, and nearly all of them: what is left may be another mistake's.
            if (wrong > 1 && explained >= wrong - wrong / 100) return &mistake;
        }
        return nullptr;
    }

    bool fits_o(const MergeSample& sample, const PartialRow& replayed) const {
        for (Eigen::Index j = 0; j < sample.o.size(); ++j) {
            const double error =
                replayed.o_error(j) + cast_bound(dtype_o_, std::abs(replayed.o(j)) + replayed.o_error(j));
            if (!(std::abs(sample.o(j) - replayed.o(j)) <= error)) return false;
        }
        return true;
    }

    void explain() {
        const MergeMistake* found = nullptr;
        if (report_.o.diverges())
            found =
                best([](const MergeSample& sample) { return sample.o_is_wrong; },
                     [&](const MergeSample& sample, const PartialRow& row) { return fits_o(sample, row); });
        else
            found = best([](const MergeSample& sample) { return sample.lse_is_wrong; },
                         [](const MergeSample& sample, const PartialRow& row) {
                             return std::abs(sample.lse - row.lse) <=
                                    row.lse_error + gamma(2, u_f32) * std::abs(row.lse);
                         });
        if (found == nullptr) return;
        report_.cause = found->name;
        report_.says = found->says;
        report_.look_at = found->look_at;
    }

    PartRows rows_;
    RowStages stages_;
    Dtype dtype_o_;
    MergeReport report_;
    std::vector<MergeSample> samples_;
};

/// What a rank has of its rows over some keys: the outputs of a launch, or what it had merged after one.
struct PartialOver {
    const Recording* recording = nullptr;
    RowStages stages;
    std::vector<std::int64_t> keys;  ///< their positions, ascending
};

std::vector<std::int64_t> keys_of(const Problem& problem) {
    std::vector<std::int64_t> keys;
    for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) keys.push_back(key_position(problem, key));
    return keys;
}

std::vector<PartialOver> partials_of_others(const RunOfRanks& run, std::int64_t rank) {
    std::vector<PartialOver> all;
    for (std::int64_t other = 0; other < run.ranks(); ++other) {
        if (other == rank) continue;
        std::vector<std::int64_t> so_far;
        for (const Recording* const step : run.steps_of(other)) {
            std::vector<std::int64_t> keys = keys_of(step->problem());
            std::vector<std::int64_t> merged;
            std::ranges::set_union(so_far, keys, std::back_inserter(merged));
            so_far = std::move(merged);
            const bool is_launch = step->problem().shard.kind == ShardKind::step;
            if (const auto stages = output_stages(*step); stages && is_launch)
                all.push_back({step, *stages, std::move(keys)});
            if (const auto stages = merged_stages(*step)) all.push_back({step, *stages, so_far});
        }
    }
    return all;
}

/// Received rows against those that others have: of the first of them that has the row.
MergeReport judge_as_sent(const Recording& received, const std::vector<const PartialOver*>& senders) {
    const Shard& shard = received.problem().shard;
    std::deque<PartRows> rows;
    for (const PartialOver* const sender : senders) rows.emplace_back(*sender->recording, sender->stages);
    return MergeJudge(received, *output_stages(received), received.problem().dtype_o)
        .judge([&](std::int64_t batch, std::int64_t head, std::int64_t row) {
            MergeSample sample;
            const std::int64_t position = position_of(shard.q_positions, row);
            for (PartRows& of : rows) {
                const Problem& problem = of.recording().problem();
                const std::int64_t there = row_at(problem.shard.q_positions, position);
                if (there < 0 || there >= problem.seqlen_q) continue;
                std::optional<PartialRow> sent = of.row(batch, head, there);
                if (!sent) continue;
                sample.rows.push_back(std::move(*sent));
                break;
            }
            return sample;
        });
}

/// Names the rank whose outputs over other keys these are.
void name_sender(const std::vector<PartialOver>& partials, const Recording& received, MergeReport& report) {
    for (const PartialOver& partial : partials) {
        const MergeReport as_its = judge_as_sent(received, {&partial});
        if (!as_its.is_judged || as_its.o.diverges() || as_its.lse.diverges()) continue;
        report.cause = "wrong_partial";
        report.says = fmt::format("it is what {} has over {} keys from position {} on",
                                  text_of_part(partial.recording->problem().shard), partial.keys.size(),
                                  partial.keys.front());
        report.look_at =
            "from which rank outputs are received, and what is waited for before they are merged";
        return;
    }
}

}  // namespace

MergeReport judge_received(const RunOfRanks& run, const Recording& received) {
    if (!output_stages(received)) return {};
    const std::vector<PartialOver> partials = partials_of_others(run, received.problem().shard.rank);
    const std::vector<std::int64_t> keys = keys_of(received.problem());
    std::vector<const PartialOver*> senders;
    for (const PartialOver& partial : partials)
        if (partial.keys == keys) senders.push_back(&partial);
    MergeReport report = judge_as_sent(received, senders);
    if (report.o.diverges() || report.lse.diverges()) name_sender(partials, received, report);
    return report;
}

MergeReport judge_merge(const RunOfRanks& run, const Recording& step) {
    const std::optional<RowStages> merged = merged_stages(step);
    const std::optional<RowStages> partial = output_stages(step);
    if (!merged || !partial) return {};
    const Shard& shard = step.problem().shard;
    Before before(run, shard.rank, shard.step);
    PartRows mine(step, *partial);
    return MergeJudge(step, *merged, Dtype::f32)
        .judge([&](std::int64_t batch, std::int64_t head, std::int64_t row) {
            MergeSample sample;
            std::optional<PartialRow> own = mine.row(batch, head, row);
            std::optional<std::vector<PartialRow>> old =
                before.rows(batch, head, position_of(shard.q_positions, row), sample.merged_before);
            if (!own || !old) return sample;
            sample.rows = std::move(*old);
            sample.rows.push_back(std::move(*own));
            return sample;
        });
}

MergeReport judge_final(const RunOfRanks& run, const Recording& final) {
    const std::optional<RowStages> outputs = output_stages(final);
    if (!outputs) return {};
    const Shard& shard = final.problem().shard;
    Before before(run, shard.rank, std::nullopt);
    return MergeJudge(final, *outputs, final.problem().dtype_o)
        .judge([&](std::int64_t batch, std::int64_t head, std::int64_t row) {
            MergeSample sample;
            const std::int64_t position = position_of(shard.q_positions, row);
            if (auto rows = before.rows(batch, head, position, sample.merged_before))
                sample.rows = std::move(*rows);
            return sample;
        });
}

}  // namespace tilescope
