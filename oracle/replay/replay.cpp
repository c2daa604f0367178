#include "oracle/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dump/schema/semantics.h"
#include "oracle/formula/accumulator.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/own_units.h"
#include "oracle/formula/row_max.h"
#include "oracle/formula/row_sum.h"
#include "oracle/formula/softmax.h"
#include "oracle/formula/vector_kernels.h"

namespace tilescope {

namespace {

std::int64_t rows_of(const HeadCall& call, std::int64_t q_block) {
    return tile_extent(call.problem, Stage::m, {0, 0, q_block, 0}).rows;
}

AccumulatorInputs accumulator_inputs(const TileInputs& in) {
    return {in.before->acc, *in.factor, *in.p_operand, *in.s, in.operands.v, in.operands.v_packed};
}

/// What a row that has seen no score yet may add up beside its keys: exp(0) for each column of padding, which
/// kernels that mask with a number mask like any other.
double padding_in_sum(const TileInputs& in, Eigen::Index row) {
    if (in.seen == nullptr || in.seen->empty() || (*in.seen)[std::size_t(row)]) return 0;
    return double(in.call.problem.block_n - in.s->value.cols());
}

Estimate with_padding(const TileInputs& in, Estimate l) {
    for (Eigen::Index i = 0; i < l.error.rows(); ++i) {
        if (const double padding = padding_in_sum(in, i); padding > 0) l.error.row(i).array() += padding;
    }
    return l;
}

/// What the maximum goes on from.
Estimate max_before(const TileInputs& in) {
    return in.call.units.m_from_lse ? carried_lse(in.call, *in.before) : in.before->m;
}

/// P as dumped, before its cast.
Estimate uncast_probabilities(const TileInputs& in) {
    Estimate p = probabilities(in.call, *in.s, *in.p_max);
    return in.p_factor != nullptr ? times_rows(std::move(p), *in.p_factor) : p;
}

/// P as dumped, after its cast.
Estimate dumped_probabilities(const HeadCall& call, std::int64_t first_key, Estimate p) {
    if (call.units.p_descale_v == DescaleInP::recorded)
        return cast_with_descale(call, first_key, std::move(p), call.units.p_cast);
    return cast_probabilities(call, std::move(p), call.units.p_cast);
}

/// What multiplies V, of P as dumped; nullopt: the same.
std::optional<Estimate> operand_of(const HeadCall& call, std::int64_t first_key, const Estimate& p) {
    const Dtype dtype = call.problem.dtype_p;
    if (call.units.p_descale_v == DescaleInP::operand) return cast_with_descale(call, first_key, p, dtype);
    if (call.units.p_cast != Dtype::f32 || dtype == Dtype::f32) return std::nullopt;
    const DumpFactor factor = dump_factor(call, Stage::p, 0, first_key, p.value.rows(), p.value.cols());
    return cast_scaled(call, p, dtype, factor, Overflow::saturate);
}

BudgetTerms own_probability_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col,
                                  const BudgetTerms& of_score) {
    if (in.p_factor == nullptr)
        return probability_terms(in.call, *in.s, *in.p_max, row, col, of_score, in.first_key);
    HeadCall uncast = in.call;
    uncast.units.p_cast = Dtype::f32;
    BudgetTerms terms = probability_terms(uncast, *in.s, *in.p_max, row, col, of_score, in.first_key);
    const double by = in.p_factor->value(row, 0);
    const double by_error = in.p_factor->error(row, 0);
    const double p = probabilities(in.call, *in.s, *in.p_max).value(row, col);
    terms.scale(by + by_error, in_formula(by) + " (over l)");
    terms.add("factor over l", fmt::format("{:.3g} * {:.3g}", p, by_error), p * by_error, "from l");
    const double in_cast =
        dump_factor(in.call, Stage::p, in.first_row + row, in.first_key + col, 1, 1).at(0, 0);
    add_cast_terms(in.call.units.p_cast, in_cast, Overflow::saturate, "cast of p to", p * by, terms);
    return terms;
}

Normalisation normalisation(const TileInputs& in) {
    return {*in.l_before, *in.l, *in.factor, in.before->acc};
}

BudgetTerms own_accumulator_terms(const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    BudgetTerms terms = accumulator_terms(in.call, accumulator_inputs(in), row, col);
    if (in.l == nullptr) return terms;
    const double acc = accumulate(in.call, accumulator_inputs(in)).value(row, col);
    return normalised_terms(in.call, acc, normalisation(in), std::move(terms), row, col);
}

/// Known numbers: the rows of what was dumped are turned into natural units with them.
Estimate exact(const Estimate& estimate) {
    return {estimate.value, Matrix::Zero(estimate.value.rows(), estimate.value.cols()), {}};
}

Estimate ones(const Estimate& like) {
    return {Matrix::Ones(like.value.rows(), 1), Matrix::Zero(like.value.rows(), 1), {}};
}

}  // namespace

