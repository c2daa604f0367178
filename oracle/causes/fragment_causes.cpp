// Registers of a matrix product: the elements of a fragment that a lane holds, and accumulators.

#include <algorithm>
#include <utility>

#include "oracle/causes/layouts.h"

namespace tilescope {

namespace {

Matrix& p_of(SearchedTile& site) {
    return site.operand_p.value;
}

struct LoadedOperand {
    Stage acts;
    const char* name;
    FragmentOperand operand;
    Matrix& (*value)(SearchedTile&);
};

constexpr LoadedOperand loaded_operands[] = {{Stage::s, "q", FragmentOperand::left, q_of},
                                             {Stage::s, "k", FragmentOperand::right, k_of},
                                             {Stage::acc, "p", FragmentOperand::left, p_of},
                                             {Stage::acc, "v", FragmentOperand::right_of_v, v_of}};

std::vector<Candidate> fragment_filled_linearly(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const auto& [acts, name, operand, value] : loaded_operands) {
        if (acts != evidence.acts) continue;
        for (Candidate& candidate : read_in_layouts(linear_fragments(operand), value, {{"operand", name}}))
            candidates.push_back(std::move(candidate));
    }
    for (const Layout& layout : linear_fragments(FragmentOperand::accumulator)) {
        const auto change = [layout](const SearchedTile&, Estimate& result) {
            result.value = read_in(layout, result.value);
            result.error = read_in(layout, result.error);
        };
        candidates.push_back({{{"operand", "the accumulator"}, layout.told.front()}, {.result = change}});
    }
    return candidates;
}

/// The products of the tiles before are still in it, or what no product leaves behind.
std::vector<Candidate> accumulator_not_zeroed(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (evidence.acts == Stage::s) {
        const auto change = [](SearchedTile& site) {
            const Eigen::Index rows = std::min(site.k.value.rows(), site.k_before.rows());
            site.k.value.topRows(rows) += site.k_before.topRows(rows);
        };
        candidates.push_back({{{"starts with", "the products of the tiles before"}}, {.inputs = change}});
    }
    // Each tile's scores begin anew, O goes on.
    const auto begins_as_nan = [anew = evidence.acts == Stage::s](const SearchedTile& site,
                                                                  Estimate& result) {
        if (!site.begins && !anew) return;
        // The mask comes after the product.
        for (Eigen::Index i = 0; i < result.value.size(); ++i) {
            double& value = result.value.data()[i];
            const bool is_hidden = anew && value == -infinity;
            if (!is_hidden) value = quiet_nan;
        }
    };
    candidates.push_back({{{"starts with", "NaN"}}, {.result = begins_as_nan}, 1});
    return candidates;
}

}  // namespace

std::vector<Cause> fragment_causes() {
    const std::vector<Stage> products = {Stage::s, Stage::acc};
    return {
        {"fragment_filled_linearly", "layout", products,
         "lanes take the elements of a fragment one after the other, not as the instruction has them",
         "which element of a fragment is which row and column", fragment_filled_linearly},
        {"accumulator_not_zeroed", "unwritten / stale", products,
         "a product is added to what its accumulator held before",
         "where the accumulator is zeroed; beta of a library's call", accumulator_not_zeroed},
    };
}

}  // namespace tilescope
