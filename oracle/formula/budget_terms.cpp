#include "oracle/formula/budget_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/formula/budget.h"

namespace tilescope {

void BudgetTerms::add(std::string name, std::string formula, double value, std::string source) {
    if (value == 0) return;
    insert({std::move(name), std::move(formula), value, std::move(source)});
}

void BudgetTerms::insert(BudgetTerm term) {
    const auto same =
        std::ranges::find_if(rows_, [&](const BudgetTerm& row) { return row.name == term.name; });
    if (same == rows_.end()) {
        rows_.push_back(std::move(term));
    } else {
        same->value += term.value;
        same->formula = std::move(term.formula);
    }
}

void BudgetTerms::add_alternatives(BudgetTerm used, BudgetTerm other) {
    if (used.value == 0) return;
    other.used = false;
    rows_.push_back(std::move(used));
    rows_.push_back(std::move(other));
}

void BudgetTerms::add_own_error(double value) {
    if (value != 0)
        insert({"own error of the oracle", "2^-48 of every value", value, "oracle/formula/budget.h", true,
                true});
}

void BudgetTerms::add_flush_to_zero(double value) {
    if (value != 0)
        insert({"flush to zero", "2^-126 for every result", value, "CUDA guide, -ftz=true", true, true});
}

void BudgetTerms::append(const BudgetTerms& other) {
    for (const BudgetTerm& term : other.rows_) insert(term);
}

void BudgetTerms::scale(double by, const std::string& what) {
    if (by == 1) return;
    for (BudgetTerm& term : rows_) {
        term.value *= by;
        if (!term.in_words) term.formula += " * " + what;
    }
    std::erase_if(rows_, [](const BudgetTerm& term) { return term.value == 0; });
}

double BudgetTerms::total() const {
    double sum = 0;
    for (const BudgetTerm& term : rows_) sum += term.used ? term.value : 0;
    return sum;
}

std::string in_formula(double value) {
    return fmt::format("{:.3g}", value);
}

std::string roundings(double count, double magnitude) {
    return fmt::format("{:.0f} rounding{}: {:.3g} * {:.3g}", count, count == 1 ? "" : "s",
                       gamma(count, u_f32), magnitude);
}

TermName rounding_to(Dtype dtype, const char* what, double magnitude, double quantum) {
    return {fmt::format("{} {}", what, dtype_info(dtype).name),
            dtype == Dtype::f32
                ? ""
                : fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(dtype), magnitude, quantum),
            "IEEE 754"};
}

double part_of(double with, double without) {
    const double part = with - without;
    return std::abs(part) > std::abs(with) * 0x1p-44 ? part : 0;
}

}  // namespace tilescope
