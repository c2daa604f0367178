#include "oracle/causes/variables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "oracle/causes/bare_scores.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/scores.h"

namespace tilescope {

namespace {

Estimate& scores_in(SearchedTile& site) {
    take_finished_scores(site);
    return site.dumped_s;
}
Estimate& scaled_in(SearchedTile& site) {
    return site.scaled;
}
Estimate& m_before_in(SearchedTile& site) {
    return site.before.m;
}
/// Another number may leave more above it than a maximum.
Estimate& m_in(SearchedTile& site) {
    site.own_call().units.m_stale_threshold = infinity;
    return site.m;
}
Estimate& factor_in(SearchedTile& site) {
    return site.factor;
}
Estimate& p_in(SearchedTile& site) {
    return site.p;
}
Estimate& p_summed_in(SearchedTile& site) {
    return p_added_up(site);
}
Estimate& p_operand_in(SearchedTile& site) {
    return site.operand_p;
}
Estimate& l_before_in(SearchedTile& site) {
    return site.l_before.value.size() > 0 ? site.l_before : site.before.l;
}
Estimate& acc_before_in(SearchedTile& site) {
    return site.before.acc;
}
Estimate& dp_in(SearchedTile& site) {
    return site.dp;
}
Estimate& delta_in(SearchedTile& site) {
    return site.delta;
}

double& sm_scale_in(HeadCall& call) {
    return call.problem.sm_scale;
}
double& alibi_slope_in(HeadCall& call) {
    return call.alibi_slope;
}
double& alibi_shift_in(HeadCall& call) {
    return call.alibi_shift;
}
double& sink_in(HeadCall& call) {
    return call.sink;
}

// ---- what is computed of others

Estimate scores_of_operands(const SearchedTile& site) {
    return site.scaled.value.size() > 0 ? site.scaled : scaled_scores(*site.call, site.q, site.k);
}
Estimate capped_scores(const SearchedTile& site) {
    const bool is_capped = site.call->capped() && site.call->units.s_capped;
    return is_capped ? cap_scores(*site.call, scores_of_operands(site)) : scores_of_operands(site);
}
Estimate bias_of_scores(const SearchedTile& site) {
    return add_bias(*site.call, site.first_row, site.first_key, zeros(site.rows(), site.keys()));
}
Estimate units_of_scores(const SearchedTile& site) {
    Estimate units = zeros(site.rows(), site.keys());
    for (Eigen::Index i = 0; i < units.value.rows(); ++i)
        for (Eigen::Index j = 0; j < units.value.cols(); ++j)
            units.value(i, j) = unit_of(*site.call, site.first_row + i, site.first_key + j);
    return units;
}
/// Of a row without a maximum nothing is subtracted.
Matrix subtracted(const SearchedTile& site) {
    return site.m.value.unaryExpr([](double x) { return x == -infinity ? 0 : x; });
}
Estimate arguments(const SearchedTile& site) {
    Estimate s = finished_scores(site);
    s.value -= subtracted(site).replicate(1, s.value.cols());
    return s;
}

Estimate hidden_scores(const SearchedTile& site) {
    const Matrix s = finished_scores(site).value;
    return {s.unaryExpr([](double x) { return x == -infinity ? 1.0 : 0.0; }),
            Matrix::Zero(s.rows(), s.cols())};
}

Estimate maximum_of_tile(const SearchedTile& site) {
    const Estimate s = finished_scores(site);
    Estimate most = zeros(s.value.rows(), 1);
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        Eigen::Index at = 0;
        most.value(i, 0) = s.value.cols() > 0 ? s.value.row(i).maxCoeff(&at) : -infinity;
        if (std::isfinite(most.value(i, 0))) most.error(i, 0) = s.error(i, at);
    }
    return most;
}

Estimate logarithms_of_factors(const SearchedTile& site) {
    return evaluated(log(Expr(var::factor)), site, site.rows(), 1);
}

/// Zeros beyond the tile before.
Estimate p_of_tile_before(const SearchedTile& site) {
    const Estimate& before = site.p_of_tile_before;
    Estimate p = zeros(site.rows(), site.keys());
    const Eigen::Index rows = std::min(p.value.rows(), before.value.rows());
    const Eigen::Index cols = std::min(p.value.cols(), before.value.cols());
    p.value.topLeftCorner(rows, cols) = before.value.topLeftCorner(rows, cols);
    p.error.topLeftCorner(rows, cols) = before.error.topLeftCorner(rows, cols);
    return p;
}

Estimate maximum_of_row(const SearchedTile& site) {
    return site.splits.empty() ? site.m : whole_state(site).m;
}
Estimate sum_of_row(const SearchedTile& site) {
    return site.splits.empty() ? site.l : whole_state(site).l;
}

/// What l or acc adds in this tile.
Estimate added_by_tile(const SearchedTile& site) {
    const Stage stage = site.v.value.size() > 0 ? Stage::acc : Stage::l;
    const Eigen::Index cols = stage == Stage::acc ? site.v.value.cols() : site.before.l.value.cols();
    Estimate sum = zeros(site.rows(), cols);
    std::vector<double> terms;
    for (Eigen::Index i = 0; i < sum.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            fill_terms(stage, site, i, j, terms);
            sum.value(i, j) = std::accumulate(terms.begin(), terms.end(), 0.0);
        }
    }
    return sum;
}

