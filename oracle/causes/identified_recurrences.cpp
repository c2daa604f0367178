#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/number.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

constexpr std::size_t most_told = 2048;

Estimate& state_of(Stage stage, SearchedTile& site) {
    return stage == Stage::l ? site.before.l : site.before.acc;
}

const Matrix& state_of(Stage stage, const SearchedTile& site) {
    return stage == Stage::l ? site.before.l.value : site.before.acc.value;
}

double sum_of(const TileSum& sum) {
    double total = 0;
    for (const double term : sum.terms) total += term;
    return total;
}

/// Wrong elements of tiles that have one before them.
std::vector<WrongSum> carried_sums(const Evidence& evidence) {
    std::vector<WrongSum> wrong = wrong_sums(evidence, most_told);
    std::erase_if(wrong, [&](const WrongSum& one) {
        const double before = state_of(evidence.acts, one.seen->site)(one.row, one.col);
        return one.seen->site.begins || before == 0 ||
               !std::isfinite(one.seen->site.before.m.value(one.row, 0));
    });
    return wrong;
}

// ---- a sum of other terms

/// What a new state can be made of.
struct StateTerm {
    const char* text;
    double (*value)(double before, double factor, double sum);
};

constexpr std::array<StateTerm, 6> state_terms = {{
    {"before * factor", [](double before, double factor, double) { return before * factor; }},
    {"before", [](double before, double, double) { return before; }},
    {"before * factor^2", [](double before, double factor, double) { return before * factor * factor; }},
    {"sum", [](double, double, double sum) { return sum; }},
    {"factor", [](double, double factor, double) { return factor; }},
    {"sum * factor", [](double, double factor, double sum) { return sum * factor; }},
}};

/// A multiple of each of them.
using Multiples = std::array<double, state_terms.size()>;

double state_with(const Multiples& multiples, double before, double factor, double sum) {
    double state = 0;
    for (std::size_t i = 0; i < multiples.size(); ++i)
        if (multiples[i] != 0) state += multiples[i] * state_terms[i].value(before, factor, sum);
    return state;
}

/// Those that have rows of their own: not rescaled, rescaled twice, not carried.
constexpr std::array<Multiples, 3> listed_states = {{{0, 1, 0, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}}};

std::string told_state(const Multiples& multiples) {
    std::string text;
    for (std::size_t i = 0; i < multiples.size(); ++i) {
        if (multiples[i] == 0) continue;
        if (!text.empty()) text += " + ";
        if (multiples[i] != 1) text += digits(multiples[i]) + " * ";
        text += state_terms[i].text;
    }
    return text;
}

/// The multiples of so few terms that fit.
std::optional<Multiples> multiples_of(const std::vector<WrongSum>& wrong, Stage stage,
                                      const std::vector<std::size_t>& terms) {
    const auto rows = Eigen::Index(wrong.size());
    Equations equations{Eigen::MatrixXd(rows, Eigen::Index(terms.size())), Eigen::VectorXd(rows),
                        Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const WrongSum& one = wrong[std::size_t(i)];
        const double unit = stage == Stage::l ? kernel_unit(stage, one.seen->site) : 1;
        const double before = state_of(stage, one.seen->site)(one.row, one.col) / unit;
        const double factor = one.seen->site.factor.value(one.row, 0);
        for (std::size_t t = 0; t < terms.size(); ++t)
            equations.terms(i, Eigen::Index(t)) =
                state_terms[terms[t]].value(before, factor, sum_of(one.sum) / unit);
        equations.sums(i) = one.sum.got / unit;
        equations.errors(i) = one.sum.error / unit;
    }
    const std::optional<Weights> weights = weights_of(equations);
    if (!weights) return std::nullopt;
    Multiples multiples{};
    Eigen::VectorXd simple = weights->value;
    for (Eigen::Index t = 0; t < simple.size(); ++t) {
        simple(t) = simple_number(simple(t), std::max(1e-4, 4 * weights->uncertainty(t)));
        if (simple(t) == 0) return std::nullopt;
        multiples[terms[std::size_t(t)]] = simple(t);
    }
    return fit(equations, simple) ? std::optional(multiples) : std::nullopt;
}

Change becomes(Stage stage, const Multiples& multiples) {
    return adds_to_sums(stage, [=](const SearchedTile& site, Matrix& more) {
        const Matrix& before = state_of(stage, site);
        const double unit = stage == Stage::l ? kernel_unit(stage, site) : 1;
        std::vector<double> terms;
        for (Eigen::Index i = 0; i < more.rows(); ++i) {
            for (Eigen::Index j = 0; j < more.cols(); ++j) {
                fill_terms(stage, site, i, j, terms);
                double sum = 0;
                for (const double term : terms) sum += term;
                const double factor = site.factor.value(i, 0);
                const double state = state_with(multiples, before(i, j) / unit, factor, sum / unit) * unit;
                more(i, j) = state - (before(i, j) * factor + sum);
            }
        }
    });
}

