// Products of other elements than those that belong together: which, is solved for. The product is linear in each of its
// operands, and a tile has more results than an operand has elements in a row.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "oracle/causes/bare_scores.h"
#include "oracle/causes/product_results.h"
#include "oracle/causes/table.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/least_squares.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Groups of tiles with the same operand of which each proposes maps.
constexpr std::size_t most_groups = 2;
/// Elements between the end of a staged row and the next one.
constexpr std::array<std::int64_t, 10> paddings = {0, 8, 16, 4, 2, 1, 3, 5, 6, 7};

/// An operand of a product: what a tile multiplies its elements with, and which lines of it the results tell.
struct ProductSide {
    Stage stage;            ///< of the product
    std::string_view name;  ///< of the operand
    TileAxes axes;
    bool by_rows;  ///< a row of the product has one line of unknowns; false: a column has
    Matrix& (*operand)(SearchedTile&);
    /// What the unknowns of row i, or column j, are multiplied with in the element.
    Eigen::VectorXd (*factors)(const SearchedTile&, Eigen::Index i, Eigen::Index j);
    /// Tiles with the same operand.
    TileId (*group)(const SearchedTile&);
    bool transposed;  ///< the unknowns are a column of the operand
};

Matrix& p_of_product(SearchedTile& site) {
    return site.operand_p.value;
}

double unit_at(const SearchedTile& site, Eigen::Index i, Eigen::Index j) {
    return unit_of(*site.call, site.first_row + i, site.first_key + j);
}

TileId block_of(const SearchedTile& site) {
    return {site.id.batch, site.id.head, site.id.q_block, 0};
}

TileId keys_of(const SearchedTile& site) {
    return {site.id.batch, site.call->problem.head_kv(site.id.head), 0, site.id.kv_tile};
}

TileId tile_of(const SearchedTile& site) {
    return site.id;
}

const std::array<ProductSide, 6>& product_sides() {
    static const std::array<ProductSide, 6> sides = {{
        {Stage::s,
         "q",
         {Coordinate::row, Coordinate::d},
         true,
         q_of,
         [](const SearchedTile& site, Eigen::Index i, Eigen::Index j) -> Eigen::VectorXd {
             return site.k.value.row(j).transpose() * unit_at(site, i, j);
         },
         block_of,
         false},
        {Stage::s,
         "k",
         {Coordinate::col, Coordinate::d},
         false,
         k_of,
         [](const SearchedTile& site, Eigen::Index i, Eigen::Index j) -> Eigen::VectorXd {
             return site.q.value.row(i).transpose() * unit_at(site, i, j);
         },
         keys_of,
         false},
        {Stage::acc,
         "p",
         {Coordinate::row, Coordinate::col},
         true,
         p_of_product,
         [](const SearchedTile& site, Eigen::Index, Eigen::Index j) -> Eigen::VectorXd {
             return site.v.value.col(j);
         },
         tile_of,
         false},
        {Stage::acc,
         "v",
         {Coordinate::col, Coordinate::d},
         false,
         v_of,
         [](const SearchedTile& site, Eigen::Index i, Eigen::Index) -> Eigen::VectorXd {
             return site.operand_p.value.row(i).transpose();
         },
         keys_of,
         true},
        {Stage::dp,
         "dout",
         {Coordinate::row, Coordinate::d},
         true,
         dout_of,
         [](const SearchedTile& site, Eigen::Index, Eigen::Index j) -> Eigen::VectorXd {
             return site.v.value.row(j);
         },
         block_of,
         false},
        {Stage::dp,
         "v",
         {Coordinate::col, Coordinate::d},
         false,
         v_of,
         [](const SearchedTile& site, Eigen::Index i, Eigen::Index) -> Eigen::VectorXd {
             return site.dout.value.row(i);
         },
         keys_of,
         false},
    }};
    return sides;
}

/// What is known of an operand of a group.
struct KnownOperand {
    Matrix staged;  ///< as it should be
    Matrix used;    ///< as the product has it; NaN where that is not known
    Matrix error;
};

