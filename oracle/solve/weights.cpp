#include "oracle/solve/weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "oracle/solve/least_squares.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

constexpr double most_uncertain = 0.05;  ///< of a weight that is to be told

/// Which terms have one weight: each has the number of its class.
using Classes = std::vector<Eigen::Index>;

Classes classes_by(Eigen::Index terms, auto of_term) {
    Classes classes(std::size_t(terms), 0);
    for (Eigen::Index i = 0; i < terms; ++i) classes[std::size_t(i)] = of_term(i);
    return classes;
}

/// From one class to as many as there are terms.
std::vector<Classes> ways_to_class(Eigen::Index terms) {
    std::vector<Classes> ways = {Classes(std::size_t(terms), 0)};
    for (Eigen::Index count = 2; count <= std::min<Eigen::Index>(16, terms / 2); count *= 2) {
        ways.push_back(classes_by(terms, [=](Eigen::Index i) { return i % count; }));
        const Eigen::Index block = (terms + count - 1) / count;
        ways.push_back(classes_by(terms, [=](Eigen::Index i) { return i / block; }));
    }
    ways.push_back(classes_by(terms, [](Eigen::Index i) { return i; }));
    return ways;
}

/// The equations of a weight for each class.
Equations of_classes(const Equations& equations, const Classes& classes) {
    const Eigen::Index count = std::ranges::max(classes) + 1;
    Equations result{Eigen::MatrixXd::Zero(equations.terms.rows(), count), equations.sums, equations.errors};
    for (Eigen::Index i = 0; i < equations.terms.cols(); ++i)
        result.terms.col(classes[std::size_t(i)]) += equations.terms.col(i);
    return result;
}

/// Without the terms that are always 0; `kept` are the others.
Equations without_zeros(const Equations& equations, std::vector<Eigen::Index>& kept) {
    for (Eigen::Index i = 0; i < equations.terms.cols(); ++i)
        if (!equations.terms.col(i).isZero(0)) kept.push_back(i);
    return {equations.terms(Eigen::all, kept), equations.sums, equations.errors};
}

Eigen::VectorXd rounded(const Weights& weights) {
    Eigen::VectorXd simple = weights.value;
    for (Eigen::Index i = 0; i < simple.size(); ++i)
        simple(i) = simple_number(simple(i), std::max(1e-3, 4 * weights.uncertainty(i)));
    return simple;
}

}  // namespace

std::optional<Weights> weights_of(const Equations& equations) {
    if (equations.terms.rows() < 2 * equations.terms.cols()) return std::nullopt;
    const Eigen::VectorXd by = equations.errors.cwiseInverse();
    const auto solution =
        solve_least_squares(by.asDiagonal() * equations.terms, by.cwiseProduct(equations.sums));
    if (!solution) return std::nullopt;
    return Weights{solution->x, solution->deviation};
}

bool fit(const Equations& equations, const Eigen::VectorXd& weights) {
    const double larger = std::max(1.0, weights.cwiseAbs().maxCoeff());
    const Eigen::VectorXd off = (equations.terms * weights - equations.sums).cwiseAbs();
    Eigen::Index beyond = 0;
    for (Eigen::Index i = 0; i < off.size(); ++i) beyond += !(off(i) <= 2 * larger * equations.errors(i));
    return beyond * 100 <= off.size();
}

std::optional<Eigen::VectorXd> find_weights(const Equations& equations) {
    for (const Classes& classes : ways_to_class(equations.terms.cols())) {
        std::vector<Eigen::Index> kept;
        const Equations reduced = without_zeros(of_classes(equations, classes), kept);
        const std::optional<Weights> found = weights_of(reduced);
        if (!found || found->uncertainty.maxCoeff() > most_uncertain || !fit(reduced, found->value)) continue;
        const Eigen::VectorXd simple = rounded(*found);
        const Eigen::VectorXd& best = fit(reduced, simple) ? simple : found->value;
        Eigen::VectorXd of_class = Eigen::VectorXd::Ones(std::ranges::max(classes) + 1);
        for (std::size_t i = 0; i < kept.size(); ++i) of_class(kept[i]) = best(Eigen::Index(i));
        return of_class(classes);
    }
    return std::nullopt;
}

}  // namespace tilescope
