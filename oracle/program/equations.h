#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oracle/program/numbers.h"

namespace tilescope {

// Several equations for the same unknowns.

/// What is the same along axes that it does not have, as a row sum for all columns, must be what all of these leave of it: less than each of
/// them does. nullopt: it is one number, they contradict each other, or there are no such axes.
std::optional<Numbers> gathered(const Numbers& needed, const Numbers& right);

/// Solves sums of products for one of the factors, by least squares.
class FactorSolver {
 public:
    /// `matrix`: a row for each equation, one after the other, with a number for each unknown.
    FactorSolver(std::span<const double> matrix, std::int64_t unknowns);
    ~FactorSolver();
    FactorSolver(const FactorSolver&) = delete;
    FactorSolver& operator=(const FactorSolver&) = delete;

    /// False: the equations do not tell, or contradict each other.
    bool solve(const std::vector<Uncertain>& sums, std::vector<Uncertain>& unknowns);

 private:
    struct Equations;
    std::unique_ptr<Equations> equations_;
};

}  // namespace tilescope
