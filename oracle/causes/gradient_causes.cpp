// Mistakes of the backward pass that have no counterpart in the forward one.

#include <algorithm>
#include <array>
#include <numbers>

#include "oracle/causes/rewrites.h"
#include "oracle/causes/signature.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Row i + n of the tile in row i, around its end.
void rotate_rows(std::int64_t n, Matrix& values) {
    const Matrix old = values;
    for (Eigen::Index i = 0; i < old.rows(); ++i)
        values.row(i) = old.row(((i + n) % old.rows() + old.rows()) % old.rows());
}

constexpr std::array<std::int64_t, 10> row_offsets = {1, -1, 2, -2, 4, -4, 8, -8, 16, -16};

CauseParameter row_parameter(std::int64_t offset) {
    return {"row", (offset > 0 ? "+" : "") + digits(offset)};
}

/// delta of a row with the output of another row, or of another head.
std::vector<Candidate> o_of_other_row(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.world->recording().has_input(Input::o)) return candidates;
    const auto reads = [](std::int64_t rows, std::int64_t heads) {
        return [=](SearchedTile& site) {
            const Problem& problem = site.call->problem;
            const std::int64_t head = site.id.head + heads;
            if (head < 0 || head >= problem.heads) return;
            for (Eigen::Index i = 0; i < site.o.value.rows(); ++i) {
                const std::int64_t row = site.first_row + i + rows;
                if (row >= 0 && row < problem.seqlen_q)
                    site.o.value.row(i) =
                        load_input(site.world->recording(), Input::o, site.id.batch, head, row, 1);
            }
        };
    };
    for (const std::int64_t rows : row_offsets) {
        const auto rotate = [=](SearchedTile& site) { rotate_rows(rows, site.o.value); };
        candidates.push_back({{row_parameter(rows)}, {.inputs = reads(rows, 0)}, 1});
        candidates.push_back(
            {{row_parameter(rows), {"of", "the tile, around its end"}}, {.inputs = rotate}, 2});
    }
    for (const std::int64_t heads : {1, -1})
        candidates.push_back(
            {{{"head", (heads > 0 ? "+" : "") + digits(heads)}}, {.inputs = reads(0, heads)}, 1});
    return candidates;
}

bool is_backward(const Evidence& evidence) {
    return evidence.problem().direction == Direction::backward;
}

/// The logarithm to one base taken for one to the other.
std::vector<NamedConstant> factor_of_base(const Evidence& evidence) {
    const bool is_base_two = evidence.units().lse_log_base == LogBase::two;
    return {{"", is_base_two ? std::numbers::log2e : std::numbers::ln2, 0}};
}

std::vector<Candidate> cap_derivative_missing(const Evidence& evidence) {
    const HeadCall& call = evidence.call();
    if (!call.capped() || !call.units.ds_capped) return {};
    return always({.inputs = [](SearchedTile& site) { site.own_call().units.ds_capped = false; }});
}

/// What one query head adds to dk or dv of a KV tile, whichever head of these it belongs to.
GradientParts parts_of_head(const SearchedTile& site, Stage stage, std::int64_t head) {
    GradientParts parts;
    const std::int64_t own = stage_head(site.call->problem, stage, head);
    ChangedReplay walk(*site.world, {site.id.batch, own, 0, site.id.kv_tile}, stage, {});
    walk.run(stage, [&](const SearchedTile& there, const Estimate&) {
        for (const GradientPart& part : *there.parts)
            if (part.id.head == head) parts.push_back(part);
    });
    return parts;
}

/// Every heads_kv-th query head in place of neighbours, or the other way round.
std::vector<Candidate> group_of_other_heads(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    if (problem.dkv_group() == 1 || problem.dkv_heads() == 1) return {};
    return always({.inputs = [stage = evidence.acts](SearchedTile& site) {
        Problem other = site.call->problem;
        other.head_grouping = other.is_interleaved() ? HeadGrouping::consecutive : HeadGrouping::interleaved;
        const HeadRange heads = heads_reading(other, site.id.head);
        GradientParts all;
        for (std::int64_t i = 0; i < heads.size(); ++i)
            for (GradientPart& part : parts_of_head(site, stage, heads.at(i))) all.push_back(std::move(part));
        site.parts = std::make_shared<const GradientParts>(std::move(all));
    }});
}

/// Of the query heads that share a KV head one alone.
std::vector<Candidate> group_not_summed(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t group = evidence.problem().dkv_group();
    for (const std::int64_t head : {group - 1, std::int64_t(0)}) {
        if (group == 1) break;
        const auto keep = [stage = evidence.acts, head](SearchedTile& site) {
            std::erase_if(site.own_parts(), [&](const GradientPart& part) {
                return number_in_group(site.call->problem, stage, part.id.head) != head;
            });
        };
        candidates.push_back(
            {{{"head of the group", head == 0 ? "the first" : "the last"}}, {.inputs = keep}});
    }
    return candidates;
}

/// Products with ds, or P, as it lies in the tile where its transpose is meant.
std::vector<Candidate> not_transposed(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) {
        for (GradientPart& part : site.own_parts()) {
            const Estimate right = part.a;
            for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
                for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
                    const bool is_there = j < right.value.rows() && i < right.value.cols();
                    part.a.value(i, j) = is_there ? right.value(j, i) : 0;
                    part.a.error(i, j) = is_there ? right.error(j, i) : 0;
                }
            }
        }
    }});
}

}  // namespace

std::vector<Cause> gradient_causes() {
    const std::vector<Stage> ds = {Stage::ds};
    const std::vector<Stage> of_keys = {Stage::dk, Stage::dv};
    return {
        {"delta_missing", "constants", ds, "delta is not subtracted from dp", "ds = p (dp - delta)",
         rewrites({{var::delta, 0}})},
        {"delta_added", "constants", ds, "delta is added to dp in place of being subtracted",
         "ds = p (dp - delta)", rewrites({{var::delta, -1 * var::delta}})},
        {"o_of_other_row",
         "layout",
         {Stage::delta},
         "delta is computed with the output of another row or head",
         "the index with which o is read",
         o_of_other_row},
        {"lse_of_other_base",
         "constants",
         {Stage::p},
         "lse is taken for a logarithm to the other base",
         "exp or exp2, and the factor log2e or ln2 on lse",
         where_declared(is_backward, rewrites_with("", factor_of_base, {{var::m, var::m * var::constant}}))},
        {"maximum_for_lse",
         "recurrence",
         {Stage::p},
         "P is computed with a maximum in place of lse",
         "what is subtracted from the scores in the backward pass",
         where_declared(is_backward, rewrites({{var::m, var::m_tile}}))},
        {"cap_derivative_missing", "constants", ds,
         "ds is not multiplied with the derivative of the soft cap", "ds (1 - tanh(s / cap)^2)",
         cap_derivative_missing},
        {"group_of_other_heads", "head / batch map", of_keys,
         "every heads_kv-th query head is summed up in place of neighbours", "the query heads of a KV head",
         group_of_other_heads, "--heads-kv with groups of several query heads"},
        {"group_not_summed", "head / batch map", of_keys,
         "the query heads of a KV head are not summed up: one of them alone is there",
         "where dk and dv are stored, and where they begin at 0", group_not_summed,
         "--heads-kv with groups of several query heads"},
        {"not_transposed", "layout", of_keys, "ds or P is multiplied where its transpose should be",
         "row or column layout of the first operand", not_transposed},
    };
}

}  // namespace tilescope
