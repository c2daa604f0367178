#include "oracle/causes/term_operands.h"

#include <algorithm>

#include "oracle/causes/tile_sums.h"

namespace tilescope {

namespace {

constexpr std::array<TermAxis, 3> of_row = {TermAxis::row, TermAxis::term, TermAxis::col};
constexpr std::array<TermAxis, 3> of_col = {TermAxis::col, TermAxis::term, TermAxis::row};
constexpr std::array<TermAxis, 3> down_col = {TermAxis::term, TermAxis::col, TermAxis::row};
constexpr std::array<TermAxis, 3> down_row = {TermAxis::term, TermAxis::row, TermAxis::col};

constexpr std::array<TermOperand, 16> term_operands = {{
    {Stage::s, "q", {"row", "d", "col"}, of_row},
    {Stage::s, "k", {"col", "d", "row"}, of_col, false},
    {Stage::m, "s", {"row", "col", ""}, of_row, true, false},
    {Stage::l, "p", {"row", "col", "lane"}, of_row, true, false},
    {Stage::acc, "p", {"row", "col", "d"}, of_row, true, false},
    {Stage::acc, "v", {"col", "d", "row"}, down_col, false},
    {Stage::delta, "dout", {"row", "d", ""}, of_row},
    {Stage::delta, "o", {"row", "d", ""}, of_row, false},
    {Stage::dp, "dout", {"row", "d", "col"}, of_row},
    {Stage::dp, "v", {"col", "d", "row"}, of_col, false},
    {Stage::dq, "ds", {"row", "col", "d"}, of_row},
    {Stage::dq, "k", {"col", "d", "row"}, down_col, false},
    {Stage::dk, "ds", {"row", "col", "d"}, down_row},
    {Stage::dk, "q", {"row", "d", "col"}, down_col, false},
    {Stage::dv, "p", {"row", "col", "d"}, down_row},
    {Stage::dv, "dout", {"row", "d", "col"}, down_col, false},
}};

constexpr std::array<std::string_view, 3> tile_names = {"kv_tile", "q_block", "head"};

std::int64_t along(TermAxis axis, std::int64_t row, std::int64_t col) {
    return axis == TermAxis::row ? row : axis == TermAxis::col ? col : 0;
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
    return term_operands;
}

TermNames::TermNames(const TermOperand& operand) {
    std::ranges::copy(operand.names, all.begin());
    std::ranges::copy(tile_names, all.begin() + of_tile);
}

std::vector<std::int64_t> numbers_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                                     Eigen::Index col) {
    std::vector<std::int64_t> numbers;
    for (const TermAxis axis : operand.axes) numbers.push_back(along(axis, row, col));
    numbers.insert(numbers.end(), {site.id.kv_tile, site.id.q_block, site.id.head});
    return numbers;
}

std::vector<std::int64_t> lengths_of(const TermOperand& operand, const Problem& problem) {
    const TileShape shape = tile_shape(problem, operand.stage);
    const auto length = [&](TermAxis axis) {
        return axis == TermAxis::row   ? shape.rows
               : axis == TermAxis::col ? shape.cols
                                       : terms_of_sum(problem, operand.stage);
    };
    std::vector<std::int64_t> lengths;
    for (const TermAxis axis : operand.axes) lengths.push_back(length(axis));
    // Tiles are added up over parts in a gradient: its results are of none.
    if (!is_gradient(operand.stage))
        lengths.insert(lengths.end(), {problem.kv_tiles(), problem.q_blocks(), problem.heads});
    return lengths;
}

Matrix matrix_of(const TermOperand& operand, const SearchedTile& site, std::size_t part) {
    if (is_gradient(operand.stage)) {
        const GradientPart& of_part = (*site.parts)[part];
        if (!operand.is_left) return of_part.b.value;
        return operand.axes[0] == TermAxis::term ? Matrix(of_part.a.value.transpose()) : of_part.a.value;
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
    const std::vector<std::int64_t> lengths = lengths_of(operand, problem);
    TileMemory memory{{}, lengths[1]};
    memory.values.assign(std::size_t(lengths[0] * lengths[1]), operand.ends_in_zeros ? 0 : quiet_nan);
    const double behind = operand.stage == Stage::m ? -infinity : 0;
    for (Eigen::Index i = 0; i < std::min<Eigen::Index>(known.rows(), lengths[0]); ++i)
        for (Eigen::Index j = 0; j < lengths[1]; ++j)
            memory.values[std::size_t(i * lengths[1] + j)] = j < known.cols() ? known(i, j) : behind;
    return memory;
}

TermResult result_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                     Eigen::Index col) {
    TermResult result;
    result.numbers = numbers_of(operand, site, row, col);
    const std::int64_t terms = terms_of_sum(site.call->problem, operand.stage);
    for (std::size_t part = 0; part < parts_of(operand, site); ++part)
        for (Eigen::Index t = 0; t < terms; ++t)
            result.factors.push_back(factor_of(operand, site, part, row, col, t));
    result.carried = carried_over(operand.stage, site, row, col);
    result.threshold = site.call->units.m_stale_threshold;
    return result;
}

}  // namespace tilescope
