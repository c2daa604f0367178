#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "oracle/causes/element_places.h"
#include "oracle/causes/left_in_memory.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

/// The number that a wrong element began with, in the kernel's own units.
struct FirstNumber {
    const Observation* seen = nullptr;
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    double value = 0;
    double error = 0;
};

/// Whether the elements of the stage begin anew in this tile.
bool begins_in(Stage stage, const SearchedTile& site) {
    return stage == Stage::s || stage == Stage::dp || site.begins;
}

/// What turns the kernel's own number into natural units.
double unit_of(Stage stage, const SearchedTile& site) {
    if (stage != Stage::m) return kernel_unit(stage, site);
    return 1 / dump_factor(*site.call, stage, site.first_row, site.first_key, 1, 1).at(0, 0);
}

std::vector<FirstNumber> first_numbers(const Evidence& evidence) {
    std::vector<FirstNumber> numbers;
    const Stage stage = evidence.acts;
    for (const WrongSum& one : wrong_sums(evidence, 4096)) {
        if (!begins_in(stage, one.seen->site) || !std::isfinite(one.sum.got)) continue;
        const double unit = unit_of(stage, one.seen->site);
        // A maximum is what it began with, or a score.
        double healthy = stage == Stage::m ? 0 : one.sum.carried;
        for (const double term : one.sum.terms) healthy += term;
        numbers.push_back({one.seen, one.row, one.col, (one.sum.got - healthy) / unit,
                           one.sum.error / unit + 1e-6 * std::abs(one.sum.got / unit)});
    }
    return numbers;
}

/// A first number for each rest of a coordinate.
struct FirstByPlace {
    ElementPlace place = ElementPlace::row;
    std::int64_t period = 1;
    std::vector<double> values{};
    std::vector<bool> known{};

    /// Few enough, and simple enough, to be what somebody wrote.
    bool is_short() const {
        return period <= 4 &&
               std::ranges::all_of(values, [](double x) { return std::round(4 * x) == 4 * x; });
    }
    /// The rest itself is the number.
    bool counts() const {
        for (std::size_t i = 0; i < values.size(); ++i)
            if (known[i] && values[i] != double(i)) return false;
        return true;
    }
};

/// Nullopt where the elements of a rest began with different numbers.
std::optional<FirstByPlace> first_by(Stage stage, const std::vector<FirstNumber>& numbers, ElementPlace place,
                                     std::int64_t period) {
    FirstByPlace first{place, period, std::vector<double>(std::size_t(period), 0),
                       std::vector<bool>(std::size_t(period), false)};
    std::map<std::int64_t, std::vector<FirstNumber>> of_rest;
    for (const FirstNumber& one : numbers)
        of_rest[place_of(place, one.seen->site, stage, one.row, one.col) % period].push_back(one);
    for (const auto& [rest, members] : of_rest) {
        std::vector<double> values;
        double least_error = infinity;
        for (const FirstNumber& one : members) {
            values.push_back(one.value);
            least_error = std::min(least_error, one.error);
        }
        const double value = simple_number(median_of(values), std::max(1e-5, 4 * least_error));
        const auto is_other = [&](const FirstNumber& one) {
            return !(std::abs(one.value - value) <= 3 * one.error);
        };
        if (std::ranges::count_if(members, is_other) * 100 > std::ssize(members)) return std::nullopt;
        first.values[std::size_t(rest)] = value;
        first.known[std::size_t(rest)] = true;
    }
    return first;
}

/// Sums begin with more; a maximum is at least that. `number` is natural, NaN: nothing changes.
Change begins_with(Stage stage, std::function<void(const SearchedTile&, Matrix&)> numbers) {
    if (stage != Stage::m)
        return adds_to_sums(stage, [=](const SearchedTile& site, Matrix& more) {
            if (begins_in(stage, site)) numbers(site, more);
        });
    return {.result = [=](const SearchedTile& site, Estimate& m) {
        if (!site.begins) return;
        Matrix first = Matrix::Constant(m.value.rows(), m.value.cols(), -infinity);
        numbers(site, first);
        for (Eigen::Index i = 0; i < first.size(); ++i) {
            if (!(first.data()[i] > m.value.data()[i])) continue;
            m.value.data()[i] = first.data()[i];
            m.error.data()[i] = 4 * u_f32 * std::abs(first.data()[i]);
        }
    }};
}

