#include "oracle/causes/some_terms.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

constexpr std::size_t most_equations = 128;

/// For each wrong sum by how much the change makes each of its terms another one, and by how much the sum is off.
std::optional<Equations> differences_of(const Evidence& evidence, const Change& change) {
    std::vector<WrongSum> wrong = wrong_sums(evidence, 4 * most_equations);
    if (wrong.size() > most_equations) wrong.resize(most_equations);
    if (wrong.empty()) return std::nullopt;
    const auto terms = Eigen::Index(wrong.front().sum.terms.size());
    const auto rows = Eigen::Index(wrong.size());
    Equations equations{Eigen::MatrixXd::Zero(rows, terms), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    const Observation* seen = nullptr;
    SearchedTile changed;
    std::vector<double> others;
    for (Eigen::Index i = 0; i < rows; ++i) {
        const WrongSum& one = wrong[std::size_t(i)];
        if (std::exchange(seen, one.seen) != one.seen) {
            changed = one.seen->site;
            change.inputs(changed);
        }
        fill_terms(evidence.acts, changed, one.row, one.col, others);
        equations.sums(i) = one.sum.got - one.sum.carried;
        equations.errors(i) = one.sum.error;
        for (Eigen::Index j = 0; j < terms; ++j) {
            const double term = one.sum.terms[std::size_t(j)];
            const double other = others[std::size_t(j)];
            equations.sums(i) -= term;
            if (std::isfinite(other)) equations.terms(i, j) = other - term;
        }
    }
    return equations;
}

/// Regular places that have all terms which have to have the change, and none that must not.
std::optional<Places> places_with(const std::vector<double>& weights, const Eigen::MatrixXd& differences) {
    constexpr double uncertain = 0.02;
    const auto is_decided = [&](std::size_t i) { return !differences.col(Eigen::Index(i)).isZero(0); };
    std::vector<bool> inside(weights.size(), false);
    std::size_t decided_inside = 0;
    std::size_t decided = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (!is_decided(i)) continue;
        if (std::abs(weights[i]) > uncertain && std::abs(weights[i] - 1) > uncertain) return std::nullopt;
        inside[i] = weights[i] > 0.5;
        decided_inside += inside[i];
        ++decided;
    }
    if (decided_inside == 0 || decided_inside == decided) return std::nullopt;
    std::vector<Places> all = parts_of(std::ssize(weights));
    if (const auto exactly = places_of(inside)) all.insert(all.begin(), *exactly);
    const auto agrees = [&](const Places& places) {
        for (std::size_t i = 0; i < weights.size(); ++i)
            if (is_decided(i) && places.contains(std::int64_t(i)) != inside[i]) return false;
        return true;
    };
    const auto found = std::ranges::find_if(all, agrees);
    return found == all.end() ? std::nullopt : std::optional(*found);
}

void take_columns(const Places& places, const Matrix& from, Matrix& to) {
    for (Eigen::Index j = 0; j < std::min(from.cols(), to.cols()); ++j)
        if (places.contains(j)) to.col(j) = from.col(j);
}

void take_columns(const Places& places, const Estimate& from, Estimate& to) {
    take_columns(places, from.value, to.value);
    take_columns(places, from.error, to.error);
}

/// The operands of the changed tile, in these terms of its sum.
void take_terms(Stage stage, const Places& places, const SearchedTile& changed, SearchedTile& site) {
    if (is_over_head(stage)) {
        for (Operand SearchedTile::*operand :
             {&SearchedTile::q, &SearchedTile::k, &SearchedTile::dout, &SearchedTile::o, &SearchedTile::v})
            take_columns(places, (changed.*operand).value, (site.*operand).value);
        return;
    }
    take_columns(places, changed.p, site.p);
    take_columns(places, changed.operand_p, site.operand_p);
    for (Eigen::Index c = 0; c < site.v.value.rows(); ++c)
        if (places.contains(c)) site.v.value.row(c) = changed.v.value.row(c);
}

}  // namespace

std::vector<Candidate> in_some_terms(const Evidence& evidence, const Candidate& candidate) {
    const Stage stage = evidence.acts;
    if (is_gradient(stage) || !candidate.change.inputs || candidate.change.result) return {};
    const std::optional<Equations> equations = differences_of(evidence, candidate.change);
    if (!equations || equations->terms.isZero(0)) return {};
    const std::optional<Eigen::VectorXd> found = find_weights(*equations);
    if (!found) return {};
    const auto places = places_with({found->begin(), found->end()}, equations->terms);
    if (!places) return {};
    Candidate some = candidate;
    some.parameters.push_back({std::string(terms_name(stage)), to_string(*places)});
    some.free_parameters += places->period > 0 ? 2 : 1;
    some.change.inputs = [=, inputs = candidate.change.inputs, terms = *places](SearchedTile& site) {
        SearchedTile changed = site;
        inputs(changed);
        take_terms(stage, terms, changed, site);
    };
    return {std::move(some)};
}

}  // namespace tilescope
