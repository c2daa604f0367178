// Elements that are not written: what an earlier tile left in their place is taken for them.

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "oracle/causes/left_in_memory.h"
#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// The elements as an earlier tile of the dump has them. Of those that it does not have nothing is known: a kernel
/// may fill up a tile at the end. `further`: they are those of the tiles before it.
Change left_by(Stage stage, std::int64_t behind, bool further) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) {
        const std::vector<MatrixF> tiles = left_in_memory(stage, site, behind);
        const std::span<const MatrixF> left(tiles.data(),
                                            further ? tiles.size() : std::min(tiles.size(), std::size_t(1)));
        take_left(stage, site, left, estimate);
    }};
}

/// The scores of the tile before, which the mask of this one hides or not.
Change left_under_mask(bool forgets) {
    const auto hides = [](const SearchedTile& tile, Eigen::Index i, Eigen::Index j) {
        return !tile.call->visible_to(tile.first_row + i, tile.first_key).contains(tile.first_key + j);
    };
    const auto hide = [=](const SearchedTile& tile, MatrixF& left) {
        for (Eigen::Index i = 0; i < left.rows(); ++i)
            for (Eigen::Index j = 0; j < tile.keys(); ++j)
                if (hides(tile, i, j)) left(i, j) = float(tile.call->units.s_masked_value);
    };
    return {.result = [=](const SearchedTile& site, Estimate& s) {
        const MatrixF left =
            forgets ? left_in_rows(Stage::s, site, forget_phantoms) : left_in_rows(Stage::s, site, hide);
        const DumpFactor factor =
            dump_factor(*site.call, Stage::s, site.first_row, site.first_key, s.value.rows(), s.value.cols());
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                if (hides(site, i, j)) continue;
                s.value(i, j) = double(left(i, j)) / factor.at(i, j);
                const bool known = !std::isnan(left(i, j));
                s.error(i, j) = !known                         ? infinity
                                : std::isfinite(s.value(i, j)) ? 4 * u_f32 * std::abs(s.value(i, j))
                                                               : 0;
            }
        }
    }};
}

/// Whether the wrong elements of the first bad tile are different numbers: one number may be from anywhere.
bool are_different(const Observation& seen) {
    std::set<float> values;
    for (Eigen::Index i = 0; i < seen.got.size(); ++i)
        if (seen.wrong[std::size_t(i)] && !std::isnan(seen.got.data()[i])) values.insert(seen.got.data()[i]);
    return values.size() != 1;
}

/// A ring of buffers has few stages: what was there before was loaded that many tiles before.
std::vector<Candidate> elements_not_written(const Evidence& evidence) {
    constexpr std::int64_t most_buffers = 4;
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !are_different(evidence.seen.front())) return candidates;
    // Rows behind the last query are left, too, or may be right where not all are.
    for (const bool forgets : {false, true})
        if (evidence.acts == Stage::s && evidence.units().s_masked)
            candidates.push_back(
                {{{"left by", "the tile before, under the mask"}}, left_under_mask(forgets)});
    for (std::int64_t behind = 1; behind <= most_buffers; ++behind) {
        const std::string which =
            behind == 1 ? "the tile before" : "the tile " + digits(behind) + " tiles before";
        for (const bool further : {false, true})
            candidates.push_back({{{"left by", which}}, left_by(evidence.acts, behind, further), 1});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> stale_causes() {
    return {
        {"elements_not_written",
         "unwritten / stale",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::p, Stage::dout, Stage::delta, Stage::dp, Stage::ds},
         "elements are not written and keep what an earlier tile left there",
         "the copy or store that fills them, the wait for it, and which buffer of the pipeline is read",
         elements_not_written}};
}

}  // namespace tilescope
