// Elements that are not written: what an earlier tile left in their place is taken for them.

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "oracle/causes/left_in_memory.h"
#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

bool is_left_nowhere(const SearchedTile&, Eigen::Index, Eigen::Index) {
    return false;
}

/// The elements as an earlier tile left them, where `is_left` says that they are; the others are written.
Change left_by(Stage stage, std::int64_t behind, const IsLeft& is_left) {
    return {.result = [=](const SearchedTile& site,
                          Estimate& estimate) { take_left(stage, site, behind, is_left, estimate); },
            .made_where = [=](const IsLeft& where) { return left_by(stage, behind, where); },
            .takes_memory = true};
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
    return {.result =
                [=](const SearchedTile& site, Estimate& s) {
                    const MatrixF left = forgets ? left_in_rows(Stage::s, site, forget_phantoms)
                                                 : left_in_rows(Stage::s, site, hide);
                    const DumpFactor factor = dump_factor(*site.call, Stage::s, site.first_row,
                                                          site.first_key, s.value.rows(), s.value.cols());
                    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
                        for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                            if (hides(site, i, j)) continue;
                            s.value(i, j) = double(left(i, j)) / factor.at(i, j);
                            const bool known = !std::isnan(left(i, j));
                            s.error(i, j) = !known ? infinity
                                            : std::isfinite(s.value(i, j))
                                                ? 4 * u_f32 * std::abs(s.value(i, j))
                                                : 0;
                        }
                    }
                },
            .takes_memory = true};
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
        // What a tile at the end does not have is left, too, or filled where the mistake is not made.
        for (const IsLeft& is_left : {IsLeft(is_left_anywhere), IsLeft(is_left_nowhere)})
            candidates.push_back({{{"left by", which}}, left_by(evidence.acts, behind, is_left), 1});
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