Estimate settle(const Estimate& estimate, const MatrixF& dumped, const DumpFactor& factor) {
    // A mistake may have computed more than was dumped, which stays as it is.
    const bool all_dumped = estimate.value.rows() == dumped.rows() && estimate.value.cols() == dumped.cols();
    Estimate settled =
        all_dumped ? Estimate{Matrix(dumped.rows(), dumped.cols()), Matrix(dumped.rows(), dumped.cols())}
                   : estimate;
    for (Eigen::Index i = 0; i < dumped.rows(); ++i) {
        vector_kernels().settle({&dumped(i, 0), std::size_t(dumped.cols())}, &estimate.value(i, 0),
                                &estimate.error(i, 0), &settled.value(i, 0), &settled.error(i, 0));
    }
    if (factor.is_one()) return settled;
    for (Eigen::Index i = 0; i < dumped.rows(); ++i) {
        for (Eigen::Index j = 0; j < dumped.cols(); ++j)
            if (!is_unwritten(dumped(i, j))) settled.value(i, j) /= factor.at(i, j);
    }
    return settled;
}

Estimate in_dump_units(const Estimate& natural, const DumpFactor& factor) {
    Estimate there = natural;
    for (Eigen::Index i = 0; i < there.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < there.value.cols(); ++j) {
            const double by = factor.at(i, j);
            double& value = there.value(i, j);
            double& error = there.error(i, j);
            value *= by;
            if (there.spread.size() > 0) there.spread(i, j) *= std::abs(by);
            if (error != 0 || !std::isinf(value)) error *= by;
            if (std::isfinite(value)) error += std::abs(value) * u_oracle;
        }
    }
    return there;
}

Estimate expected_of(Stage stage, const TileInputs& in) {
    switch (stage) {
        case Stage::s:
            return dumped_scores(in.call, in.first_row, in.first_key, in.operands.q, in.operands.k,
                                 in.operands.score_operands);
        case Stage::m:
            return row_max(in.call, max_before(in), *in.s);
        case Stage::p:
            return dumped_probabilities(in.call, in.first_key, uncast_probabilities(in));
        case Stage::l:
            return with_padding(in, row_sum(in.call, in.before->l, *in.factor, in.p_in_l()));
        default:
            return in.l == nullptr
                       ? accumulate(in.call, accumulator_inputs(in))
                       : normalised(in.call, accumulate(in.call, accumulator_inputs(in)), normalisation(in));
    }
}

