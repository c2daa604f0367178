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
        for (Candidate& candidate : read_in_layouts(linear_fragments(operand), value, {"operand", name}))
            candidates.push_back(std::move(candidate));
    }
    for (const Layout& layout : linear_fragments(FragmentOperand::accumulator)) {
        const auto change = [layout](const SearchedTile&, Estimate& result) {
            result.value = read_in(layout, result.value);
            result.error = read_in(layout, result.error);
        };
        candidates.push_back({{{"operand", "the accumulator"}, layout.told}, {.result = change}});
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

/// Columns that are NaN in every row of a bad tile.
std::vector<bool> nan_columns(const Observation& seen) {
    std::vector<bool> columns(std::size_t(seen.got.cols()), true);
    for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
            columns[std::size_t(j)] = columns[std::size_t(j)] && std::isnan(seen.got(i, j));
    return columns;
}

std::vector<Candidate> nan_times_zero(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    // Masked keys whose V is no number.
    candidates.push_back({{{"V of", "masked keys"}}, {.result = [](const SearchedTile& site, Estimate& acc) {
                              for (Eigen::Index key = 0; key < site.v.value.rows(); ++key) {
                                  for (Eigen::Index d = 0; d < site.v.value.cols(); ++d) {
                                      if (std::isfinite(site.v.value(key, d))) continue;
                                      acc.value.col(d).setConstant(quiet_nan);
                                      acc.error.col(d).setZero();
                                  }
                              }
                          }}});
    const auto rest = evidence.call().problem.seqlen_kv % evidence.problem().block_n;
    const Observation& bad = evidence.seen.front();
    if (rest == 0 || !evidence.direct() || !bad.is_bad()) return candidates;
    const std::vector<bool> columns = nan_columns(bad);
    if (std::ranges::find(columns, true) == columns.end()) return candidates;
    candidates.push_back(
        {{{"V of", "keys past seqlen_kv"}}, {.result = [=](const SearchedTile& site, Estimate& acc) {
             if (site.keys() == site.call->problem.block_n) return;
             for (std::size_t d = 0; d < columns.size(); ++d) {
                 if (!columns[d]) continue;
                 acc.value.col(Eigen::Index(d)).setConstant(quiet_nan);
                 acc.error.col(Eigen::Index(d)).setZero();
             }
         }}});
    return candidates;
}

}  // namespace

std::vector<Cause> fragment_causes() {
    return {
        {"fragment_filled_linearly",
         "layout",
         {Stage::s, Stage::acc},
         "lanes take the elements of a fragment one after the other, not as the instruction has them",
         "which element of a fragment is which row and column",
         fragment_filled_linearly},
        {"accumulator_not_zeroed",
         "unwritten / stale",
         {Stage::s, Stage::acc},
         "a product is added to what its accumulator held before",
         "where the accumulator is zeroed; beta of a library's call",
         accumulator_not_zeroed},
        {"nan_times_zero",
         "0 * NaN",
         {Stage::acc},
         "a P of 0 is multiplied with a V that is NaN",
         "V of masked keys and of keys past seqlen_kv: zero it",
         nan_times_zero},
    };
}

}  // namespace tilescope
