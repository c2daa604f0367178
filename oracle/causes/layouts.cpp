#include "oracle/causes/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tilescope {

namespace {

Expr multiple(const Expr& of, std::int64_t n) {
    return Expr::changed(Op::multiple, of, n);
}

/// A fragment: from the lowest bit on, of which bit of the row or of the column each bit of lane * elements + element is:
/// PTX ISA, "Matrix Fragments for mma.m16n8k16"; of n = 16, two of n = 8 next to each other, as WMMA has them.
struct FragmentLayout {
    FragmentOperand operand;
    std::string_view bits;  ///< "c0r3": bit 0 of the column, then bit 3 of the row

    std::int64_t rows() const { return std::int64_t(1) << std::ranges::count(bits, 'r'); }
    std::int64_t cols() const { return std::int64_t(1) << std::ranges::count(bits, 'c'); }
};

constexpr std::array<FragmentLayout, 7> fragments = {{
    {FragmentOperand::left, "c0r3c3c1c2r0r1r2"},
    {FragmentOperand::right, "c0c3c1c2r0r1r2"},
    {FragmentOperand::right, "c0c3r3c1c2r0r1r2"},
    {FragmentOperand::right_of_v, "r0r3r1r2c0c1c2"},
    {FragmentOperand::right_of_v, "r0r3c3r1r2c0c1c2"},
    {FragmentOperand::accumulator, "c0r3c1c2r0r1r2"},
    {FragmentOperand::accumulator, "c0r3c3c1c2r0r1r2"},
}};

/// The element that a place of the fragment holds by its layout, counted as lanes do.
Expr number_of_element(const FragmentLayout& fragment) {
    const Expr row = Coordinate::row;
    const Expr col = Coordinate::col;
    Expr number = 0;
    for (std::size_t bit = 0; bit * 2 < fragment.bits.size(); ++bit) {
        const Expr& of = fragment.bits[bit * 2] == 'r' ? row : col;
        const std::int64_t from = std::int64_t(1) << (fragment.bits[bit * 2 + 1] - '0');
        number = number + Expr::changed(Op::if_bit, of, from, std::int64_t(1) << bit);
    }
    return number;
}

/// The row, or the column, within the fragment of the element with that number.
Expr place_of_element(const FragmentLayout& fragment, char axis, const Expr& number) {
    Expr place = 0;
    for (std::size_t bit = 0; bit * 2 < fragment.bits.size(); ++bit)
        if (fragment.bits[bit * 2] == axis)
            place = place + Expr::changed(Op::if_bit, number, std::int64_t(1) << bit,
                                          std::int64_t(1) << (fragment.bits[bit * 2 + 1] - '0'));
    return place;
}

/// Lanes take, or store, elements that follow each other.
Index linear(const FragmentLayout& fragment) {
    const Expr row = Coordinate::row;
    const Expr col = Coordinate::col;
    const std::int64_t rows = fragment.rows();
    const std::int64_t cols = fragment.cols();
    if (fragment.operand == FragmentOperand::accumulator) {
        const Expr number = row % rows * cols + col % cols;
        return {{multiple(row, rows) + place_of_element(fragment, 'r', number),
                 multiple(col, cols) + place_of_element(fragment, 'c', number)},
                {}};
    }
    const Expr number = number_of_element(fragment);
    return {{multiple(row, rows) + number / cols, multiple(col, cols) + number % cols}, {}};
}

}  // namespace

std::vector<Layout> linear_fragments(FragmentOperand operand) {
    std::vector<Layout> layouts;
    for (const FragmentLayout& fragment : fragments)
        if (fragment.operand == operand)
            layouts.push_back(
                {{"fragment", fmt::format("{} x {}", fragment.rows(), fragment.cols())}, linear(fragment)});
    return layouts;
}

Matrix read_in(const Layout& layout, const Matrix& tile) {
    std::vector<std::int64_t> rows(std::size_t(tile.cols()));
    std::vector<std::int64_t> cols(rows.size());
    Matrix result = Matrix::Zero(tile.rows(), tile.cols());
    Place place;
    for (Eigen::Index i = 0; i < tile.rows(); ++i) {
        place[Coordinate::row] = i;
        layout.from.parts.front().along(Coordinate::col, place, rows);
        layout.from.parts.back().along(Coordinate::col, place, cols);
        for (std::size_t j = 0; j < rows.size(); ++j)
            if (rows[j] < tile.rows() && cols[j] < tile.cols())
                result(i, Eigen::Index(j)) = tile(rows[j], cols[j]);
    }
    return result;
}

std::vector<Candidate> read_in_layouts(const std::vector<Layout>& layouts, const OperandOf& operand,
                                       const CauseParameter& told) {
    std::vector<Candidate> candidates;
    for (const Layout& layout : layouts) {
        const auto change = [=](SearchedTile& site) {
            Matrix& tile = operand(site);
            tile = read_in(layout, tile);
        };
        candidates.push_back({{told, layout.told}, {.inputs = change}});
    }
    return candidates;
}

}  // namespace tilescope