BudgetTerms terms_of(Stage stage, const TileInputs& in, Eigen::Index row, Eigen::Index col) {
    const auto of_score = [&](Eigen::Index key) {
        return finishing_terms(in.call, in.first_row, in.first_key, *in.dumped_s, row, key);
    };
    switch (stage) {
        case Stage::s:
            return dumped_score_terms(in.call, in.first_row, in.first_key, in.operands.q, in.operands.k, row,
                                      col);
        case Stage::m:
            return max_terms(in.call, max_before(in), *in.s, row, in.begins, of_score);
        case Stage::p:
            return own_probability_terms(in, row, col, of_score(col));
        case Stage::l: {
            BudgetTerms terms =
                sum_terms(in.call, in.before->l, *in.factor, in.p_in_l(),
                          in.dumps_p ? "p before its cast, not dumped" : "p, not dumped", row, col);
            if (const double padding = padding_in_sum(in, row); padding > 0)
                terms.add("masked numbers beyond the last key", in_formula(padding), padding, "masked_value");
            return terms;
        }
        default:
            return own_accumulator_terms(in, row, col);
    }
}

Replay::Replay(const HeadCall& call, std::int64_t q_block, Stage last, Source source, Formula formula)
    : call_(call), q_block_(q_block), last_(last), source_(source), formula_(std::move(formula)) {
    // The next maximum goes on from l, or P is divided by it.
    const bool needs_l =
        (call.units.m_from_lse && wants(Stage::m)) || (call.units.p_normalised && wants(Stage::p));
    if (needs_l) last_ = std::max(last_, Stage::l);
    splits_.push_back({0, false, initial(0), {}});
}

RunningState Replay::initial(std::int64_t split) const {
    return initial_state(call_, rows_of(call_, q_block_), split == 0);
}

/// Whether no tile of its split came before.
bool Replay::begin_split(std::int64_t kv_tile) {
    const std::int64_t number = call_.problem.split_of(kv_tile);
    if (number != splits_.back().number) {
        // In reverse order the first split comes last; until then it stands at the front, with its sink.
        if (number == 0) splits_.erase(splits_.begin());
        splits_.push_back({number, false, initial(number), {}});
    }
    return !std::exchange(splits_.back().has_begun, true);
}

/// Notes which rows have seen a score by now, and lets those that see their first one begin anew: what numbers
/// in place of scores left there is multiplied by 0. Hidden scores of -inf leave nothing.
void Replay::see_scores(const TileInputs& inputs) {
    if (!masks_with_number(call_.units)) return;
    Split& split = splits_.back();
    const Matrix& s = inputs.s->value;
    split.seen.resize(std::size_t(s.rows()));
    const std::vector<bool> before = split.seen;
    for (Eigen::Index i = 0; i < s.rows(); ++i) {
        const KeyRange visible = call_.visible_to(inputs.first_row + i, inputs.first_key);
        for (Eigen::Index j = 0; !split.seen[std::size_t(i)] && j < s.cols(); ++j)
            split.seen[std::size_t(i)] = visible.contains(inputs.first_key + j) && !(s(i, j) == -inf);
    }
    begin_anew(split, [&](std::size_t row) { return split.seen[row] && !before[row]; });
}

/// Puts the rows that `which` names where the split began.
void Replay::begin_anew(Split& split, const std::function<bool(std::size_t row)>& which) const {
    const RunningState nothing = initial(split.number);
    for (Eigen::Index i = 0; i < nothing.m.value.rows(); ++i) {
        if (!which(std::size_t(i))) continue;
        for (const auto member : {&RunningState::m, &RunningState::l, &RunningState::acc}) {
            (split.state.*member).value.row(i) = (nothing.*member).value.row(i);
            (split.state.*member).error.row(i) = (nothing.*member).error.row(i);
        }
    }
}

RunningState Replay::seen_state(Split split) const {
    if (!split.seen.empty()) begin_anew(split, [&](std::size_t row) { return !split.seen[row]; });
    return split.state;
}

Estimate Replay::compute(Stage stage, const TileInputs& inputs) const {
    return formula_ ? formula_(stage, inputs) : expected_of(stage, inputs);
}

