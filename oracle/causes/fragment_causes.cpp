// Registers of a matrix product: the elements of a fragment that a lane holds, and accumulators.

#include <algorithm>
#include <limits>
#include <utility>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// Where element `element` of lane `lane` stands in a fragment: PTX ISA, "Matrix Fragments for mma.m16n8k16";
/// of n = 16, two of n = 8 next to each other, as WMMA has them.
struct FragmentPlaces {
    int rows;
    int cols;
    std::pair<int, int> (*place)(int lane, int element);

    int per_lane() const { return rows * cols / 32; }
};

/// 16 x 16 of the left operand.
constexpr FragmentPlaces left_operand = {16, 16, [](int lane, int e) {
                                             return std::pair(lane / 4 + 8 * (e / 2 % 2),
                                                              lane % 4 * 2 + e % 2 + 8 * (e / 4));
                                         }};
/// 16 x 8 and 16 x 16 of the accumulator.
constexpr FragmentPlaces accumulator_8 = {
    16, 8, [](int lane, int e) { return std::pair(lane / 4 + 8 * (e / 2), lane % 4 * 2 + e % 2); }};
constexpr FragmentPlaces accumulator_16 = {16, 16, left_operand.place};
/// The right operand, keys x features of K: 8 and 16 keys.
constexpr FragmentPlaces right_8 = {
    8, 16, [](int lane, int e) { return std::pair(lane / 4, lane % 4 * 2 + e % 2 + 8 * (e / 2)); }};
constexpr FragmentPlaces right_16 = {16, 16, [](int lane, int e) {
                                         return std::pair(lane / 4 + 8 * (e / 4),
                                                          lane % 4 * 2 + e % 2 + 8 * (e / 2 % 2));
                                     }};
/// The right operand, keys x features of V: 8 and 16 features.
constexpr FragmentPlaces right_of_v_8 = {
    16, 8, [](int lane, int e) { return std::pair(lane % 4 * 2 + e % 2 + 8 * (e / 2), lane / 4); }};
constexpr FragmentPlaces right_of_v_16 = {16, 16, [](int lane, int e) {
                                              return std::pair(lane % 4 * 2 + e % 2 + 8 * (e / 2 % 2),
                                                               lane / 4 + 8 * (e / 4));
                                          }};

/// Calls `visit` with the place that each element of a fragment has by its layout, and the one it has where
/// lanes hold elements that follow each other.
template <class Visit>
void for_each_place(const FragmentPlaces& fragment, const Matrix& matrix, const Visit& visit) {
    for (Eigen::Index row = 0; row < matrix.rows(); row += fragment.rows) {
        for (Eigen::Index col = 0; col < matrix.cols(); col += fragment.cols) {
            for (int i = 0; i < fragment.rows * fragment.cols; ++i) {
                const auto [r, c] = fragment.place(i / fragment.per_lane(), i % fragment.per_lane());
                visit(row + r, col + c, row + i / fragment.cols, col + i % fragment.cols);
            }
        }
    }
}

double at_or_zero(const Matrix& matrix, Eigen::Index row, Eigen::Index col) {
    return row < matrix.rows() && col < matrix.cols() ? matrix(row, col) : 0;
}

Matrix loaded_linearly(const FragmentPlaces& fragment, const Matrix& matrix) {
    Matrix result = matrix;
    for_each_place(fragment, matrix,
                   [&](Eigen::Index row, Eigen::Index col, Eigen::Index from_row, Eigen::Index from_col) {
                       if (row < result.rows() && col < result.cols())
                           result(row, col) = at_or_zero(matrix, from_row, from_col);
                   });
    return result;
}

Matrix stored_linearly(const FragmentPlaces& fragment, const Matrix& matrix) {
    Matrix result = matrix;
    for_each_place(fragment, matrix,
                   [&](Eigen::Index row, Eigen::Index col, Eigen::Index to_row, Eigen::Index to_col) {
                       if (to_row < result.rows() && to_col < result.cols())
                           result(to_row, to_col) = at_or_zero(matrix, row, col);
                   });
    return result;
}

struct Loaded {
    Stage acts;
    const char* operand;
    FragmentPlaces fragment;
    Matrix& (*value)(SearchedTile&);
};

Matrix& p_of(SearchedTile& site) {
    return site.operand_p.value;
}

constexpr Loaded fragment_loads[] = {
    {Stage::s, "q", left_operand, q_of},   {Stage::s, "k", right_8, k_of},
    {Stage::s, "k", right_16, k_of},       {Stage::acc, "p", left_operand, p_of},
    {Stage::acc, "v", right_of_v_8, v_of}, {Stage::acc, "v", right_of_v_16, v_of}};

std::string shape_of(const FragmentPlaces& fragment) {
    return digits(std::int64_t(fragment.rows)) + " x " + digits(std::int64_t(fragment.cols));
}

std::vector<Candidate> fragment_filled_linearly(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Loaded& load : fragment_loads) {
        if (load.acts != evidence.acts) continue;
        const auto change = [load](SearchedTile& site) {
            Matrix& value = load.value(site);
            value = loaded_linearly(load.fragment, value);
        };
        candidates.push_back(
            {{{"operand", load.operand}, {"fragment", shape_of(load.fragment)}}, {.inputs = change}});
    }
    for (const FragmentPlaces& fragment : {accumulator_8, accumulator_16}) {
        const auto change = [fragment](const SearchedTile&, Estimate& result) {
            result.value = stored_linearly(fragment, result.value);
            result.error = stored_linearly(fragment, result.error);
        };
        candidates.push_back(
            {{{"operand", "the accumulator"}, {"fragment", shape_of(fragment)}}, {.result = change}});
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

}  // namespace

std::vector<Cause> fragment_causes() {
    const std::vector<Stage> products = {Stage::s, Stage::acc};
    return {
        {"fragment_filled_linearly", "layout", products,
         "lanes take the elements of a fragment one after the other, not as the instruction has them",
         "which element of a fragment is which row and column", fragment_filled_linearly},
        {"accumulator_not_zeroed", "unwritten / stale", products,
         "a product is added to what its accumulator held before",
         "where the accumulator is zeroed; beta of a library's call", accumulator_not_zeroed},
    };
}

}  // namespace tilescope
