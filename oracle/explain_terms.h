#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oracle/head_call.h"
#include "oracle/output.h"
#include "oracle/replay.h"

namespace tilescope {

/// One row of the table that an error budget adds up to.
struct BudgetTerm {
    std::string name;     ///< what rounds, or what is not known exactly
    std::string formula;  ///< its bound, in numbers
    double value = 0;
    std::string source;
    bool used = true;       ///< false: another bound of the same thing counts
    bool in_words = false;  ///< the formula has no numbers, which factors could follow
};

/// The terms of one element. What is 0 is left out, and terms of the same name are one.
class BudgetTerms {
 public:
    void add(std::string name, std::string formula, double value, std::string source);
    /// Two bounds of the same thing, of which the first counts.
    void add_alternatives(BudgetTerm used, BudgetTerm other);
    /// What the oracle's float64 arithmetic may be off by.
    void add_own_error(double value);
    void add_flush_to_zero(double value);
    void append(const BudgetTerms& other);
    /// Multiplies every term; `what` says with what.
    void scale(double by, const std::string& what);
    void clear() { rows_.clear(); }

    double total() const;
    const std::vector<BudgetTerm>& rows() const { return rows_; }

 private:
    void insert(BudgetTerm term);

    std::vector<BudgetTerm> rows_;
};

/// A number of a formula.
std::string in_formula(double value);

/// gamma(n) of a magnitude, in words.
std::string roundings(double count, double magnitude);

/// The n of which gamma(n, u_f32) is `relative`.
double rounding_count(double relative);

/// Who the certain bound of such a sum is from.
std::string source_of(Accumulation accumulation);

/// A term's share of a bound: the bound `with` the term less the bound `without` it; 0 where they differ by
/// float64 rounding alone.
double part_of(double with, double without);

/// Rows and columns are those of the tile.
BudgetTerms score_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col);
BudgetTerms max_terms(const TileInputs& in, Eigen::Index row);
BudgetTerms probability_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col);
BudgetTerms sum_terms(const TileInputs& in, Eigen::Index row, Eigen::Index lane);
BudgetTerms accumulator_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col);

/// Of the score that the softmax sees, given the dumped one: what the dump's s is without.
BudgetTerms finishing_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col);

/// Of a product of matrices at one element, from a start that is exact; `scale` is what it is multiplied
/// with.
void add_product_terms(const HeadCall& call, Stage stage, Accumulation accumulation, const Matrix& a,
                       const Matrix& b, bool transposed, const Matrix& start, double scale, Eigen::Index row,
                       Eigen::Index col, BudgetTerms& terms);

/// `expected` is the element of a dequantised q, k or v that the dump should hold.
BudgetTerms operand_terms(const HeadCall& call, Stage stage, double expected, double error);

/// `splits` are the states after the last tile of each split.
BudgetTerms output_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row,
                         Eigen::Index col);
BudgetTerms log_sum_exp_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row);

}  // namespace tilescope
