#include "oracle/program/equations.h"

#include <Eigen/QR>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace tilescope {

namespace {

constexpr double nothing_known = std::numeric_limits<double>::infinity();
/// Equations that are solved, for each unknown; ways in which some of the equations are not known.
constexpr std::int64_t equations_per_unknown = 3;
constexpr std::size_t most_patterns = 8;

bool is_known(Uncertain x) {
    return std::isfinite(x.error) && std::isfinite(x.value);
}

}  // namespace

std::optional<Numbers> gathered(const Numbers& needed, const Numbers& right) {
    constexpr std::int64_t fewest = 8;
    constexpr double contradicted_share = 0.02;
    std::vector<int> axes;
    std::vector<std::int64_t> extents;
    for (std::size_t i = 0; i < needed.axes.size(); ++i) {
        if (right.position_of(needed.axes[i]) < 0) continue;
        axes.push_back(needed.axes[i]);
        extents.push_back(needed.extents[i]);
    }
    if (axes.size() == needed.axes.size()) return std::nullopt;
    Numbers low = Numbers::along(axes, extents);
    if (low.size() < fewest) return std::nullopt;
    Numbers high = low;
    std::ranges::fill(low.value, -HUGE_VAL);
    std::ranges::fill(high.value, HUGE_VAL);
    const Walk walk(needed.axes, needed.extents);
    const std::array steps = {walk.steps_of(low)};
    walk.rows(steps, [&](const Row<1>& row) {
        for (std::int64_t i = 0; i < row.length; ++i) {
            const Uncertain one = needed.at(row.to + i);
            if (!std::isfinite(one.error) || std::isnan(one.value)) continue;
            const auto at = std::size_t(row.from[0] + i * row.step[0]);
            low.value[at] = std::max(low.value[at], one.value - one.error);
            high.value[at] = std::min(high.value[at], one.value + one.error);
        }
    });
    std::int64_t known = 0;
    std::int64_t contradicted = 0;
    low.error.resize(low.value.size());
    for (std::size_t i = 0; i < low.value.size(); ++i) {
        const bool is_infinite = std::isinf(low.value[i]) && low.value[i] == high.value[i];
        const double half = is_infinite ? 0 : (high.value[i] - low.value[i]) / 2;
        known += std::isfinite(half) ? 1 : 0;
        contradicted += half < 0 ? 1 : 0;
        if (!is_infinite) low.value[i] = std::isfinite(half) ? (low.value[i] + high.value[i]) / 2 : 0;
        low.error[i] = std::isfinite(half) && half >= 0 ? half : nothing_known;
    }
    if (double(contradicted) > contradicted_share * double(known)) return std::nullopt;
    return low;
}

struct FactorSolver::Equations {
    struct Solved {
        Eigen::MatrixXd matrix;
        Eigen::MatrixXd inverse;
    };

    Eigen::MatrixXd matrix;
    std::map<std::vector<Eigen::Index>, Solved> solved_ways;  ///< by the equations that are known

    /// Null: these do not tell.
    const Solved* of(const std::vector<Eigen::Index>& rows) {
        const auto found = solved_ways.find(rows);
        if (found != solved_ways.end()) return found->second.inverse.size() > 0 ? &found->second : nullptr;
        if (solved_ways.size() == most_patterns) return nullptr;
        Solved& solved = solved_ways[rows];
        solved.matrix = matrix(rows, Eigen::all);
        Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(solved.matrix);
        qr.setThreshold(1e-6);
        if (qr.rank() < matrix.cols()) return nullptr;
        solved.inverse = qr.solve(Eigen::MatrixXd::Identity(solved.matrix.rows(), solved.matrix.rows()));
        elements_computed() += solved.matrix.size() * matrix.cols() / 16;
        return &solved;
    }
};

FactorSolver::FactorSolver(std::span<const double> matrix, std::int64_t unknowns)
    : equations_(std::make_unique<Equations>()) {
    using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    equations_->matrix = Eigen::Map<const RowMajor>(matrix.data(), std::ssize(matrix) / unknowns, unknowns);
}

FactorSolver::~FactorSolver() = default;

bool FactorSolver::solve(const std::vector<Uncertain>& sums, std::vector<Uncertain>& unknowns) {
    std::vector<Eigen::Index> rows;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        if (is_known(sums[i])) rows.push_back(Eigen::Index(i));
    }
    if (std::int64_t(rows.size()) < equations_->matrix.cols()) return false;
    const std::size_t wanted = std::size_t(equations_per_unknown * equations_->matrix.cols());
    if (rows.size() > wanted) {
        for (std::size_t i = 0; i < wanted; ++i) rows[i] = rows[i * rows.size() / wanted];
        rows.resize(wanted);
    }
    const Equations::Solved* const solved = equations_->of(rows);
    if (solved == nullptr) return false;
    Eigen::VectorXd y(Eigen::Index(rows.size()));
    Eigen::VectorXd off(y.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        y(Eigen::Index(i)) = sums[std::size_t(rows[i])].value;
        off(Eigen::Index(i)) = sums[std::size_t(rows[i])].error;
    }
    const Eigen::VectorXd x = solved->inverse * y;
    const Eigen::VectorXd x_off = solved->inverse.cwiseAbs() * off;
    // As many unknowns as equations leave nothing to hold them against.
    const Eigen::VectorXd left = (solved->matrix * x - y).cwiseAbs();
    std::int64_t beyond = 0;
    for (Eigen::Index i = 0; i < left.size(); ++i)
        beyond += left(i) <= 4 * off(i) + 1e-12 * std::abs(y(i)) ? 0 : 1;
    if (beyond * 50 > left.size()) return false;
    unknowns.clear();
    for (Eigen::Index i = 0; i < x.size(); ++i) unknowns.push_back({x(i), x_off(i)});
    return true;
}

}  // namespace tilescope