/// The derivative of the soft cap where ds has it; 1 elsewhere.
Estimate slope_of_cap(const SearchedTile& site) {
    const HeadCall& call = *site.call;
    if (call.capped() && call.units.ds_capped)
        return cap_derivative(call, site.first_row, site.first_key, site.dumped_s);
    return {Matrix::Ones(1, 1), Matrix::Zero(1, 1)};
}

Estimate divisors(const SearchedTile& site) {
    Estimate of_splits = zeros(site.rows(), std::ssize(site.splits));
    for (std::size_t z = 0; z < site.splits.size(); ++z)
        of_splits.value.col(Eigen::Index(z)) = site.splits[z].l.value.col(0);
    return of_splits;
}

// ---- what it takes to put it there

/// From here on the score is what it was capped to.
void put_capped(SearchedTile& site, Estimate capped) {
    site.own_call().problem.logits_soft_cap = 0;
    site.scaled = std::move(capped);
}
void put_bias(SearchedTile& site, Estimate bias) {
    Estimate sum = capped_scores(site);
    sum.value += bias.value;
    sum.error += bias.error + 2 * u_f32 * (sum.value.cwiseAbs() + bias.value.cwiseAbs());
    HeadCall& call = site.own_call();
    call.problem.alibi = Alibi::none;
    call.read_bias = nullptr;
    put_capped(site, std::move(sum));
}

void put_argument(SearchedTile& site, Estimate argument) {
    const Matrix m = subtracted(site).replicate(1, argument.value.cols());
    const Matrix rounding = 4 * u_f32 * (argument.value.cwiseAbs() + m.cwiseAbs());
    Estimate& s = scores_in(site);
    m_in(site).value = m.leftCols(1);
    s.value = argument.value + m;
    s.error = s.value.array().isFinite().select((argument.error + rounding).array(), 0.0);
}

void put_logarithm(SearchedTile& site, Estimate x) {
    for (Eigen::Index i = 0; i < x.value.size(); ++i) {
        const Uncertain factor = exponential({x.value.data()[i], x.error.data()[i]});
        site.factor.value(i, 0) = factor.value;
        site.factor.error(i, 0) = factor.error;
    }
}

/// In the units of the kernel it is rounded.
void start_from(SearchedTile& site, Estimate m) {
    if (!site.begins) return;
    site.before.m.value = m.value;
    site.before.m.error =
        m.value.unaryExpr([](double x) { return std::isfinite(x) ? 4 * u_f32 * std::abs(x) : 0; });
}