std::vector<Candidate> state_of_other_terms(const Evidence& evidence) {
    // First tiles, too: they tell what becomes of the sum.
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most_told);
    if (wrong.size() < 8) return {};
    // The fewer terms the better.
    std::vector<std::vector<std::size_t>> ways;
    for (std::size_t a = 0; a < state_terms.size(); ++a) {
        ways.push_back({a});
        for (std::size_t b = a + 1; b < state_terms.size(); ++b) {
            ways.push_back({a, b});
            for (std::size_t c = b + 1; c < state_terms.size(); ++c) ways.push_back({a, b, c});
        }
    }
    std::ranges::stable_sort(ways, {}, [](const auto& way) { return way.size(); });
    std::vector<Candidate> candidates;
    for (const auto& way : ways) {
        if (!candidates.empty() && way.size() > 2) break;
        const std::optional<Multiples> multiples = multiples_of(wrong, evidence.acts, way);
        if (!multiples || std::ranges::find(listed_states, *multiples) != listed_states.end()) continue;
        candidates.push_back(
            {{{"becomes", told_state(*multiples)}}, becomes(evidence.acts, *multiples), int(way.size())});
    }
    return candidates;
}

// ---- another factor

/// The factor that a wrong row was rescaled by.
struct RowFactor {
    double got = 0;
    double error = 0;
    double factor = 0;  ///< of a healthy kernel
    double m_before = 0;
    double m = 0;
};

/// Each row's own, from all its wrong elements.
std::vector<RowFactor> row_factors(const Evidence& evidence) {
    std::vector<RowFactor> rows;
    const Observation* seen = nullptr;
    Eigen::Index row = -1;
    double products = 0;
    double squares = 0;
    double error = 0;
    const auto close = [&] {
        if (seen && squares > 0)
            rows.push_back({products / squares, std::sqrt(error) / squares, seen->site.factor.value(row, 0),
                            seen->site.before.m.value(row, 0), seen->site.m.value(row, 0)});
        products = squares = error = 0;
    };
    for (const WrongSum& one : carried_sums(evidence)) {
        if (one.seen != seen || one.row != row) close();
        seen = one.seen;
        row = one.row;
        const double before = state_of(evidence.acts, seen->site)(row, one.col);
        products += before * (one.sum.got - sum_of(one.sum));
        squares += before * before;
        error += std::pow(before * one.sum.error, 2);
    }
    close();
    return rows;
}

using FactorOf = std::function<double(double m_before, double m)>;

/// Rescales by another factor. Where nothing came before it is computed all the same: 0 * infinity is NaN.
Change rescales_by(Stage stage, FactorOf factor_of, bool guarded) {
    return {.inputs = [=](SearchedTile& site) {
        for (Eigen::Index i = 0; i < site.factor.value.rows(); ++i) {
            const double before = site.before.m.value(i, 0);
            if (guarded && before == -infinity) continue;
            const double healthy = site.factor.value(i, 0);
            const double relative = healthy > 0 ? site.factor.error(i, 0) / healthy : 0;
            const double factor = factor_of(before, site.m.value(i, 0));
            site.factor.value(i, 0) = factor;
            site.factor.error(i, 0) = std::isfinite(factor) ? 2 * relative * std::abs(factor) : 0;
            if (!std::isfinite(factor)) state_of(stage, site).value.row(i) *= factor;
        }
    }};
}

/// "exp(2 m_before - 2 m)".
std::string told_exponent(const Eigen::Vector3d& by) {
    std::string text;
    for (const auto& [multiple, name] :
         {std::pair(by(0), "m_before"), std::pair(by(1), "m"), std::pair(by(2), "1")}) {
        if (multiple == 0) continue;
        const std::string sign = multiple < 0 ? (text.empty() ? "-" : " - ") : (text.empty() ? "" : " + ");
        const std::string size = std::abs(multiple) == 1 ? "" : digits(std::abs(multiple)) + " ";
        text += sign + size + name;
    }
    return text.empty() ? "1" : "exp(" + text + ")";
}

/// What the logarithm of a factor can be made of: multiples of m_before, of m, of their difference, and of 1.
using LogTerms = Eigen::Matrix<double, 3, Eigen::Dynamic>;

std::vector<LogTerms> ways_to_make_logarithms() {
    const Eigen::Vector3d m_before(1, 0, 0);
    const Eigen::Vector3d m(0, 1, 0);
    const Eigen::Vector3d one(0, 0, 1);
    std::vector<LogTerms> ways;
    const auto add = [&](auto... terms) {
        LogTerms way(3, sizeof...(terms));
        Eigen::Index at = 0;
        ((way.col(at++) = terms), ...);
        ways.push_back(way);
    };
    add(Eigen::Vector3d(m_before - m));
    add(m_before);
    add(m);
    add(Eigen::Vector3d(m_before - m), one);
    add(m_before, m);
    add(m_before, one);
    add(m, one);
    return ways;
}

