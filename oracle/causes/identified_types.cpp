// Numbers that were rounded to a type or a step on their way, which the numbers that are there show, or the
// sums that are made of them.

#include <algorithm>
#include <cmath>
#include <string_view>

#include "oracle/causes/curves.h"
#include "oracle/causes/signature.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// The step that all wrong numbers are multiples of, up to 255 of them.
double common_step(const Evidence& evidence, bool natural) {
    double least = infinity;
    double most = 0;
    std::vector<double> values;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const double unit = natural ? seen.factor.at(i / seen.got.cols(), i % seen.got.cols()) : 1;
            const double got = std::abs(double(seen.got.data()[i]) / unit);
            if (!seen.wrong[std::size_t(i)] || !std::isfinite(got) || !thinned.takes(true)) continue;
            values.push_back(got);
            if (got > 0) least = std::min(least, got);
            most = std::max(most, got);
        }
    }
    if (values.size() < 16 || most == 0) return 0;
    for (int parts = 1; parts <= 127; ++parts) {
        const double step = least / parts;
        if (most > 255.5 * step) return 0;
        const bool all = std::ranges::all_of(values, [&](double value) {
            return std::abs(value / step - std::round(value / step)) <= 1e-5 * (1 + value / step);
        });
        if (all) return step;
    }
    return 0;
}

/// A number whose product with `unit` is rounded to multiples of a step, at most `most` of them.
void round_to_step(double step, double most, double unit, double& value, double& error) {
    if (!std::isfinite(value)) return;
    const auto rounded = [=](double x) { return std::clamp(std::nearbyint(x / step), -most, most) * step; };
    const double off = error * std::abs(unit) + 1e-6 * step;
    const double low = rounded(value * unit - off);
    const double high = rounded(value * unit + off);
    value = 0.5 * (low + high) / unit;
    error = (0.5 * (high - low) + 2 * u_f32 * std::abs(high)) / std::abs(unit);
}

/// The same of the stage's result.
Change rounds_to_step(Stage stage, bool natural, double step, double most) {
    return {.result =
                [=](const SearchedTile& site, Estimate& e) {
                    const DumpFactor factor =
                        is_operand(stage) || natural
                            ? DumpFactor()
                            : dump_factor(*site.call, stage, site.first_row, site.first_key, e.value.rows(),
                                          e.value.cols());
                    for (Eigen::Index i = 0; i < e.value.rows(); ++i)
                        for (Eigen::Index j = 0; j < e.value.cols(); ++j)
                            round_to_step(step, most, factor.at(i, j), e.value(i, j), e.error(i, j));
                },
            .widens = true};
}

std::vector<Candidate> rounded_to_step(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return {};
    for (const bool natural : {false, true}) {
        const double step = common_step(evidence, natural);
        if (step == 0) continue;
        const bool is_whole = std::abs(1 / step - std::round(1 / step)) <= 1e-5 / step;
        const double rounded = is_whole ? 1 / std::round(1 / step) : step;
        std::vector<CauseParameter> parameters = {
            {"type", "int8"}, {"step", is_whole ? "1/" + digits(1 / rounded) : digits(step)}};
        if (natural) parameters.push_back({"of", "natural units"});
        candidates.push_back({parameters, rounds_to_step(evidence.acts, natural, rounded, 127), 1});
        if (evidence.seen.front().factor.at(0, 0) == 1) break;
    }
    // Types of P have rows of their own.
    if (evidence.acts == Stage::p) return candidates;
    for (const DtypeInfo& info : narrow_dtypes()) {
        const Dtype dtype = info.dtype;
        if (!are_numbers_of(evidence, dtype)) continue;
        const double scale = evidence.seen.front().factor.at(0, 0);
        const auto change = [=](const SearchedTile&, Estimate& e) { round_to(dtype, scale, e); };
        candidates.push_back({{{"type", std::string(info.name)}}, {.result = change, .widens = true}, 1});
    }
    return candidates;
}

// ---- operands of sums

/// To the numbers of a type, or to multiples of a step as int8 has them.
struct Rounding {
    std::string_view name;
    Dtype dtype = Dtype::f32;
    double step = 0;  ///< 0: those of the type

    void round(double scale, Estimate& estimate) const {
        if (step == 0) return round_to(dtype, scale, estimate);
        for (Eigen::Index i = 0; i < estimate.value.size(); ++i)
            round_to_step(step, 127, scale, estimate.value.data()[i], estimate.error.data()[i]);
    }
};

