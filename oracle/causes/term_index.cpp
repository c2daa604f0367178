#include "oracle/causes/term_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tilescope {

std::span<const TermIndex> term_indices(Stage stage) {
    using enum TermIndex;
    static constexpr std::array of_all = {within_tile, tile, from_last, head};
    return std::span(of_all).first(is_of_all_queries(stage) ? 4 : stage == Stage::dq ? 3 : 1);
}

bool is_over_head(Stage stage) {
    return stage == Stage::s || stage == Stage::delta || stage == Stage::dp;
}

std::string_view terms_name(Stage stage, TermIndex index) {
    switch (index) {
        case TermIndex::tile:
            return stage == Stage::dq ? "KV tiles" : "query blocks";
        case TermIndex::from_last:
            return stage == Stage::dq ? "KV tiles from the last" : "query blocks from the last";
        case TermIndex::head:
            return "heads of the group";
        default:
            if (is_of_all_queries(stage)) return "rows";
            return is_over_head(stage) ? "head elements" : "columns";
    }
}

std::int64_t terms_of_sum(const Problem& problem, Stage stage, TermIndex index) {
    const bool by_keys = is_of_all_queries(stage);
    switch (index) {
        case TermIndex::tile:
            return by_keys ? problem.q_blocks() : problem.kv_tiles();
        case TermIndex::from_last:
            return by_keys ? problem.q_blocks() * problem.dkv_group() : problem.kv_tiles();
        case TermIndex::head:
            return problem.dkv_group();
        default:
            if (stage == Stage::delta || stage == Stage::dp) return problem.head_dim_v;
            return stage == Stage::s ? problem.head_dim : by_keys ? problem.block_m : problem.block_n;
    }
}

std::size_t number_of_part(Stage stage, const SearchedTile& site, std::size_t part, TermIndex index) {
    const GradientPart& at = (*site.parts)[part];
    if (index == TermIndex::from_last) return site.parts->size() - 1 - part;
    if (index == TermIndex::head)
        return std::size_t(number_in_group(site.call->problem, Stage::dk, at.id.head));
    return std::size_t(stage == Stage::dq ? at.id.kv_tile : at.id.q_block);
}

SearchedTile with_parts(const PartSet& set, Stage stage, const SearchedTile& site, bool inside) {
    SearchedTile some = site;
    GradientParts parts;
    for (std::size_t i = 0; i < site.parts->size(); ++i)
        if (set.contains(stage, site, i) == inside) parts.push_back((*site.parts)[i]);
    some.parts = std::make_shared<const GradientParts>(std::move(parts));
    return some;
}

bool PartSet::contains(Stage stage, const SearchedTile& site, std::size_t part) const {
    if (is_all()) return true;
    const auto number = std::int64_t(number_of_part(stage, site, part, by));
    const bool is_one = period == 0 ? number == first : number % period == first;
    return is_one != others;
}

std::string PartSet::text(Stage stage) const {
    if (is_all()) return "";
    const std::string numbers =
        period == 0 ? std::to_string(first) : fmt::format("{} of every {}", first, period);
    return fmt::format("{}{} {}", others ? "all but " : "", terms_name(stage, by), numbers);
}

std::vector<PartSet> part_sets(const Problem& problem, Stage stage) {
    constexpr std::int64_t most_numbers = 4;
    std::vector<PartSet> sets;
    for (const TermIndex by : term_indices(stage)) {
        const std::int64_t count = terms_of_sum(problem, stage, by);
        if (by == TermIndex::within_tile || count < 2) continue;
        const std::int64_t numbers = by == TermIndex::from_last ? 1 : std::min(count, most_numbers);
        for (std::int64_t n = 0; n < numbers; ++n) sets.push_back({by, 0, n});
        if (by == TermIndex::from_last || count < 3) continue;
        sets.push_back({by, 0, 0, true});
        sets.push_back({by, 2, 1});
    }
    return sets;
}

Change only_in(const PartSet& set, Stage stage, Change change) {
    if (set.is_all()) return change;
    change.inputs = [=, inputs = change.inputs](SearchedTile& site) {
        SearchedTile some = with_parts(set, stage, site, true);
        inputs(some);
        GradientParts parts = *with_parts(set, stage, site, false).parts;
        parts.insert(parts.end(), some.parts->begin(), some.parts->end());
        site.parts = std::make_shared<const GradientParts>(std::move(parts));
    };
    return change;
}

}  // namespace tilescope
