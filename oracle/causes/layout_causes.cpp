#include <algorithm>
#include <cmath>

#include "oracle/causes/layouts.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/whole_head.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

struct NamedOperand {
    Stage stage;
    const char* name;
    Matrix& (*operand)(SearchedTile&);
};

/// Elements [first, first + count) of each dot product are left out.
Change without(std::int64_t first, std::int64_t count) {
    return {.inputs = [=](SearchedTile& site) { site.k.value.middleCols(first, count).setZero(); }};
}

std::vector<Candidate> k_slice_missing(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t d = evidence.problem().head_dim;
    const std::int64_t step = d > 64 ? 16 : std::min<std::int64_t>(8, std::max<std::int64_t>(1, d / 4));
    for (std::int64_t count = step; count < d; count += step) {
        for (std::int64_t first = 0; first + count <= d; first += step) {
            const bool at_end = first + count == d;
            candidates.push_back({{{"first", digits(first)}, {"count", digits(count)}},
                                  without(first, count),
                                  at_end ? 1 : 2});
        }
    }
    return candidates;
}

std::vector<Candidate> head_dim_truncated(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t d = evidence.problem().head_dim;
    for (std::int64_t kept = 8; kept < d; kept += 8)
        candidates.push_back({{{"count", digits(kept)}}, without(kept, d - kept), 1});
    for (std::int64_t kept = d - 7; kept < d; ++kept)
        if (kept % 8 != 0 && kept > 0)
            candidates.push_back({{{"count", digits(kept)}}, without(kept, d - kept), 1});
    return candidates;
}

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

/// Rows of the same input from another KV tile.
std::vector<Candidate> of_other_tile(Stage operand, Operand SearchedTile::*member) {
    std::vector<Candidate> candidates;
    for (const std::int64_t offset : {-1, 1, -2, 2, -3, 3}) {
        const auto change = [=](SearchedTile& site) {
            const HeadCall& call = *site.call;
            const std::int64_t first = site.first_key + offset * call.problem.block_n;
            // A tile that is not there, or is shorter, leaves what was there.
            if (first < 0 || first + site.keys() > call.problem.seqlen_kv) return;
            Matrix rows = site.world->input_rows(operand, site.id.batch, call.problem.head_kv(site.id.head),
                                                 first, site.keys());
            const bool is_v = operand == Stage::v;
            if (is_v ? call.units.v_dequantised : call.units.k_dequantised) {
                site.*member = staged_operand(call, operand, first, std::move(rows), false).natural;
            } else {
                const auto of_tile =
                    (is_v ? call.v_descale : call.k_descale).segment(site.first_key, rows.rows());
                site.*member = {of_tile.asDiagonal() * rows, 0};
            }
        };
        candidates.push_back({{{"offset", digits(offset)}}, {.inputs = change}, 1});
    }
    return candidates;
}

std::vector<Candidate> scores_of_other_tile(const Evidence&) {
    return of_other_tile(Stage::k, &SearchedTile::k);
}

std::vector<Candidate> v_of_other_tile(const Evidence&) {
    return of_other_tile(Stage::v, &SearchedTile::v);
}

std::vector<Candidate> k_not_transposed(const Evidence& evidence) {
    std::vector<Candidate> candidates = read_in_layouts(transposed_layouts(), k_of);
    for (Candidate& candidate : k_of_head_transposed(evidence)) candidates.push_back(std::move(candidate));
    return candidates;
}

std::vector<Candidate> v_not_transposed(const Evidence&) {
    return read_in_layouts(transposed_layouts(), v_of);
}

/// Of each operand of the product.
std::vector<Candidate> read_in_layouts(const Evidence& evidence, const std::vector<Layout>& layouts) {
    std::vector<Candidate> candidates;
    for (const auto& [stage, name, operand] :
         {NamedOperand{Stage::s, "k", k_of}, NamedOperand{Stage::s, "q", q_of},
          NamedOperand{Stage::acc, "v", v_of}}) {
        if (stage != evidence.acts) continue;
        for (Candidate& candidate : read_in_layouts(layouts, operand, {{"operand", name}}))
            candidates.push_back(std::move(candidate));
    }
    return candidates;
}