void round_operand(const Rounding& rounding, Operand& operand) {
    Estimate exact{operand.value, Matrix::Zero(operand.value.rows(), operand.value.cols()), {}};
    rounding.round(1, exact);
    operand.value = std::move(exact.value);
}

/// P that is summed up or multiplied with V, from before or after its cast.
Change rounds_p(const Rounding& rounding, bool before_cast) {
    return {.inputs = [=](SearchedTile& site) {
        Estimate p = before_cast ? site.p : site.operand_p;
        rounding.round(site.call->units.p_scale, p);
        site.operand_p = p;
        site.p = std::move(p);
    }};
}

template <Operand SearchedTile::*operand>
void round_member(const Rounding& rounding, SearchedTile& site) {
    round_operand(rounding, site.*operand);
}

template <double Units::*scale>
void round_left(const Rounding& rounding, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) rounding.round(site.call->units.*scale, part.a);
}

/// In place of the cast that is declared.
template <double Units::*scale>
void round_uncast_left(const Rounding& rounding, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) {
        if (part.uncast.value.size() == 0) continue;
        part.a = part.uncast;
        rounding.round(site.call->units.*scale, part.a);
    }
}

void round_right(const Rounding& rounding, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) round_operand(rounding, part.b);
}

/// What a sum multiplies.
struct OperandOfSum {
    Stage sum;
    const char* name;
    void (*round)(const Rounding&, SearchedTile&);
};

constexpr OperandOfSum operands_of_sums[] = {
    {Stage::s, "q", round_member<&SearchedTile::q>},
    {Stage::s, "k", round_member<&SearchedTile::k>},
    {Stage::acc, "v", round_member<&SearchedTile::v>},
    {Stage::delta, "dout", round_member<&SearchedTile::dout>},
    {Stage::delta, "o", round_member<&SearchedTile::o>},
    {Stage::dp, "dout", round_member<&SearchedTile::dout>},
    {Stage::dp, "v", round_member<&SearchedTile::v>},
    {Stage::dq, "ds", round_uncast_left<&Units::ds_scale>},
    {Stage::dq, "ds after its cast", round_left<&Units::ds_scale>},
    {Stage::dq, "k", round_right},
    {Stage::dk, "ds", round_uncast_left<&Units::ds_scale>},
    {Stage::dk, "ds after its cast", round_left<&Units::ds_scale>},
    {Stage::dk, "q", round_right},
    {Stage::dv, "P", round_uncast_left<&Units::p_scale>},
    {Stage::dv, "P after its cast", round_left<&Units::p_scale>},
    {Stage::dv, "dout", round_right},
};

std::vector<Rounding> all_roundings() {
    // Numbers between -1 and 1 take up int8 in one of these two ways.
    std::vector<Rounding> roundings = {{"int8, step 1/127", Dtype::f32, 1.0 / 127},
                                       {"int8, step 1/128", Dtype::f32, 1.0 / 128}};
    for (const DtypeInfo& info : narrow_dtypes()) roundings.push_back({info.name, info.dtype});
    return roundings;
}

/// Operands are few, and so are types: each is tried.
std::vector<Candidate> operand_rounded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return {};
    for (const Rounding& rounding : all_roundings()) {
        const auto add = [&](const char* which, Change change) {
            candidates.push_back(
                {{{"operand", which}, {"type", std::string(rounding.name)}}, std::move(change), 1});
        };
        if (evidence.acts == Stage::l || evidence.acts == Stage::acc) {
            add("P", rounds_p(rounding, true));
            add("P after its cast", rounds_p(rounding, false));
        }
        for (const OperandOfSum& operand : operands_of_sums)
            if (operand.sum == evidence.acts)
                add(operand.name, {.inputs = [=](SearchedTile& site) { operand.round(rounding, site); }});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> identified_type_causes() {
    return {
        {"values_rounded",
         "precision",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::lse,
          Stage::o, Stage::dout, Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv},
         "each value is rounded to a type that is not declared",
         "casts of the value before it is kept",
         rounded_to_step},
        {"operand_rounded",
         "precision",
         {Stage::s, Stage::l, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "an operand of the sum is rounded to a type that is not declared",
         "casts of the operand as the product or the sum takes it",
         operand_rounded},
    };
}

}  // namespace tilescope
