#include "oracle/causes/permutation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "oracle/causes/signature.h"
#include "oracle/formula/scores.h"

namespace tilescope {

namespace {

/// Each block of the tile transposed: the last ones with zeros behind the last row.
Matrix with_blocks_transposed(const Matrix& matrix, Eigen::Index block) {
    Matrix result = Matrix::Zero((matrix.rows() + block - 1) / block * block, matrix.cols());
    result.topRows(matrix.rows()) = matrix;
    for (Eigen::Index row = 0; row < result.rows(); row += block) {
        for (Eigen::Index col = 0; col + block <= result.cols(); col += block)
            result.block(row, col, block, block).transposeInPlace();
    }
    return result.topRows(matrix.rows());
}

/// The whole tile read the other way round, and 0 beyond it.
Matrix transposed(const Matrix& matrix) {
    Matrix result = Matrix::Zero(matrix.rows(), matrix.cols());
    const Eigen::Index both = std::min(matrix.rows(), matrix.cols());
    result.topLeftCorner(both, both) = matrix.topLeftCorner(both, both).transpose();
    return result;
}

Matrix reread(const Matrix& matrix, Eigen::Index stored, Eigen::Index read, Eigen::Index fragment) {
    Matrix result = Matrix::Zero(matrix.rows(), matrix.cols());
    for (Eigen::Index row = 0; row < matrix.rows(); ++row) {
        for (Eigen::Index col = 0; col < matrix.cols(); ++col) {
            const Eigen::Index corner_row = fragment > 0 ? row / fragment * fragment : 0;
            const Eigen::Index corner_col = fragment > 0 ? col / fragment * fragment : 0;
            const Eigen::Index place =
                corner_row * stored + corner_col + (row - corner_row) * read + (col - corner_col);
            const Eigen::Index from_row = place / stored;
            const Eigen::Index from_col = place % stored;
            if (from_row < matrix.rows() && from_col < matrix.cols())
                result(row, col) = matrix(from_row, from_col);
        }
    }
    return result;
}

}  // namespace

std::int64_t period_of(const std::vector<std::int64_t>& places) {
    const std::int64_t n = std::ssize(places);
    for (std::int64_t period = 2; period < n; ++period) {
        bool repeats = n % period == 0;
        for (std::int64_t i = 0; repeats && i + period < n; ++i)
            repeats = places[std::size_t(i + period)] == places[std::size_t(i)] + period;
        if (repeats) return period;
    }
    return n;
}

namespace {

/// The product of a tile, capped, and what is added to it.
struct ScoreParts {
    const Observation* seen;
    Estimate product;
    Estimate bias;
};

std::vector<ScoreParts> parts_of_bad_tiles(const Evidence& evidence) {
    std::vector<ScoreParts> parts;
    Eigen::Index cols = 0;
    for (const Observation& seen : evidence.seen)
        if (seen.is_bad()) cols = std::max(cols, seen.got.cols());
    for (const Observation& seen : evidence.seen) {
        // The last tile may be shorter.
        if (!seen.is_bad() || seen.got.cols() != cols) continue;
        const HeadCall& call = *seen.site.call;
        ScoreParts part{&seen, scaled_scores(call, seen.site.q, seen.site.k), {}};
        if (call.capped() && call.units.s_capped) part.product = cap_scores(call, part.product);
        part.bias = zeros(part.product.value.rows(), part.product.value.cols());
        if (call.biased() && call.units.s_biased)
            part.bias = add_bias(call, seen.site.first_row, seen.site.first_key, part.bias);
        parts.push_back(std::move(part));
    }
    return parts;
}

/// Whether column `col` of the dump holds the scores of column `other`, wherever something is seen of them.
bool is_from(const std::vector<ScoreParts>& parts, Eigen::Index col, Eigen::Index other) {
    int known = 0;
    for (const auto& [seen, product, bias] : parts) {
        for (Eigen::Index row = 0; row < seen->got.rows(); ++row) {
            const double got = seen->natural(row, col);
            if (!std::isfinite(got)) continue;
            const double expected = product.value(row, other) + bias.value(row, col);
            const double error =
                product.error(row, other) + bias.error(row, col) + 8 * u_f32 * std::abs(expected);
            if (!(std::abs(got - expected) <= error)) return false;
            ++known;
        }
    }
    return known >= 2;
}

}  // namespace

std::vector<std::int64_t> score_permutation(const Evidence& evidence) {
    if (!evidence.units().s_masked) return {};
    const std::vector<ScoreParts> parts = parts_of_bad_tiles(evidence);
    if (parts.empty()) return {};
    const Eigen::Index cols = parts[0].seen->got.cols();
    std::vector<bool> used(std::size_t(cols), false);
    std::vector<std::int64_t> from;
    for (Eigen::Index col = 0; col < cols; ++col) {
        std::int64_t found = -1;
        // The nearest that no column before has: keys may repeat.
        for (Eigen::Index distance = 0; distance < cols; ++distance) {
            for (const Eigen::Index other : {col - distance, col + distance}) {
                if (other < 0 || other >= cols || !is_from(parts, col, other)) continue;
                if (found < 0 || (used[std::size_t(found)] && !used[std::size_t(other)])) found = other;
            }
            if (found >= 0 && !used[std::size_t(found)]) break;
        }
        if (found < 0) return {};
        used[std::size_t(found)] = true;
        from.push_back(found);
    }
    from.resize(std::size_t(std::max<std::int64_t>(std::ssize(from), evidence.problem().block_n)), 0);
    for (std::size_t i = std::size_t(cols); i < from.size(); ++i) from[i] = std::int64_t(i);
    return from;
}

std::vector<std::int64_t> column_permutation(const Observation& seen) {
    const Eigen::Index cols = seen.got.cols();
    std::vector<std::int64_t> from;
    std::vector<bool> used(std::size_t(cols), false);
    const auto same = [&](Eigen::Index got, Eigen::Index expected) {
        Eigen::Index matches = 0;
        for (Eigen::Index row = 0; row < seen.got.rows(); ++row) {
            const double value = seen.expected.value(row, expected);
            const double mine = seen.got(row, got);
            const bool fits = mine == value || std::abs(mine - value) <= seen.expected.error(row, expected);
            if (fits) ++matches;
        }
        return matches == seen.got.rows();
    };
    for (Eigen::Index col = 0; col < cols; ++col) {
        std::int64_t found = -1;
        for (Eigen::Index distance = 0; distance < cols && found < 0; ++distance) {
            for (const Eigen::Index other : {col - distance, col + distance}) {
                if (other < 0 || other >= cols || used[std::size_t(other)] || !same(col, other)) continue;
                found = other;
                break;
            }
        }
        if (found < 0) return {};
        used[std::size_t(found)] = true;
        from.push_back(found);
    }
    return from;
}

std::vector<Candidate> transpositions(const OperandOf& operand) {
    std::vector<Candidate> candidates;
    // A tile of 32 x 32 is a block as well: the tile comes first, since it says more.
    candidates.push_back({{{"block", "tile"}}, {.inputs = [=](SearchedTile& site) {
                              operand(site) = transposed(operand(site));
                          }}});
    for (const Eigen::Index block : {8, 16, 32}) {
        candidates.push_back({{{"block", digits(std::int64_t(block))}}, {.inputs = [=](SearchedTile& site) {
                                  operand(site) = with_blocks_transposed(operand(site), block);
                              }}});
    }
    return candidates;
}

std::vector<Candidate> permutations(const Evidence& evidence, const OperandOf& operand) {
    std::vector<Candidate> candidates;
    // Chunks of 8 elements, xored with the row: what a missing swizzle looks like from either side.
    for (const Eigen::Index rows : {8, 4}) {
        candidates.push_back(
            {{{"period", digits(std::int64_t(8 * rows))}, {"xor", "row % " + digits(std::int64_t(rows))}},
             {.inputs = [=](SearchedTile& site) {
                 const Matrix old = operand(site);
                 Matrix& changed = operand(site);
                 for (Eigen::Index row = 0; row < old.rows(); ++row) {
                     for (Eigen::Index col = 0; col < old.cols(); ++col) {
                         const Eigen::Index from = col ^ (row % rows * 8);
                         if (from < old.cols()) changed(row, col) = old(row, from);
                     }
                 }
             }}});
    }
    const bool shows = evidence.direct() && evidence.acts <= Stage::v && evidence.seen.front().is_bad();
    if (!shows) return candidates;
    const std::vector<std::int64_t> from = column_permutation(evidence.seen.front());
    if (from.empty()) return candidates;
    candidates.push_back({{{"period", digits(period_of(from))}},
                          {.inputs =
                               [=](SearchedTile& site) {
                                   const Matrix old = operand(site);
                                   for (std::size_t col = 0; col < from.size(); ++col)
                                       operand(site).col(Eigen::Index(col)) = old.col(from[col]);
                               }},
                          1});
    return candidates;
}

std::vector<Candidate> leading_dimensions(const Evidence& evidence, const OperandOf& operand) {
    std::vector<Candidate> candidates;
    const Problem& problem = evidence.problem();
    const bool is_v = evidence.acts == Stage::acc || evidence.acts == Stage::v;
    const std::int64_t cols = is_v ? problem.head_dim_v : problem.head_dim;
    const std::set<std::int64_t> reads = {cols,      cols + 4, cols + 8, cols + 16,       cols - 8,
                                          cols - 16, cols / 2, cols * 2, problem.block_n, problem.block_m};
    for (const std::int64_t fragment : {0, 16}) {
        for (const std::int64_t stored : {cols, cols + 8, cols + 16, cols + 4}) {
            for (const std::int64_t read : reads) {
                if (stored == read || read <= 0) continue;
                const auto change = [=](SearchedTile& site) {
                    operand(site) = reread(operand(site), stored, read, fragment);
                };
                candidates.push_back({{{"ld", digits(read)},
                                       {"stored with", digits(stored)},
                                       {"from", fragment > 0 ? "each fragment" : "the tile"}},
                                      {.inputs = change},
                                      2});
            }
        }
    }
    return candidates;
}

}  // namespace tilescope