/// Lines of the product that have something wrong.
std::vector<bool> bad_lines_of(const Observation& seen, bool rows) {
    std::vector<bool> bad(std::size_t(rows ? seen.got.rows() : seen.got.cols()), false);
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
            if (seen.is_wrong(i, j)) bad[std::size_t(rows ? i : j)] = true;
    return bad;
}

/// Equations of every line of the operand, from the wrong lines of the tiles.
std::map<Eigen::Index, LinearSystem> systems_of(const ProductSide& side,
                                                const std::vector<const Observation*>& group,
                                                std::int64_t unknowns) {
    std::map<Eigen::Index, LinearSystem> systems;
    for (const Observation* seen : group) {
        const SlotNumbers results = product_results(*seen);
        const std::vector<bool> rows = bad_lines_of(*seen, true);
        const std::vector<bool> cols = bad_lines_of(*seen, false);
        for (Eigen::Index i = 0; i < seen->got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen->got.cols(); ++j) {
                if (!rows[std::size_t(i)] || !cols[std::size_t(j)] || std::isnan(results.taken(i, j)))
                    continue;
                spend(4 * unknowns);
                const Eigen::VectorXd factors = side.factors(seen->site, i, j);
                if (factors.size() != unknowns || !factors.allFinite()) continue;
                systems.try_emplace(side.by_rows ? i : j, unknowns)
                    .first->second.add(factors, results.taken(i, j), results.error(i, j));
            }
        }
    }
    return systems;
}

std::optional<KnownOperand> operand_of(const ProductSide& side,
                                       const std::vector<const Observation*>& group) {
    SearchedTile site = group.front()->site;
    const Matrix staged = side.operand(site);
    const std::int64_t unknowns = side.transposed ? staged.rows() : staged.cols();
    KnownOperand known{staged, Matrix::Constant(staged.rows(), staged.cols(), quiet_nan), {}};
    known.error = known.used;
    std::int64_t solved = 0;
    const auto systems = systems_of(side, group, unknowns);
    for (const auto& [line, system] : systems) {
        const std::optional<SolvedUnknowns> solution = system.solve();
        // Where the first few lines are not determined the others are not.
        if (!solution && solved == 0 && line > 3) return std::nullopt;
        if (!solution || line >= (side.transposed ? staged.cols() : staged.rows())) continue;
        ++solved;
        for (Eigen::Index n = 0; n < unknowns; ++n) {
            const Eigen::Index row = side.transposed ? n : line;
            const Eigen::Index col = side.transposed ? line : n;
            known.used(row, col) = solution->x(n);
            known.error(row, col) = solution->error(n);
        }
    }
    if (solved * 2 < std::ssize(systems) || solved < 2) return std::nullopt;
    return known;
}

/// The operand as it lies in shared memory, NaN between its rows.
std::vector<double> padded(const Matrix& operand, std::int64_t padding) {
    const std::int64_t ld = operand.cols() + padding;
    std::vector<double> values(std::size_t(operand.rows() * ld), quiet_nan);
    for (Eigen::Index i = 0; i < operand.rows(); ++i)
        for (Eigen::Index j = 0; j < operand.cols(); ++j) values[std::size_t(i * ld + j)] = operand(i, j);
    return values;
}

struct PaddedMap {
    AddressMap map;
    std::int64_t padding;
};

/// Elements of the operand as the product has it, and where in memory they may be from.
std::vector<AddressSample> samples_of(const KnownOperand& known, const ValueIndex& memory) {
    std::vector<AddressSample> samples;
    for (Eigen::Index i = 0; i < known.used.rows(); ++i) {
        for (Eigen::Index j = 0; j < known.used.cols(); ++j) {
            const double error = known.error(i, j);
            // A zero stands anywhere, and so does what is hardly known.
            if (!(std::abs(known.used(i, j)) > error)) continue;
            samples.push_back({i, j, memory.sources(known.used(i, j), error, 0)});
        }
    }
    return samples;
}