Candidate candidate_with(const Evidence& evidence, const FirstByPlace& first) {
    const auto fill = [=, stage = evidence.acts](const SearchedTile& site, Matrix& numbers) {
        const double unit = unit_of(stage, site);
        for (Eigen::Index i = 0; i < numbers.rows(); ++i) {
            for (Eigen::Index j = 0; j < numbers.cols(); ++j) {
                const auto rest = std::size_t(place_of(first.place, site, stage, i, j) % first.period);
                if (first.known[rest]) numbers(i, j) = first.values[rest] * unit;
            }
        }
    };
    std::string text = digits(first.values[0]);
    int free = 2;
    if (first.period > 1) {
        const std::string rest = fmt::format("{} % {}", place_name(first.place, evidence.acts), first.period);
        std::vector<std::string> values;
        for (const double value : first.values) values.push_back(digits(value));
        free = first.counts() ? 2 : 2 + int(first.period);
        text = first.counts() ? rest : fmt::format("{} by {}", fmt::join(values, ", "), rest);
    }
    return {{{"value", text}}, begins_with(evidence.acts, fill), free, free > 3 ? free : 0};
}

std::vector<Candidate> starts_at(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::vector<FirstNumber> numbers = first_numbers(evidence);
    if (numbers.size() < 4) return candidates;
    if (const auto first = first_by(evidence.acts, numbers, ElementPlace::row, 1)) {
        candidates.push_back(candidate_with(evidence, *first));
        return candidates;
    }
    for (const ElementPlace place : places_of_elements(evidence.acts)) {
        std::optional<FirstByPlace> best;
        for (const std::int64_t period : {2, 3, 4, 8, 16}) {
            std::optional<FirstByPlace> first = first_by(evidence.acts, numbers, place, period);
            if (first && (!best || first->counts())) best = std::move(first);
            if (best && best->counts()) break;
        }
        if (best && (best->counts() || best->is_short()))
            candidates.push_back(candidate_with(evidence, *best));
    }
    return candidates;
}

// ---- what was there before

/// Whether all that is wrong is -inf: a mask leaves that, and nothing says that it was left before.
bool are_all_hidden(const Evidence& evidence) {
    for (const Observation& seen : evidence.seen)
        for (Eigen::Index i = 0; i < seen.got.size(); ++i)
            if (seen.wrong[std::size_t(i)] && seen.got.data()[i] != -infinity) return false;
    return true;
}

/// What zero queries make of a score that begins with what was left: only that is in its sum.
void add_nothing(const SearchedTile& tile, MatrixF& left) {
    left *= float(unit_of(Stage::s, tile));
    if (!finish_phantom_scores(tile, left)) left.setConstant(float(quiet_nan));
}

/// What zero queries make of a maximum.
void raise_maxima(const SearchedTile& tile, MatrixF& left) {
    MatrixF scores = MatrixF::Zero(left.rows(), tile.call->problem.block_n);
    if (!finish_phantom_scores(tile, scores)) return left.setConstant(float(quiet_nan)), void();
    SearchedTile with_scores = tile;
    const double unit = dump_factor(*tile.call, Stage::s, tile.first_row, tile.first_key, 1, 1).scalar;
    with_scores.dumped_s = zeros(left.rows(), tile.keys());
    with_scores.dumped_s.value = scores.leftCols(tile.keys()).cast<double>() / unit;
    const Matrix s = finished_scores(with_scores).value;
    for (Eigen::Index i = 0; i < left.rows(); ++i) {
        const double before = double(left(i, 0)) * unit_of(Stage::m, tile);
        const double most = s.row(i).maxCoeff();
        if (most > before + tile.call->units.m_stale_threshold)
            left(i, 0) = float(most / unit_of(Stage::m, tile));
    }
}

/// Rows behind the last query are computed with the mistake or, where it is not everywhere, may be right.
std::vector<PhantomPass> passes_of(Stage stage) {
    if (stage == Stage::s) return {add_nothing, forget_phantoms};
    if (stage == Stage::m) return {raise_maxima, forget_phantoms};
    return {forget_phantoms};
}

