
#include "oracle/causes/signature.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// A product of 0 in the columns of other lanes.
std::vector<Candidate> products_of_some_lanes() {
    std::vector<Candidate> candidates;
    for (const std::int64_t lanes : {2, 4, 8, 16, 32}) {
        for (std::int64_t lane = 0; lane < (lanes > 8 ? 1 : lanes); ++lane) {
            const auto change = [=](SearchedTile& site) {
                for (Eigen::Index key = 0; key < site.k.value.rows(); ++key)
                    if (key % lanes != lane) site.k.value.row(key).setZero();
            };
            candidates.push_back(
                {{{"lanes", digits(lanes)}, {"right in lane", digits(lane)}}, {.inputs = change}, 1});
        }
    }
    return candidates;
}

/// Each lane's dot products begin with its own part of head_dim.
std::vector<Candidate> one_lane_only(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t d = evidence.problem().head_dim;
    candidates = products_of_some_lanes();
    for (const std::int64_t lanes : {2, 4, 8, 16, 32}) {
        if (d % lanes != 0) continue;
        candidates.push_back({{{"lanes", digits(lanes)}, {"lane n has", "its part and those behind it"}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       for (Eigen::Index key = 0; key < site.k.value.rows(); ++key)
                                           site.k.value.row(key).head(key % lanes * (d / lanes)).setZero();
                                   }},
                              1});
        candidates.push_back({{{"lanes", digits(lanes)}, {"lane n has", "its part alone"}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       for (Eigen::Index key = 0; key < site.k.value.rows(); ++key) {
                                           const auto part = key % lanes * (d / lanes);
                                           site.k.value.row(key).head(part).setZero();
                                           site.k.value.row(key).tail(d - part - d / lanes).setZero();
                                       }
                                   }},
                              1});
    }
    return candidates;
}

/// Columns whose product is 0, up to the end of the tile; before mask and bias.
std::vector<Candidate> first_columns_only(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (std::int64_t first = 8; first < evidence.problem().block_n; first += 8) {
        const auto change = [=](SearchedTile& site) {
            const Eigen::Index rest = site.k.value.rows() - first;
            if (rest > 0) site.k.value.bottomRows(rest).setZero();
        };
        candidates.push_back(
            {{{"columns", digits(first)}, {"others", "a product of 0"}}, {.inputs = change}, 1});
        const auto corner = [=](SearchedTile& site) {
            change(site);
            const Eigen::Index rest = site.q.value.rows() - first;
            if (rest > 0) site.q.value.bottomRows(rest).setZero();
        };
        candidates.push_back(
            {{{"rows and columns", digits(first)}, {"others", "a product of 0"}}, {.inputs = corner}, 1});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> layout_causes() {
    const std::vector<Stage> s = {Stage::s};
    const std::vector<Stage> acc = {Stage::acc};
    return {
        {"one_lane_only", "reduction", s, "the parts of a dot product are not added up over all lanes",
         "the shuffles that reduce the dot product", one_lane_only},
        {"first_fragment_only", "layout", s, "only the first fragment of the tile is computed",
         "the loop over the fragments of a tile",
         [](const Evidence& e) {
             std::vector<Candidate> all = first_columns_only(e);
             for (Candidate& candidate : first_fragment_left(e)) all.push_back(std::move(candidate));
             return all;
         }},

    };
}

}  // namespace tilescope