/// The map with the fewest numbers in it, over all paddings.
std::optional<PaddedMap> map_of(const KnownOperand& known, const TileAxes& axes) {
    std::optional<PaddedMap> best;
    const auto cost = [](const PaddedMap& by) { return by.map.parameters + (by.padding > 0); };
    for (const std::int64_t padding : paddings) {
        const ValueIndex memory(padded(known.staged, padding));
        const std::int64_t ld = known.staged.cols() + padding;
        auto map = find_address_map(samples_of(known, memory), ld, axes);
        if (!map) continue;
        PaddedMap found{std::move(*map), padding};
        if (!best || cost(found) < cost(*best)) best = std::move(found);
        if (cost(*best) <= 1) break;
    }
    return best;
}

/// The operand's elements as the map takes them, NaN where it leaves the operand.
Matrix taken(const Matrix& operand, const PaddedMap& by) {
    const std::int64_t ld = operand.cols() + by.padding;
    const AddressMap map = in_rows_of(by.map, ld);
    Matrix result = Matrix::Constant(operand.rows(), operand.cols(), quiet_nan);
    for (Eigen::Index i = 0; i < operand.rows(); ++i) {
        for (Eigen::Index j = 0; j < operand.cols(); ++j) {
            const std::int64_t address = map.apply(i, j);
            if (!stays_inside(map, i, j, operand.rows(), ld) || address % ld >= operand.cols()) continue;
            result(i, j) = operand(address / ld, address % ld);
        }
    }
    return result;
}

/// The product with elements of the operand as the map takes them. Of what lies beyond the operand nothing is known,
/// nor of a line of the product that has it.
Change takes(const ProductSide& side, const PaddedMap& by) {
    const auto inputs = [operand = side.operand, by](SearchedTile& site) {
        const Matrix all = taken(operand(site), by);
        operand(site) = all.array().isNaN().select(0, all);
    };
    const auto result = [side, by](const SearchedTile& site, Estimate& estimate) {
        SearchedTile own = site;
        const Matrix all = taken(Matrix::Ones(side.operand(own).rows(), side.operand(own).cols()), by);
        for (Eigen::Index i = 0; i < all.rows(); ++i) {
            for (Eigen::Index j = 0; j < all.cols(); ++j) {
                if (!std::isnan(all(i, j))) continue;
                const Eigen::Index line = side.transposed ? j : i;
                if (side.by_rows) {
                    estimate.error.row(line).setConstant(infinity);
                } else {
                    estimate.error.col(line).setConstant(infinity);
                }
            }
        }
    };
    return {.inputs = inputs, .result = result};
}

std::vector<std::vector<const Observation*>> groups_of(const Evidence& evidence, const ProductSide& side) {
    std::vector<std::vector<const Observation*>> groups;
    std::map<TileId, std::size_t> numbers;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) break;
        const auto [number, is_new] = numbers.try_emplace(side.group(seen.site), groups.size());
        if (is_new) groups.emplace_back();
        groups[number->second].push_back(&seen);
    }
    // The largest determine most.
    std::ranges::stable_sort(groups, std::greater(), &std::vector<const Observation*>::size);
    if (groups.size() > most_groups) groups.resize(most_groups);
    return groups;
}

void add_side(const Evidence& evidence, const ProductSide& side, std::vector<Candidate>& candidates) {
    std::set<std::string> texts;
    for (const auto& group : groups_of(evidence, side)) {
        const std::optional<KnownOperand> known = operand_of(side, group);
        if (!known) continue;
        const std::optional<PaddedMap> by = map_of(*known, side.axes);
        if (!by || by->map.parameters == 0 || !texts.insert(by->map.text()).second) continue;
        std::string text = std::string(side.name) + by->map.text();
        if (by->padding > 0) text += " of rows of " + std::to_string(known->staged.cols() + by->padding);
        candidates.push_back(
            {{{"multiplies", text}}, takes(side, *by), cost_of(by->map) + (by->padding > 0)});
    }
}

std::vector<Candidate> other_elements(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    for (Candidate& candidate : terms_read_elsewhere(evidence)) candidates.push_back(std::move(candidate));
    for (const ProductSide& side : product_sides())
        if (side.stage == evidence.observed) add_side(evidence, side, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> product_causes() {
    return {
        {"operand_read_elsewhere",
         "address",
         {Stage::s, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "the product multiplies other elements of a staged tile than those that belong together",
         "the index with which the product reads its operands: leading dimension, swizzle, fragment layout",
         other_elements}};
}

}  // namespace tilescope
