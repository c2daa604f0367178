#include "oracle/solve/combination.h"

#include <algorithm>
#include <cmath>

#include "oracle/solve/least_squares.h"

namespace tilescope {

namespace {

constexpr double agreeing_share = 0.98;

double error_of(const Equation& equation) {
    double size = std::abs(equation.got);
    for (const double term : equation.terms) size += std::abs(term);
    return equation.error + 2e-7 * size + 1e-30;
}

/// The coefficients that are not known yet, and how far each may be off.
std::optional<LeastSquares> solve(const std::vector<Equation>& equations, const std::vector<bool>& open,
                                  const std::vector<KnownNumber>& coefficients) {
    const auto unknowns = std::ranges::count(open, true);
    Eigen::MatrixXd terms(std::ssize(equations), unknowns);
    Eigen::VectorXd rest(std::ssize(equations));
    for (std::size_t i = 0; i < equations.size(); ++i) {
        const double weight = 1 / error_of(equations[i]);
        double got = equations[i].got;
        Eigen::Index column = 0;
        for (std::size_t k = 0; k < open.size(); ++k) {
            const double term = equations[i].terms[k];
            if (open[k]) {
                terms(Eigen::Index(i), column++) = term * weight;
            } else {
                got -= coefficients[k].value * term;
            }
        }
        rest(Eigen::Index(i)) = got * weight;
    }
    auto solution = solve_least_squares(terms, rest);
    // Errors are bounds: their root mean square is less.
    if (solution) solution->deviation *= 2;
    return solution;
}

bool agree(const std::vector<Equation>& equations, const std::vector<KnownNumber>& coefficients) {
    const auto agreeing = std::ranges::count_if(equations, [&](const Equation& equation) {
        double sum = 0;
        for (std::size_t k = 0; k < coefficients.size(); ++k)
            sum += coefficients[k].value * equation.terms[k];
        return std::abs(equation.got - sum) <= 2 * error_of(equation);
    });
    return double(agreeing) >= agreeing_share * double(equations.size());
}

}  // namespace

std::optional<std::vector<KnownNumber>> combination_of(const std::vector<Equation>& equations,
                                                       const std::vector<KnownNumber>& known) {
    if (equations.empty() || equations.size() < 4 * equations.front().terms.size()) return std::nullopt;
    const std::size_t count = equations.front().terms.size();
    std::vector<KnownNumber> coefficients(count);
    std::vector<bool> open(count, true);
    // The best known first: once it is rounded, the others are known better.
    for (std::size_t settled = 0; settled < count; ++settled) {
        const std::optional<LeastSquares> solution = solve(equations, open, coefficients);
        if (!solution) return std::nullopt;
        Eigen::Index best = 0;
        solution->deviation.minCoeff(&best);
        std::size_t which = 0;
        for (Eigen::Index left = best; !open[which] || left-- > 0;) ++which;
        coefficients[which] =
            simplest_number(solution->x(best), std::min(solution->deviation(best), 0.02), known);
        open[which] = false;
    }
    if (!agree(equations, coefficients)) return std::nullopt;
    return coefficients;
}

std::string text_of_sum(const std::vector<KnownNumber>& coefficients, const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t k = 0; k < coefficients.size(); ++k) {
        const std::string& name = coefficients[k].name;
        if (coefficients[k].value == 0) continue;
        const bool minus = name.starts_with('-');
        const std::string size = name.substr(minus ? 1 : 0);
        text += text.empty() ? (minus ? "-" : "") : minus ? " - " : " + ";
        text += names[k].empty() ? size : size == "1" ? names[k] : size + " * " + names[k];
    }
    return text.empty() ? "0" : text;
}

}  // namespace tilescope