const Estimate& Replay::settled(Stage stage, const TileInputs& inputs, const Estimate& estimate,
                                const DumpedTile& dumped, Estimate& room) const {
    const auto& values = of(dumped, stage);
    if (!values || source_ == Source::inputs) return estimate;
    room =
        settle(estimate, *values,
               dump_factor(call_, stage, inputs.first_row, inputs.first_key, values->rows(), values->cols()));
    return room;
}

Estimate Replay::settled_max(const TileInputs& inputs, const Estimate& estimate,
                             const DumpedTile& dumped) const {
    const double threshold = call_.units.m_stale_threshold;
    Estimate m;
    if (source_ == Source::stages || threshold == 0) return settled(Stage::m, inputs, estimate, dumped, m);
    m = estimate;
    const auto& values = of(dumped, Stage::m);
    const DumpFactor factor =
        dump_factor(call_, Stage::m, inputs.first_row, inputs.first_key, estimate.value.rows(), 1);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        if (!std::isfinite(m.value(i, 0))) continue;
        const double chosen = values ? double((*values)(i, 0)) / factor.at(i, 0) : 0;
        // The kernel's m is rounded, which is in the error only where there are bounds.
        const double slack = gamma(8, u_f32) * (std::abs(m.value(i, 0)) + m.error(i, 0));
        const bool legal = values && std::abs(chosen - m.value(i, 0)) <= m.error(i, 0) + slack;
        m.value(i, 0) = legal ? chosen : m.value(i, 0) + m.error(i, 0);
        m.error(i, 0) = 0;
    }
    return m;
}

TileEstimates Replay::step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped) {
    TileInputs inputs{call_, kv_tile, q_block_ * call_.problem.block_m, kv_tile * call_.problem.block_n,
                      operands};
    inputs.begins = begin_split(kv_tile);
    inputs.dumps_p = of(dumped, Stage::p).has_value();
    RunningState& state = splits_.back().state;
    inputs.before = &state;

    TileEstimates tile;
    tile.s = operands.scores == nullptr ? compute(Stage::s, inputs)
             : call_.bounds             ? Estimate{operands.scores->value, operands.scores->error}
                                        : exact(*operands.scores);
    if (!wants(Stage::m)) return tile;

    Estimate room;
    const Estimate& dumped_s = settled(Stage::s, inputs, tile.s, dumped, room);
    inputs.dumped_s = &dumped_s;
    Estimate s = finish_scores(call_, inputs.first_row, inputs.first_key, dumped_s);
    inputs.s = &s;
    see_scores(inputs);
    inputs.seen = &splits_.back().seen;
    tile.m = compute(Stage::m, inputs);
    Estimate m = settled_max(inputs, tile.m, dumped);
    inputs.m = &m;
    if (const auto& seen = splits_.back().seen; !seen.empty())
        hide_masked(call_, inputs.first_row, inputs.first_key, seen, s);
    if (wants(Stage::p)) step_softmax(inputs, dumped, tile);
    state.m = std::move(m);
    return tile;
}

