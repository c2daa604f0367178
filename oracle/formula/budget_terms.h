#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dump/schema.h"

namespace tilescope {

// A formula adds its error up once, for two readers: a judge takes the sum (ErrorSum), and who asks why a
// tolerance is as wide as it is takes the same parts with their names (BudgetTerms).

/// What one part of an error is called.
struct TermName {
    std::string name;     ///< what rounds, or what is not known exactly
    std::string formula;  ///< its bound, in numbers
    std::string source;
};

/// One row of the table that an error budget adds up to.
struct BudgetTerm {
    std::string name;
    std::string formula;
    double value = 0;
    std::string source;
    bool used = true;       ///< false: another bound of the same thing counts
    bool in_words = false;  ///< the formula has no numbers, which factors could follow
};

/// The terms of one element. What is 0 is left out, and terms of the same name are one.
class BudgetTerms {
 public:
    void add(std::string name, std::string formula, double value, std::string source);
    /// As ErrorSum::add(): `describe` returns the TermName, or takes these terms and adds the parts that
    /// `value` is made of.
    template <class Describe>
    void add(double value, const Describe& describe);
    /// Two bounds of the same thing, of which the first counts.
    void add_alternatives(BudgetTerm used, BudgetTerm other);
    /// What the oracle's float64 arithmetic may be off by.
    void add_own_error(double value);
    void add_flush_to_zero(double value);
    void append(const BudgetTerms& other);
    /// Multiplies every term; `what` says with what, or returns it.
    void scale(double by, const std::string& what);
    template <class Describe>
    requires std::is_invocable_r_v<std::string, Describe>
    void scale(double by, const Describe& what) { scale(by, what()); }
    void clear() { rows_.clear(); }

    double total() const;
    const std::vector<BudgetTerm>& rows() const { return rows_; }

 private:
    void insert(BudgetTerm term);

    std::vector<BudgetTerm> rows_;
};

/// The same as a bare sum, which asks for no name.
class ErrorSum {
 public:
    explicit ErrorSum(double error = 0) : sum_(error) {}

    template <class Describe>
    void add(double value, const Describe&) {
        sum_ += value;
    }
    void add_own_error(double value) { sum_ += value; }
    void add_flush_to_zero(double value) { sum_ += value; }
    template <class Describe>
    void scale(double by, const Describe&) {
        sum_ *= by;
    }
    void clear() { sum_ = 0; }
    double total() const { return sum_; }

 private:
    double sum_;
};

/// One element of an Estimate, on its way through a formula.
template <class Error>
struct Bounded {
    double value = 0;
    Error error;
};

/// A number of a formula.
std::string in_formula(double value);

/// gamma(n) of a magnitude, in words.
std::string roundings(double count, double magnitude);

/// The rounding of `magnitude` to a type, in words; nothing for float32, which rounds nothing.
TermName rounding_to(Dtype dtype, const char* what, double magnitude, double quantum);

/// A term's share of a bound: the bound `with` the term less the bound `without` it; 0 where they differ by
/// float64 rounding alone.
double part_of(double with, double without);

template <class Describe>
void BudgetTerms::add(double value, const Describe& describe) {
    if constexpr (std::is_invocable_v<Describe, BudgetTerms&>) {
        describe(*this);
    } else {
        TermName term = describe();
        add(std::move(term.name), std::move(term.formula), value, std::move(term.source));
    }
}

}  // namespace tilescope
