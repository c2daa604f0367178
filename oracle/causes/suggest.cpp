#include "oracle/causes/suggest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// More of them at once are no oversight.
constexpr int most_assignments = 4;
/// Ways to get equally far that are followed.
constexpr std::size_t most_ways = 4;
/// Query blocks that a change has to serve before the whole recording is judged with it.
constexpr std::size_t most_blocks = 4;

/// A query block of a head.
struct Block {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t q_block;
};

/// What is declared, and how it came to that.
struct Declared {
    Problem problem;
    Units units;
    std::vector<Assignment> assignments;
};

/// How far the judge gets: the first wrong stage, or past all of them.
constexpr int all_right = stage_count;

int reached_by(const Report& report) {
    return report.guilty ? int(*report.guilty) : all_right;
}

std::int64_t not_judged(const Report& report) {
    std::int64_t elements = 0;
    for (const StageReport& stage : report.stages) elements += stage.tally.not_judged;
    return elements;
}

/// nullopt with a declaration that cannot be, and with one that leaves less to compare.
std::optional<Report> judged_as(const Recording& recording, const Declared& as, const Report& report,
                                const std::optional<Block>& block) {
    JudgeOptions options;
    options.confidence = report.confidence;
    options.compare.top = 0;
    if (block) {
        options.only_head = {block->batch, block->head};
        options.only_q_block = block->q_block;
        options.threads = 1;
    }
    try {
        Report with = judge(DeclaredAs(recording, as.problem, as.units), options);
        if (not_judged(with) > not_judged(report)) return std::nullopt;
        return with;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// Whether what diverges is less than it was: no declaration is right that makes another stage wrong.
bool is_better(const Report& with, const Report& without) {
    const auto diverges = [](const Report& report, std::size_t stage) {
        return report.stages[stage].tally.diverges() && report.stages[stage].undeclared.empty();
    };
    for (std::size_t stage = 0; stage < stage_count; ++stage) {
        if (diverges(with, stage) && (!diverges(without, stage) || Stage(stage) == *without.guilty))
            return false;
    }
    return true;
}

/// The block of the first divergence, and others that have bad rows of the same stage.
std::vector<Block> blocks_of(const Report& report) {
    const Element& first = *report.first_divergence;
    std::vector<Block> blocks = {{first.tile.batch, first.tile.head, first.tile.q_block}};
    const StageTally& tally = report.stage(*report.guilty).tally;
    if (!stage_info(report.problem, *report.guilty).per_q_block) return blocks;
    const std::size_t step = tally.bad_rows.size() / most_blocks + 1;
    for (std::size_t i = 0; i < tally.bad_rows.size() && blocks.size() < most_blocks; i += step) {
        const BadRow& row = tally.bad_rows[i];
        blocks.push_back({row.batch, row.head, row.row / report.problem.block_m});
    }
    return blocks;
}

/// Constants that kernels multiply with.
std::vector<double> known_factors(const Problem& problem) {
    const double scale = problem.sm_scale;
    return {scale, scale * std::numbers::log2e, 1 / scale, std::numbers::log2e, 448, 256, 240, 127, 1};
}

/// The stage whose values a declared type is that of; nullopt where it is no type of what was recorded.
std::optional<Stage> stage_of_type(std::string_view name) {
    struct Row {
        std::string_view name;
        Stage stage;
    };
    constexpr Row rows[] = {{"q.cast", Stage::q},
                            {"k.cast", Stage::k},
                            {"v.cast", Stage::v},
                            {"s.cast", Stage::s},
                            {"p.cast", Stage::p},
                            {"ds.cast", Stage::ds},
                            {"problem.dtype_o", Stage::o},
                            {"problem.dtype_acc", Stage::acc},
                            {"problem.dtype_dq", Stage::dq},
                            {"problem.dtype_dk", Stage::dk},
                            {"problem.dtype_dv", Stage::dv}};
    const auto found = std::ranges::find(rows, name, &Row::name);
    if (found == std::end(rows)) return std::nullopt;
    return found->stage;
}

/// Whether the recorded tiles of a block hold numbers of the type alone: else a wide type explains much.
bool holds_only(const Recording& recording, Stage stage, const Block& block, Dtype dtype) {
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), block.batch);
    for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles(); ++kv_tile) {
        const TileId tile{block.batch, block.head, block.q_block, kv_tile};
        if (!recording.has_stage(stage) || !recording.has_tile(stage, tile)) continue;
        const std::optional<MatrixF> values = load_tile(recording, problem, stage, tile);
        for (Eigen::Index i = 0; values && i < values->size(); ++i) {
            const float value = values->data()[i];
            if (std::isfinite(value) && decode(dtype, encode(dtype, value)) != value) return false;
        }
    }
    return true;
}

