// Layouts that tiles are misread in, against the loops of a kernel that misreads them.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oracle/causes/layouts.h"

namespace tilescope::test {
namespace {

using Element = std::pair<std::int64_t, std::int64_t>;

/// Each element has a number of its own.
Matrix numbered(std::int64_t rows, std::int64_t cols) {
    Matrix tile(rows, cols);
    for (Eigen::Index i = 0; i < tile.size(); ++i) tile.data()[i] = double(i + 1);
    return tile;
}

/// Where element e of a lane stands in a fragment: PTX ISA, "Matrix Fragments for mma.m16n8k16".
struct Fragment {
    std::int64_t rows;
    std::int64_t cols;
    Element (*place)(std::int64_t lane, std::int64_t e);

    std::string name() const { return std::to_string(rows) + " x " + std::to_string(cols); }
};

const std::map<FragmentOperand, std::vector<Fragment>>& fragments() {
    static const std::map<FragmentOperand, std::vector<Fragment>> all = {
        {FragmentOperand::left,
         {{16, 16,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane / 4 + (e / 2 % 2) * 8, lane % 4 * 2 + e % 2 + (e / 4) * 8);
           }}}},
        {FragmentOperand::right,
         {{8, 16,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane / 4, lane % 4 * 2 + e % 2 + (e / 2) * 8);
           }},
          {16, 16,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane / 4 + (e / 4) * 8, lane % 4 * 2 + e % 2 + (e / 2 % 2) * 8);
           }}}},
        {FragmentOperand::right_of_v,
         {{16, 8,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane % 4 * 2 + e % 2 + (e / 2) * 8, lane / 4);
           }},
          {16, 16,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane % 4 * 2 + e % 2 + (e / 2 % 2) * 8, lane / 4 + (e / 4) * 8);
           }}}},
        {FragmentOperand::accumulator,
         {{16, 8,
           [](std::int64_t lane, std::int64_t e) {
               return Element(lane / 4 + (e / 2) * 8, lane % 4 * 2 + e % 2);
           }},
          {16, 16, [](std::int64_t lane, std::int64_t e) {
               return Element(lane / 4 + (e / 2 % 2) * 8, lane % 4 * 2 + e % 2 + (e / 4) * 8);
           }}}}};
    return all;
}

/// A warp that takes, or stores, its elements one after the other: every fragment of the tile.
Matrix linearly(const Fragment& fragment, bool stores, const Matrix& tile) {
    Matrix result = Matrix::Zero(tile.rows(), tile.cols());
    const std::int64_t per_lane = fragment.rows * fragment.cols / 32;
    for (Eigen::Index row = 0; row < tile.rows(); row += fragment.rows) {
        for (Eigen::Index col = 0; col < tile.cols(); col += fragment.cols) {
            for (std::int64_t lane = 0; lane < 32; ++lane) {
                for (std::int64_t e = 0; e < per_lane; ++e) {
                    const auto [r, c] = fragment.place(lane, e);
                    const std::int64_t number = lane * per_lane + e;
                    Element to(row + r, col + c);
                    Element from(row + number / fragment.cols, col + number % fragment.cols);
                    if (stores) std::swap(to, from);
                    const bool is_inside = to.first < tile.rows() && to.second < tile.cols();
                    const bool is_there = from.first < tile.rows() && from.second < tile.cols();
                    if (is_inside && is_there) result(to.first, to.second) = tile(from.first, from.second);
                }
            }
        }
    }
    return result;
}

TEST(Layouts, OfFragmentsThatAreFilledLinearly) {
    for (const auto& [operand, all] : fragments()) {
        const std::vector<Layout> layouts = linear_fragments(operand);
        ASSERT_EQ(layouts.size(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            const Fragment& fragment = all[i];
            SCOPED_TRACE(fragment.name());
            EXPECT_EQ(layouts[i].told.value, fragment.name());
            // The second is a short tile.
            for (const Element& shape : {Element(32, 48), Element(21, 48)}) {
                const Matrix tile = numbered(shape.first, shape.second);
                EXPECT_EQ(read_in(layouts[i], tile),
                          linearly(fragment, operand == FragmentOperand::accumulator, tile));
            }
        }
    }
}

}  // namespace
}  // namespace tilescope::test