/// Of sums and maxima that begin with what is not known nothing is known, but where the mask hides them.
Change begins_with_left(Stage stage, const PhantomPass& pass) {
    const auto fill = [=](const SearchedTile& site, Matrix& numbers) {
        const MatrixF left = left_in_rows(stage, site, pass);
        numbers = unit_of(stage, site) * left.topLeftCorner(numbers.rows(), numbers.cols()).cast<double>();
    };
    Change change = begins_with(stage, fill);
    change.takes_memory = true;
    change.result = [=, begins = change.result](const SearchedTile& site, Estimate& result) {
        begins(site, result);
        if (!begins_in(stage, site)) return;
        Matrix left = Matrix::Zero(result.value.rows(), result.value.cols());
        fill(site, left);
        for (Eigen::Index i = 0; i < left.size(); ++i)
            if (std::isnan(left.data()[i]) && (stage == Stage::m || std::isnan(result.value.data()[i])))
                result.error.data()[i] = infinity;
    };
    return change;
}

/// What was left of a gradient is known as it was stored.
Change gradient_begins_with_left(Stage stage) {
    const auto fill = [=](const SearchedTile& site, Matrix& numbers) {
        const std::vector<MatrixF> tiles = left_in_memory(stage, site, 1);
        if (tiles.empty()) return;
        const Eigen::Index rows = std::min(numbers.rows(), tiles.front().rows());
        numbers.topRows(rows) = tiles.front().topRows(rows).cast<double>();
    };
    Change change = begins_with(stage, fill);
    change.result = [=, adds = change.result](const SearchedTile& site, Estimate& gradient) {
        adds(site, gradient);
        Matrix left = Matrix::Zero(gradient.value.rows(), gradient.value.cols());
        fill(site, left);
        const Dtype dtype = stage_dtype(site.call->problem, stage);
        gradient.error += left.unaryExpr([=](double x) { return cast_bound(dtype, std::abs(x)); });
    };
    return change;
}

/// Of blocks that compute several query blocks, one of every few: the maximum goes on. Before the first of them it is set.
void add_persistent_maxima(std::vector<Candidate>& candidates) {
    constexpr std::int64_t most_blocks = 16;
    for (std::int64_t behind = 2; behind <= most_blocks; ++behind) {
        const auto fill = [=](const SearchedTile& site, Matrix& numbers) {
            const std::optional<MatrixF> left = left_by_block(Stage::m, site, behind);
            if (!left) return;
            const Eigen::Index rows = std::min(numbers.rows(), left->rows());
            numbers.topRows(rows) = unit_of(Stage::m, site) * left->topRows(rows).cast<double>();
        };
        candidates.push_back({{{"value", fmt::format("the state after the query block {} before", behind)}},
                              begins_with(Stage::m, fill),
                              1});
    }
}

std::vector<Candidate> starts_with_what_was_left(const Evidence& evidence) {
    if (!evidence.direct() || !evidence.known.empty() || are_all_hidden(evidence)) return {};
    const Stage stage = evidence.acts;
    const char* of = stage == Stage::s          ? "the score of the tile before"
                     : is_of_all_queries(stage) ? "the sum of the KV head before"
                                                : "the state after the query block before";
    const std::vector<CauseParameter> parameters = {{"value", of}};
    if (is_gradient(stage)) return {{parameters, gradient_begins_with_left(stage)}};
    std::vector<Candidate> candidates;
    for (const PhantomPass& pass : passes_of(stage))
        candidates.push_back({parameters, begins_with_left(stage, pass)});
    if (stage == Stage::m) add_persistent_maxima(candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_start_causes() {
    const std::vector<Stage> kept = {Stage::s,  Stage::m,  Stage::l, Stage::acc,
                                     Stage::dq, Stage::dk, Stage::dv};
    std::vector<Stage> sums = kept;
    sums.push_back(Stage::dp);
    return {
        {"starts_at", "recurrence", sums, "sums or maxima start at another number than they should",
         "the initial value; the number is in the kernel's own units, before scales", starts_at},
        {"starts_with_what_was_left", "unwritten / stale", kept,
         "sums or maxima start with what was computed before in the same place",
         "where accumulators and the running state are set anew", starts_with_what_was_left},
    };
}

}  // namespace tilescope