void Replay::step_softmax(TileInputs& inputs, const DumpedTile& dumped, TileEstimates& tile) {
    // P before its cast is what l adds up, P after it is what multiplies V; the dump holds one of the two.
    const Units& units = call_.units;
    const bool dumped_uncast =
        units.p_cast == Dtype::f32 && !units.p_normalised && units.p_descale_v != DescaleInP::recorded;
    Estimate factor = rescale_factor(call_, inputs.before->m, *inputs.m);
    if (units.m_from_lse) add_carried_error(call_, *inputs.before, factor);
    inputs.factor = &factor;
    // From the units of P to natural ones: exp(maximum of the tile - m), and l.
    Estimate own_max;
    Estimate to_natural;
    inputs.p_max = inputs.m;
    if (units.p_of_tile_max) {
        own_max = tile_max(call_, *inputs.s);
        inputs.p_max = &own_max;
        to_natural = rescale_factor(call_, own_max, *inputs.m);
    }
    const auto natural = [&](Estimate p) {
        return units.p_of_tile_max ? times_rows(std::move(p), to_natural) : p;
    };
    Estimate computed;
    Estimate p_factor;
    Estimate l_of_p;
    if (units.p_normalised) {
        computed = natural(probabilities(call_, *inputs.s, *inputs.p_max));
        l_of_p = whole_sum(call_, row_sum(call_, inputs.before->l, factor, computed));
        p_factor = over_sum(units.p_of_tile_max ? to_natural : ones(l_of_p), l_of_p);
        inputs.p_factor = &p_factor;
    }
    if (formula_ || units.p_normalised) {
        tile.p = compute(Stage::p, inputs);
        if (!dumped_uncast && !units.p_normalised && wants(Stage::l))
            computed = natural(probabilities(call_, *inputs.s, *inputs.p_max));
    } else {
        Estimate p = probabilities(call_, *inputs.s, *inputs.p_max);
        if (dumped_uncast) {
            tile.p = std::move(p);
        } else {
            tile.p = dumped_probabilities(call_, inputs.first_key, p);
            computed = natural(std::move(p));
        }
    }
    if (!wants(Stage::l)) return;
    const auto natural_of_dump = [&](const Estimate& p) {
        return units.p_normalised ? times_rows(p, exact(l_of_p)) : natural(p);
    };
    const bool own = units.p_normalised || units.p_of_tile_max;
    Estimate p_room;
    const Estimate& dumped_p = settled(Stage::p, inputs, tile.p, dumped, p_room);
    const std::optional<Estimate> cast_room = operand_of(call_, inputs.first_key, dumped_p);
    const Estimate& operand = cast_room ? *cast_room : dumped_p;
    Estimate p_natural;
    Estimate operand_natural;
    if (own) p_natural = natural_of_dump(dumped_p);
    if (own) operand_natural = natural_of_dump(operand);
    inputs.p = !dumped_uncast ? &computed : own ? &p_natural : &dumped_p;
    inputs.p_operand = own ? &operand_natural : &operand;
    step_sums(inputs, dumped, tile);
}

void Replay::step_sums(TileInputs& inputs, const DumpedTile& dumped, TileEstimates& tile) {
    RunningState& state = splits_.back().state;
    tile.l = compute(Stage::l, inputs);
    Estimate l_room;
    Estimate l = settled(Stage::l, inputs, tile.l, dumped, l_room);
    if (wants(Stage::acc)) {
        Estimate whole_before;
        Estimate whole;
        if (call_.units.acc_normalised) {
            whole_before = whole_sum(call_, state.l);
            whole = whole_sum(call_, l);
            inputs.l_before = &whole_before;
            inputs.l = &whole;
        }
        tile.acc = compute(Stage::acc, inputs);
        Estimate acc_room;
        const Estimate& acc = settled(Stage::acc, inputs, tile.acc, dumped, acc_room);
        if (call_.units.acc_normalised) {
            state.acc = times_rows(acc, exact(whole));
        } else if (&acc == &acc_room) {
            state.acc = std::move(acc_room);
        } else {
            state.acc = acc;
        }
    }
    state.l = std::move(l);
}

std::vector<RunningState> Replay::begun_splits() const {
    std::vector<RunningState> states;
    for (const Split& split : splits_) states.push_back(seen_state(split));
    return states;
}

std::vector<RunningState> Replay::all_splits() const {
    std::vector<RunningState> states;
    for (std::int64_t number = 0; number < call_.problem.splits(); ++number) {
        const auto begun = std::ranges::find(splits_, number, &Split::number);
        states.push_back(begun != splits_.end() ? seen_state(*begun) : initial(number));
    }
    return states;
}

Estimate Replay::output() const {
    return tilescope::output(call_, whole_state(call_, begun_splits()));
}

Estimate Replay::log_sum_exp() const {
    return tilescope::log_sum_exp(call_, whole_state(call_, begun_splits()));
}

}  // namespace tilescope
