#include "oracle/causes/term_operands.h"

#include <algorithm>

#include "oracle/causes/tile_sums.h"

namespace tilescope {

namespace {

constexpr std::array<TermAxis, 3> of_row = {TermAxis::row, TermAxis::term, TermAxis::col};
constexpr std::array<TermAxis, 3> of_col = {TermAxis::col, TermAxis::term, TermAxis::row};
constexpr std::array<TermAxis, 3> down_col = {TermAxis::term, TermAxis::col, TermAxis::row};
constexpr std::array<TermAxis, 3> down_row = {TermAxis::term, TermAxis::row, TermAxis::col};

std::int64_t along(TermAxis axis, std::int64_t i, std::int64_t j) {
    return axis == TermAxis::row ? i : axis == TermAxis::col ? j : 0;
}

double or_zero(const Matrix& operand, Eigen::Index row, Eigen::Index col) {
    return row < operand.rows() && col < operand.cols() ? operand(row, col) : 0;
}

/// What the operand's number of a term is multiplied with, in natural units.
double factor_of(const TermOperand& operand, const SearchedTile& site, std::size_t part, Eigen::Index row,
                 Eigen::Index col, Eigen::Index term) {
    switch (operand.stage) {
        case Stage::s:
            return site.call->problem.sm_scale *
                   (operand.is_left ? or_zero(site.k.value, col, term) : or_zero(site.q.value, row, term));
        case Stage::m:
            return 1;
        case Stage::l:
            return site.call->problem.l_lane(term) == col ? 1 : 0;
        case Stage::acc:
            return operand.is_left ? or_zero(site.v.value, term, col)
                                   : or_zero(site.operand_p.value, row, term);
        case Stage::delta:
            return or_zero(operand.is_left ? site.o.value : site.dout.value, row, term);
        case Stage::dp:
            return operand.is_left ? or_zero(site.v.value, col, term) : or_zero(site.dout.value, row, term);
        default: {
            const GradientPart& of_part = (*site.parts)[part];
            return kernel_unit(operand.stage, site) * (operand.is_left ? or_zero(of_part.b.value, term, col)
                                                                       : or_zero(of_part.a.value, row, term));
        }
    }
}

}  // namespace

std::span<const TermOperand> all_term_operands() {
    using enum Coordinate;
    static constexpr std::array<TermOperand, 16> term_operands = {{
        {Stage::s, "q", {row, d, col}, of_row},
        {Stage::s, "k", {col, d, row}, of_col, false},
        {Stage::m, "s", {row, col, lane}, of_row, true, false},
        {Stage::l, "p", {row, col, lane}, of_row, true, false},
        {Stage::acc, "p", {row, col, d}, of_row, true, false},
        {Stage::acc, "v", {col, d, row}, down_col, false},
        {Stage::delta, "dout", {row, d, lane}, of_row},
        {Stage::delta, "o", {row, d, lane}, of_row, false},
        {Stage::dp, "dout", {row, d, col}, of_row},
        {Stage::dp, "v", {col, d, row}, of_col, false},
        {Stage::dq, "ds", {row, col, d}, of_row},
        {Stage::dq, "k", {col, d, row}, down_col, false},
        {Stage::dk, "ds", {row, col, d}, down_row},
        {Stage::dk, "q", {row, d, col}, down_col, false},
        {Stage::dv, "p", {row, col, d}, down_row},
        {Stage::dv, "dout", {row, d, col}, down_col, false},
    }};
    return term_operands;
}

Place place_of_term(const TermOperand& operand, const SearchedTile& site, Eigen::Index i, Eigen::Index j) {
    Place place = Place::in(site.world->recording().problem());
    for (std::size_t n = 0; n < operand.axes.size(); ++n)
        place[operand.coordinates[n]] = along(operand.axes[n], i, j);
    place[Coordinate::kv_tile] = site.id.kv_tile;
    place[Coordinate::q_block] = site.id.q_block;
    place[Coordinate::head] = site.id.head;
    return place;
}

std::vector<CoordinateRange> ranges_of(const TermOperand& operand, const Problem& problem) {
    const TileShape shape = tile_shape(problem, operand.stage);
    std::vector<CoordinateRange> ranges;
    for (std::size_t n = 0; n < operand.axes.size(); ++n) {
        const TermAxis axis = operand.axes[n];
        ranges.push_back({operand.coordinates[n], axis == TermAxis::row ? shape.rows
                                                  : axis == TermAxis::col
                                                      ? shape.cols
                                                      : terms_of_sum(problem, operand.stage)});
    }
    // Tiles are added up over parts in a gradient: its results are of none.
    if (!is_gradient(operand.stage))
        ranges.insert(ranges.end(), {{Coordinate::kv_tile, problem.kv_tiles()},
                                     {Coordinate::q_block, problem.q_blocks()},
                                     {Coordinate::head, problem.heads}});
    return ranges;
}

Matrix matrix_of(const TermOperand& operand, const SearchedTile& site, std::size_t part) {
    if (is_gradient(operand.stage)) {
        const GradientPart& of_part = (*site.parts)[part];
        if (!operand.is_left) return of_part.b.value;
        return operand.has_terms_down() ? Matrix(of_part.a.value.transpose()) : of_part.a.value;
    }
    if (operand.stage == Stage::m) return finished_scores(site).value;
    if (operand.stage == Stage::l) return p_added_up(site).value;
    if (operand.name == "p") return site.operand_p.value;
    if (operand.name == "q") return site.q.value;
    if (operand.name == "k") return site.k.value;
    if (operand.name == "v") return site.v.value;
    return operand.name == "o" ? site.o.value : site.dout.value;
}

std::size_t parts_of(const TermOperand& operand, const SearchedTile& site) {
    return is_gradient(operand.stage) ? site.parts->size() : 1;
}

TileMemory memory_of(const TermOperand& operand, const Problem& problem, const Matrix& known) {
    const std::vector<CoordinateRange> ranges = ranges_of(operand, problem);
    const std::int64_t rows = ranges[0].length;
    const std::int64_t cols = ranges[1].length;
    TileMemory memory{{}, cols};
    memory.values.assign(std::size_t(rows * cols), operand.ends_in_zeros ? 0 : quiet_nan);
    const double behind = operand.stage == Stage::m ? -infinity : 0;
    for (Eigen::Index i = 0; i < std::min<Eigen::Index>(known.rows(), rows); ++i)
        for (Eigen::Index j = 0; j < cols; ++j)
            memory.values[std::size_t(i * cols + j)] = j < known.cols() ? known(i, j) : behind;
    return memory;
}

TermResult result_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                     Eigen::Index col) {
    TermResult result;
    result.place = place_of_term(operand, site, row, col);
    const std::int64_t terms = terms_of_sum(site.call->problem, operand.stage);
    for (std::size_t part = 0; part < parts_of(operand, site); ++part)
        for (Eigen::Index t = 0; t < terms; ++t)
            result.factors.push_back(factor_of(operand, site, part, row, col, t));
    result.carried = carried_over(operand.stage, site, row, col);
    result.threshold = site.call->units.m_stale_threshold;
    return result;
}

}  // namespace tilescope