/// The divisor of a row, where the splits have come together. A row that saw no key is not divided.
void divide_by(SearchedTile& site, Estimate l) {
    RunningState whole = whole_state(site);
    for (Eigen::Index i = 0; i < whole.l.value.rows(); ++i) {
        if (whole.l.value(i, 0) == 0) continue;
        whole.l.value(i, 0) = l.value(i, 0);
        whole.l.error(i, 0) = l.error(i, 0);
    }
    HeadCall& call = site.own_call();
    call.problem.kv_tiles_per_split = 0;
    call.problem.split_starts.clear();
    call.problem.l_lanes = 1;
    site.splits = {std::move(whole)};
}

/// The same in each split, before they are weighted.
void divide_splits_by(SearchedTile& site, Estimate divisor) {
    for (std::size_t z = 0; z < site.splits.size(); ++z) {
        RunningState& split = site.splits[z];
        for (Eigen::Index i = 0; i < split.l.value.rows(); ++i) {
            const double l = split.l.value(i, 0);
            if (l == 0) continue;
            const double by = l / divisor.value(i, Eigen::Index(z));
            split.acc.value.row(i) *= by;
            split.acc.error.row(i) =
                split.acc.error.row(i) * by + 4 * u_f32 * split.acc.value.row(i).cwiseAbs();
        }
    }
}

/// Where a variable is.
struct Kept {
    Estimate& (*in)(SearchedTile&) = nullptr;
    double& (*in_call)(HeadCall&) = nullptr;
    Estimate (*computed)(const SearchedTile&) = nullptr;
    void (*put)(SearchedTile&, Estimate) = nullptr;  ///< where that is more than to put it in its place
};

constexpr std::array<Kept, variable_count> make_kept() {
    std::array<Kept, variable_count> all{};
    const auto of = [&](Variable variable) -> Kept& { return all[variable.number]; };
    of(var::s) = {.in = scores_in, .computed = finished_scores};
    of(var::hidden).computed = hidden_scores;
    of(var::scaled) = {.in = scaled_in, .computed = scores_of_operands};
    of(var::capped) = {.computed = capped_scores, .put = put_capped};
    of(var::bias) = {.computed = bias_of_scores, .put = put_bias};
    of(var::score_unit).computed = units_of_scores;
    of(var::argument) = {.computed = arguments, .put = put_argument};
    of(var::m_before).in = of(var::m_start).in = m_before_in;
    of(var::m_start).put = start_from;
    of(var::m) = {.in = m_in, .computed = maximum_of_row};
    of(var::m_tile).computed = maximum_of_tile;
    of(var::factor).in = factor_in;
    of(var::log_factor) = {.computed = logarithms_of_factors, .put = put_logarithm};
    of(var::p).in = p_in;
    of(var::p_before).computed = p_of_tile_before;
    of(var::p_summed).in = p_summed_in;
    of(var::p_operand).in = p_operand_in;
    of(var::sum).computed = added_by_tile;
    of(var::l_before).in = l_before_in;
    of(var::l) = {.computed = sum_of_row, .put = divide_by};
    of(var::acc_before).in = acc_before_in;
    of(var::divisor) = {.computed = divisors, .put = divide_splits_by};
    of(var::dp).in = dp_in;
    of(var::delta).in = delta_in;
    of(var::cap_slope).computed = slope_of_cap;
    of(var::sm_scale).in_call = sm_scale_in;
    of(var::alibi_slope).in_call = alibi_slope_in;
    of(var::alibi_shift).in_call = alibi_shift_in;
    of(var::sink).in_call = sink_in;
    return all;
}
constexpr std::array<Kept, variable_count> kept = make_kept();

const Kept& place_of(Variable variable) {
    return kept[variable.number];
}

/// lse - m of the row; a sink that joins in the end is in it.
Estimate logarithm_of_sum(const SearchedTile& site, const Estimate& sums) {
    const Matrix m = maximum_of_row(site).value;
    return {sums.value - m, sums.error + u_f32 * (sums.value.cwiseAbs() + m.cwiseAbs())};
}