bool is_widening(const Declared& as, const declarations::Declaration& declaration, std::string_view value) {
    // These round operands or sums to so few bits that they explain much: only where the inputs are such.
    const bool fp8 = dtype_info(as.problem.dtype_q).bytes == 1;
    if (value == "tensor_core_fp8") return !fp8;
    if (value == "tensor_core_tf32") return as.problem.dtype_q != Dtype::f32;
    return declaration.name == "p.exp_error";
}

/// How far the rows of a block see to both sides of their diagonal, by the scores that are no -inf.
struct Reach {
    std::int64_t left = -1;
    std::int64_t right = -1;
};

Reach reach_of(const Recording& recording, const Block& block) {
    const Problem problem = problem_of(recording.problem(), recording.side_inputs(), block.batch);
    const bool top_left = problem.causal_alignment == CausalAlignment::top_left;
    const std::int64_t shift = top_left ? 0 : problem.seqlen_kv - problem.seqlen_q;
    Reach reach;
    for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles() && recording.has_stage(Stage::s); ++kv_tile) {
        const std::optional<MatrixF> s =
            load_tile(recording, problem, Stage::s, {block.batch, block.head, block.q_block, kv_tile});
        if (!s) continue;
        for (Eigen::Index i = 0; i < s->rows(); ++i) {
            for (Eigen::Index j = 0; j < s->cols(); ++j) {
                if (!std::isfinite((*s)(i, j))) continue;
                const std::int64_t key = kv_tile * problem.block_n + j;
                const std::int64_t diagonal = block.q_block * problem.block_m + i + shift;
                reach.left = std::max(reach.left, diagonal - key);
                reach.right = std::max(reach.right, key - diagonal);
            }
        }
    }
    return reach;
}

/// What a number may be instead. `first` is the first divergence.
std::vector<std::string> numbers_for(const declarations::Declaration& declaration, const Declared& as,
                                     const Element& first, const Reach& reach) {
    std::vector<double> numbers;
    const auto is = [&](std::string_view name) { return declaration.name == name; };
    const Problem& problem = as.problem;
    if (is("s.masked_value") && std::isinf(first.expected) && std::isfinite(first.got) && first.got < 0)
        numbers = {first.got};
    if (is("problem.logits_soft_cap")) numbers = {0};
    if (is("problem.sm_scale")) numbers = {1 / std::sqrt(double(problem.head_dim))};
    if (declaration.name.ends_with(".scale")) numbers = known_factors(problem);
    if (is("problem.window_left")) numbers = {double(reach.left), double(reach.left + 1), -1};
    if (is("problem.window_right")) numbers = {double(reach.right), double(reach.right + 1), -1};
    if (is("problem.kv_tiles_per_split")) {
        for (std::int64_t tiles = 0; tiles < std::min<std::int64_t>(problem.kv_tiles(), 16); ++tiles)
            numbers.push_back(double(tiles));
    }
    if (is("problem.l_lane_columns")) numbers = {1, 2, 4, 8, 16};
    std::vector<std::string> texts;
    for (const double number : numbers) {
        // As text that every number of the declaration's type can be read from.
        const bool whole = number == std::floor(number) && std::abs(number) < 1e6;
        texts.push_back(whole ? std::to_string(std::int64_t(number)) : declarations::number_text(number));
    }
    return texts;
}

bool concerns(const declarations::Declaration& declaration, Direction direction) {
    constexpr std::string_view backward[] = {"dp.", "ds.", "dq.", "dk.", "dv.", "problem.dtype_d"};
    const bool is_backward = std::ranges::any_of(
        backward, [&](std::string_view prefix) { return declaration.name.starts_with(prefix); });
    return direction == Direction::backward || !is_backward;
}