std::vector<Candidate> wrong_leading_dimension(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    std::vector<Candidate> candidates =
        read_in_layouts(evidence, layouts_of_other_rows(problem, problem.head_dim));
    for (Candidate& candidate : scores_of_head_shifted(evidence)) candidates.push_back(std::move(candidate));
    return candidates;
}

std::vector<Candidate> v_wrong_leading_dimension(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    return read_in_layouts(layouts_of_other_rows(problem, problem.head_dim_v), v_of);
}

std::vector<Candidate> operand_columns_permuted(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    return read_in_layouts(
        evidence, swizzled_layouts(evidence.acts == Stage::s ? problem.head_dim : problem.head_dim_v));
}

/// Keys [first, first + count) of a tile do not reach P V.
std::vector<Candidate> pv_slice_missing(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t keys = evidence.problem().block_n;
    const std::int64_t step = std::min<std::int64_t>(8, std::max<std::int64_t>(1, keys / 4));
    for (std::int64_t count = step; count < keys; count += step) {
        for (std::int64_t first = 0; first + count <= keys; first += step) {
            candidates.push_back({{{"first key", digits(first)}, {"count", digits(count)}},
                                  {.inputs =
                                       [=](SearchedTile& site) {
                                           const auto all = std::int64_t(site.operand_p.value.cols());
                                           const auto begin = std::min(first, all);
                                           const auto n = std::min(count, all - begin);
                                           site.operand_p.value.middleCols(begin, n).setZero();
                                           site.operand_p.error.middleCols(begin, n).setZero();
                                       }},
                                  2});
        }
    }
    return candidates;
}

}  // namespace

std::vector<Cause> layout_causes() {
    const std::vector<Stage> s = {Stage::s};
    const std::vector<Stage> acc = {Stage::acc};
    return {
        {"scores_of_other_tile", "trip / tile", s, "the scores are those of another KV tile",
         "the pipeline stage that the product reads K from", scores_of_other_tile},
        {"k_not_transposed", "layout", s, "K is read row-major where the product takes it column-major",
         "row or column layout of the K operand", k_not_transposed},
        {"head_dim_truncated", "layout", s, "the dot product stops before the end of head_dim",
         "the number of steps over head_dim", head_dim_truncated},
        {"columns_permuted",
         "layout",
         {Stage::s, Stage::acc},
         "an operand is read without the swizzle that it was stored with",
         "the swizzle of shared memory on its way in and out",
         operand_columns_permuted},
        {"one_lane_only", "reduction", s, "the parts of a dot product are not added up over all lanes",
         "the shuffles that reduce the dot product", one_lane_only},
        {"k_slice_missing", "layout", s, "a slice of head_dim is missing in the dot product",
         "where the accumulator is zeroed inside the loop over head_dim", k_slice_missing},
        {"first_fragment_only", "layout", s, "only the first fragment of the tile is computed",
         "the loop over the fragments of a tile",
         [](const Evidence& e) {
             std::vector<Candidate> all = first_columns_only(e);
             for (Candidate& candidate : first_fragment_left(e)) all.push_back(std::move(candidate));
             return all;
         }},
        {"wrong_leading_dimension", "layout", s,
         "an operand, or the scores, are read with another distance between rows than they have",
         "the leading dimension of loads and stores, and of a library's call", wrong_leading_dimension},
        {"v_of_other_tile", "trip / tile", acc, "P is multiplied with the V of another KV tile",
         "the pipeline stage that the product reads V from", v_of_other_tile},
        {"v_not_transposed", "layout", acc, "V is read row-major where the product takes it column-major",
         "row or column layout of the V operand (ldmatrix with or without .trans)", v_not_transposed},
        {"pv_slice_missing", "layout", acc, "a slice of the keys is missing in P V",
         "the number of steps over the keys of the tile, and of those that load V", pv_slice_missing},
        {"v_wrong_leading_dimension", "layout", acc,
         "V is read with another distance between rows than it has",
         "the leading dimension of the load from shared memory", v_wrong_leading_dimension},
    };
}

}  // namespace tilescope
