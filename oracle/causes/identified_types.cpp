// Numbers that were rounded to a type or a step on their way, which the numbers that are there show, or the
// sums that are made of them.

#include <algorithm>
#include <cmath>

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

/// Multiples of a step, at most `most` of them.
Change rounds_to_step(Stage stage, bool natural, double step, double most) {
    return {
        .result =
            [=](const SearchedTile& site, Estimate& e) {
                const DumpFactor factor = is_operand(stage) || natural
                                              ? DumpFactor()
                                              : dump_factor(*site.call, stage, site.first_row, site.first_key,
                                                            e.value.rows(), e.value.cols());
                const auto rounded = [=](double x) {
                    return std::clamp(std::nearbyint(x / step), -most, most) * step;
                };
                for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
                    for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
                        const double unit = factor.at(i, j);
                        if (!std::isfinite(e.value(i, j))) continue;
                        const double x = e.value(i, j) * unit;
                        const double error = e.error(i, j) * std::abs(unit) + 1e-6 * step;
                        const double low = rounded(x - error);
                        const double high = rounded(x + error);
                        e.value(i, j) = 0.5 * (low + high) / unit;
                        e.error(i, j) = (0.5 * (high - low) + 2 * u_f32 * std::abs(high)) / std::abs(unit);
                    }
                }
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

void round_operand(Dtype dtype, Operand& operand) {
    Estimate exact{operand.value, Matrix::Zero(operand.value.rows(), operand.value.cols()), {}};
    round_to(dtype, 1, exact);
    operand.value = std::move(exact.value);
}

/// P that is summed up or multiplied with V, from before or after its cast.
Change rounds_p(Dtype dtype, bool before_cast) {
    return {.inputs = [=](SearchedTile& site) {
        Estimate p = before_cast ? site.p : site.operand_p;
        round_to(dtype, site.call->units.p_scale, p);
        site.operand_p = p;
        site.p = std::move(p);
    }};
}

template <Operand SearchedTile::*operand>
void round_member(Dtype dtype, SearchedTile& site) {
    round_operand(dtype, site.*operand);
}

template <double Units::*scale>
void round_left(Dtype dtype, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) round_to(dtype, site.call->units.*scale, part.a);
}

/// In place of the cast that is declared.
template <double Units::*scale>
void round_uncast_left(Dtype dtype, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) {
        if (part.uncast.value.size() == 0) continue;
        part.a = part.uncast;
        round_to(dtype, site.call->units.*scale, part.a);
    }
}

void round_right(Dtype dtype, SearchedTile& site) {
    for (GradientPart& part : site.own_parts()) round_operand(dtype, part.b);
}

/// What a sum multiplies.
struct OperandOfSum {
    Stage sum;
    const char* name;
    void (*round)(Dtype, SearchedTile&);
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

/// Operands are few, and so are types: each is tried.
std::vector<Candidate> operand_rounded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return {};
    for (const DtypeInfo& info : narrow_dtypes()) {
        const Dtype type = info.dtype;
        const auto add = [&](const char* which, Change change) {
            candidates.push_back(
                {{{"operand", which}, {"type", std::string(info.name)}}, std::move(change), 1});
        };
        if (evidence.acts == Stage::l || evidence.acts == Stage::acc) {
            add("P", rounds_p(type, true));
            add("P after its cast", rounds_p(type, false));
        }
        for (const OperandOfSum& operand : operands_of_sums)
            if (operand.sum == evidence.acts)
                add(operand.name, {.inputs = [=](SearchedTile& site) { operand.round(type, site); }});
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