/// What lse says of a row that saw no key stays.
void rewrite_result(const Expr& becomes, const SearchedTile& site, Estimate& result) {
    const Estimate changed = evaluated(becomes, site, result.value.rows(), result.value.cols(), &result);
    const bool is_of_state = !site.splits.empty() && (becomes.takes(var::log_l) || becomes.takes(var::m));
    const Matrix m = is_of_state ? maximum_of_row(site).value : Matrix();
    for (Eigen::Index i = 0; i < result.value.rows(); ++i) {
        if (is_of_state && !(std::isfinite(result.value(i, 0)) && std::isfinite(m(i, 0)))) continue;
        result.value.row(i) = changed.value.row(i);
        result.error.row(i) = changed.error.row(i);
    }
}

}  // namespace

void put(Variable variable, Estimate numbers, SearchedTile& site) {
    const Kept& place = place_of(variable);
    if (place.put) return place.put(site, std::move(numbers));
    if (place.in_call) {
        place.in_call(site.own_call()) = numbers.value(0, 0);
        return;
    }
    Estimate& own = place.in(site);
    own.value = std::move(numbers.value);
    own.error = std::move(numbers.error);
}

Estimate numbers_of(Variable variable, const SearchedTile& site, const Estimate* result) {
    if (variable == var::result) return *result;
    if (variable == var::log_l) return logarithm_of_sum(site, *result);
    const Kept& place = place_of(variable);
    if (place.computed) return place.computed(site);
    // Nothing but the reference is asked for.
    if (!place.in_call) return place.in(const_cast<SearchedTile&>(site));
    Estimate number = zeros(1, 1);
    number.value(0, 0) = place.in_call(const_cast<HeadCall&>(*site.call));
    return number;
}

TileVariables::TileVariables(std::span<const Expr> expressions, const SearchedTile& site,
                             const Estimate* result) {
    for (std::uint8_t v = 0; v < variable_count; ++v)
        if (std::ranges::any_of(expressions, [=](const Expr& expr) { return expr.takes(Variable{v}); }))
            taken_.emplace_back(Variable{v}, numbers_of({v}, site, result));
}

const Variables& TileVariables::at(Eigen::Index row, Eigen::Index col) {
    for (const auto& [variable, numbers] : taken_) {
        const Eigen::Index i = numbers.value.rows() > 1 ? row : 0;
        const Eigen::Index j = numbers.value.cols() > 1 ? col : 0;
        variables_[variable] = {numbers.value(i, j), numbers.error(i, j)};
    }
    return variables_;
}

Estimate evaluated(const Expr& expr, const SearchedTile& site, Eigen::Index rows, Eigen::Index cols,
                   const Estimate* result) {
    TileVariables variables(std::span(&expr, 1), site, result);
    Estimate all = zeros(rows, cols);
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const Uncertain number = expr.of(variables.at(i, j));
            all.value(i, j) = number.value;
            all.error(i, j) = number.error;
        }
    }
    return all;
}

void rewrite_inputs(std::span<const Rewrite> rewrites, SearchedTile& site) {
    std::vector<Estimate> becomes;
    for (const Rewrite& rewrite : rewrites) {
        if (rewrite.variable == var::result) continue;
        const Matrix own = numbers_of(rewrite.variable, site).value;
        becomes.push_back(evaluated(rewrite.becomes, site, own.rows(), own.cols()));
    }
    std::size_t at = 0;
    for (const Rewrite& rewrite : rewrites)
        if (rewrite.variable != var::result) put(rewrite.variable, std::move(becomes[at++]), site);
}

Change rewritten(std::vector<Rewrite> rewrites) {
    Change change;
    const auto result = std::ranges::find(rewrites, var::result, &Rewrite::variable);
    if (result != rewrites.end())
        change.result = [becomes = result->becomes](const SearchedTile& site, Estimate& estimate) {
            rewrite_result(becomes, site, estimate);
        };
    if (result == rewrites.end() || rewrites.size() > 1)
        change.inputs = [rewrites](SearchedTile& site) { rewrite_inputs(rewrites, site); };
    change.rewrites = std::move(rewrites);
    return change;
}

}  // namespace tilescope