/// Every other declaration that is one assignment away.
std::vector<Declared> neighbours(const Declared& as, const Report& report, const Reach& reach) {
    std::vector<Declared> all;
    for (const declarations::Declaration& declaration : declarations::all_declarations()) {
        if (!concerns(declaration, as.problem.direction)) continue;
        std::vector<std::string> values = declarations::values_of(declaration);
        if (values.empty()) values = numbers_for(declaration, as, *report.first_divergence, reach);
        for (const std::string& value : values) {
            if (value == declarations::value_text(declaration, as.problem, as.units)) continue;
            if (is_widening(as, declaration, value)) continue;
            Declared next = as;
            declarations::declare(declaration, value, next.problem, next.units);
            next.assignments.push_back({declaration.name, value});
            all.push_back(std::move(next));
        }
    }
    return all;
}

class Search {
 public:
    Search(const Recording& recording, const Report& report, const std::function<void()>& check)
        : recording_(recording),
          report_(report),
          check_(check),
          blocks_(blocks_of(report)),
          reach_(reach_of(recording, blocks_.front())) {}

    /// The assignments that get furthest. Several ways are followed at once: what is equal for now may come to
    /// an end later.
    std::optional<Declared> furthest() const {
        std::vector<Declared> ways = {{recording_.problem(), recording_.units(), {}}};
        int reached = reached_by(report_);
        for (int step = 0; step < most_assignments && reached < all_right; ++step) {
            Ways next{{}, reached};
            for (const Declared& way : ways) step_from(way, next);
            if (next.to.empty()) break;
            ways = std::move(next.to);
            reached = next.reached;
        }
        if (ways.front().assignments.empty()) return std::nullopt;
        return ways.front();
    }

 private:
    bool may_be(const Declared& as) const {
        const auto& [name, value] = as.assignments.back();
        const std::optional<Stage> stage = stage_of_type(name);
        return !stage || holds_only(recording_, *stage, blocks_.front(), *dtype_from_name(value));
    }

    /// In every block that is looked at.
    int reached_in_blocks(const Declared& as, int least) const {
        if (!may_be(as)) return -1;
        int reached_all = all_right;
        for (const Block& block : blocks_) {
            if (check_) check_();
            const std::optional<Report> with = judged_as(recording_, as, report_, block);
            reached_all = std::min(reached_all, with ? reached_by(*with) : -1);
            if (reached_all <= least) break;
        }
        return reached_all;
    }

    /// Those that get equally far.
    struct Ways {
        std::vector<Declared> to;
        int reached;
    };

    void try_all(std::vector<Declared> candidates, Ways& best) const {
        for (Declared& next : candidates) {
            if (best.reached == all_right) return;
            const int least =
                best.to.size() < most_ways && !best.to.empty() ? best.reached - 1 : best.reached;
            const int got = reached_in_blocks(next, least);
            if (got <= least) continue;
            if (got > best.reached) best = {{}, got};
            best.to.push_back(std::move(next));
        }
    }

    /// One assignment, or two, one of them of the stage that `from` gets to: each alone may leave it as wrong as it
    /// was.
    void step_from(const Declared& from, Ways& best) const {
        const int before = best.reached;
        try_all(neighbours(from, report_, reach_), best);
        if (!best.to.empty()) return;
        const std::string prefix = std::string(stage_info(Stage(before)).name) + ".";
        const auto is_of_stage = [&](const Declared& next) {
            return next.assignments.back().name.starts_with(prefix);
        };
        const auto is_near = [&](const Declared& next) {
            return is_of_stage(next) || next.assignments.back().name.starts_with("problem.");
        };
        for (const Declared& first : neighbours(from, report_, reach_)) {
            if (!is_of_stage(first)) continue;
            std::vector<Declared> seconds = neighbours(first, report_, reach_);
            std::erase_if(seconds, std::not_fn(is_near));
            try_all(std::move(seconds), best);
        }
    }

    const Recording& recording_;
    const Report& report_;
    const std::function<void()>& check_;
    std::vector<Block> blocks_;
    Reach reach_;
};

}  // namespace

std::optional<Suggestion> suggest_declarations(const Recording& recording, const Report& report,
                                               const std::function<void()>& check) {
    if (!report.guilty || !report.first_divergence || !report.other.empty() || report.atol || report.rtol)
        return std::nullopt;
    if (is_operand(*report.guilty) && *report.guilty != Stage::q) return std::nullopt;
    const std::optional<Declared> found = Search(recording, report, check).furthest();
    if (!found) return std::nullopt;
    const std::optional<Report> with = judged_as(recording, *found, report, std::nullopt);
    if (!with || !is_better(*with, report)) return std::nullopt;
    return Suggestion{found->assignments, with->guilty};
}

}  // namespace tilescope
