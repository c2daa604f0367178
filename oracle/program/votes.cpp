#include "oracle/program/votes.h"

#include <algorithm>
#include <map>

#include "oracle/program/solved.h"
#include "oracle/solve/fitted_index.h"

namespace tilescope {

std::optional<VotedIndices> voted(const ProgramCall& call, const std::vector<Vote>& votes,
                                  const PlaceNumber& by, const Counted& counted) {
    std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> counts;
    std::int64_t voting = 0;
    for (const Vote& vote : votes) {
        std::map<std::int64_t, std::int64_t>& of_number = counts[by.of(call, vote.at)];
        bool is_any = false;
        for (const std::int64_t y : vote.indices) {
            if (!counted.is_there(y, vote.at)) continue;
            ++of_number[y - counted.origin(vote.at)];
            is_any = true;
        }
        voting += is_any ? 1 : 0;
    }
    VotedIndices table;
    std::int64_t agreeing = 0;
    for (const auto& [x, of_number] : counts) {
        if (of_number.empty()) continue;
        const auto best =
            std::ranges::max_element(of_number, {}, [](const auto& vote) { return vote.second; });
        table.emplace_back(x, best->first);
        agreeing += best->second;
    }
    const bool is_told = double(voting) >= (1 - most_open) * double(votes.size()) &&
                         double(agreeing) >= (1 - 2 * unexplained_share) * double(voting);
    return table.empty() || !is_told ? std::nullopt : std::optional(table);
}

std::vector<Expr> expressions_of(const VotedIndices& table, std::size_t most) {
    std::vector<Expr> all = fitted_indices(table, voted_by, most);
    const auto [x, y] = table.front();
    if (std::ranges::all_of(table, [&](const auto& entry) { return entry.second - entry.first == y - x; }))
        all.insert(all.begin(), moved_by(Expr(voted_by), y - x));
    if (std::ranges::all_of(table, [&](const auto& entry) { return entry.second == y; })) all.emplace_back(y);
    return all;
}

}  // namespace tilescope