/// The multiples of m_before, m and 1 that the logarithm is in all rows; nullopt where it is none.
std::optional<Eigen::Vector3d> logarithm_of(const std::vector<RowFactor>& rows, const LogTerms& way) {
    const auto count = Eigen::Index(rows.size());
    Equations equations{Eigen::MatrixXd(count, way.cols()), Eigen::VectorXd(count), Eigen::VectorXd(count)};
    for (Eigen::Index i = 0; i < count; ++i) {
        const RowFactor& row = rows[std::size_t(i)];
        equations.terms.row(i) = Eigen::RowVector3d(row.m_before, row.m, 1) * way;
        equations.sums(i) = std::log(row.got);
        equations.errors(i) = row.error / row.got + 4 * u_f32 * (std::abs(row.m_before) + std::abs(row.m));
    }
    const std::optional<Weights> weights = weights_of(equations);
    if (!weights) return std::nullopt;
    Eigen::VectorXd by = weights->value;
    for (Eigen::Index i = 0; i < by.size(); ++i)
        by(i) = simple_number(by(i), std::max(1e-3, 4 * weights->uncertainty(i)));
    return fit(equations, by) ? std::optional<Eigen::Vector3d>(way * by) : std::nullopt;
}

/// Those that have rows of their own: not rescaled, inversely, twice.
const std::array<Eigen::Vector3d, 3> listed_factors = {Eigen::Vector3d(0, 0, 0), Eigen::Vector3d(-1, 1, 0),
                                                       Eigen::Vector3d(2, -2, 0)};

/// The exponential of a sum of multiples of the two maxima and a constant.
void add_exponentials(const Evidence& evidence, const std::vector<RowFactor>& rows,
                      std::vector<Candidate>& candidates) {
    std::vector<RowFactor> told;
    for (const RowFactor& row : rows)
        if (row.got > 0 && row.error < 0.05 * row.got) told.push_back(row);
    if (told.size() < 6 || told.size() * 10 < rows.size() * 8) return;
    for (const LogTerms& way : ways_to_make_logarithms()) {
        const std::optional<Eigen::Vector3d> by = logarithm_of(told, way);
        if (!by || std::ranges::find(listed_factors, *by) != listed_factors.end()) continue;
        const auto factor = [=](double m_before, double m) {
            return std::exp((*by)(0) * m_before + (*by)(1) * m + (*by)(2));
        };
        candidates.push_back(
            {{{"factor", told_exponent(*by)}}, rescales_by(evidence.acts, factor, true), int(way.cols())});
    }
}

/// One factor of all wrong rows, at which the right one is cut.
void add_limit(const Evidence& evidence, const std::vector<RowFactor>& rows,
               std::vector<Candidate>& candidates) {
    std::vector<double> values;
    for (const RowFactor& row : rows) values.push_back(row.got);
    const double limit = median_of(values);
    if (rows.size() < 4 || !std::isfinite(limit) || limit <= 0) return;
    const auto is_near = [&](const RowFactor& row) {
        return std::abs(row.got - limit) <= 4 * row.error + 1e-6 * limit;
    };
    if (std::ranges::count_if(rows, is_near) * 100 < std::ssize(rows) * 99) return;
    double least_error = infinity;
    for (const RowFactor& row : rows) least_error = std::min(least_error, row.error);
    const double close = 1e-5 + 4 * least_error;
    const double exponent = simple_number(std::log(limit), close / limit);
    const double simple = simple_number(limit, close);
    const bool is_exponent = simple == limit && exponent != std::log(limit);
    const std::string name = is_exponent ? fmt::format("exp({})", digits(exponent)) : digits(simple);
    const double at = is_exponent ? std::exp(exponent) : simple;
    if (at == 1) return;  // Not rescaled: a row of its own.
    const bool from_below = rows.front().factor < limit;
    const auto cut = [=](double m_before, double m) {
        const double factor = m_before == -infinity ? 0 : std::exp(m_before - m);
        return from_below ? std::max(factor, at) : std::min(factor, at);
    };
    candidates.push_back({{{"factor", fmt::format("{} {}", from_below ? "at least" : "at most", name)}},
                          rescales_by(evidence.acts, cut, true),
                          2});
    candidates.push_back({{{"factor", name}},
                          rescales_by(
                              evidence.acts, [=](double, double) { return at; }, true),
                          2});
}

std::vector<Candidate> rescaled_by_other_factor(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.known.empty()) return candidates;
    const auto inverse = [](double m_before, double m) { return std::exp(m - m_before); };
    candidates.push_back({{{"factor", "exp(m - m_before), infinite before the first key"}},
                          rescales_by(evidence.acts, inverse, false),
                          1});
    const std::vector<RowFactor> rows = row_factors(evidence);
    add_exponentials(evidence, rows, candidates);
    add_limit(evidence, rows, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_recurrence_causes() {
    const std::vector<Stage> sums = {Stage::l, Stage::acc};
    return {
        {"rescaled_by_other_factor", "recurrence", sums,
         "the running state is rescaled by another factor than exp(m_before - m)",
         "the factor of the running state", rescaled_by_other_factor, "--input ramped"},
        {"state_of_other_terms", "recurrence", sums,
         "the running state is added up from other terms than before * factor + sum",
         "the line that updates the running state; factor is exp(m_before - m)", state_of_other_terms,
         "--input ramped"},
    };
}

}  // namespace tilescope
