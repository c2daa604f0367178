// Numbers that were rounded to a type or a step on their way, which the numbers that are there show, or the
// sums that are made of them.

#include <optional>
#include <string>

#include "oracle/causes/readable_values.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/some_terms.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

std::vector<NumberGrid> all_types() {
    std::vector<NumberGrid> grids;
    for (const DtypeInfo& info : narrow_dtypes()) grids.push_back(grid_of(info));
    return grids;
}

std::vector<CauseParameter> rounding_told(const NumberGrid& grid, const ReadableValue& value) {
    std::vector<CauseParameter> parameters = {{"type", grid.name}};
    if (grid.step > 0) parameters.push_back({"step", grid.step_text});
    if (grid.direction == NumberGrid::Direction::toward_zero) parameters.push_back({"rounded", "toward 0"});
    if (!value.told.empty()) parameters.push_back({"of", value.told});
    return parameters;
}

void add_roundings(const Evidence& evidence, const std::vector<ReadableValue>& values,
                   const std::vector<NumberGrid>& types, std::vector<Candidate>& candidates) {
    for (const ReadableValue& value : values) {
        for (const Curve& curve : roundings_through(value.points(evidence), types)) {
            Change change = value.change(curve);
            change.widens = true;
            candidates.push_back(
                {rounding_told(*curve.rule.grid, value), std::move(change), curve.parameters});
        }
    }
}

std::vector<Candidate> values_rounded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    // Types of P and of the exponential's argument have rows of their own.
    const std::vector<NumberGrid> types = evidence.acts == Stage::p ? std::vector<NumberGrid>() : all_types();
    for (const auto read : {readable_results, readable_score_parts, readable_arguments})
        add_roundings(evidence, read(evidence), types, candidates);
    return candidates;
}

// ---- operands of sums

/// To the numbers of a type, or to multiples of a step as int8 has them.
struct Rounding {
    std::string name;
    Dtype dtype = Dtype::f32;
    std::optional<NumberGrid> steps = {};

    void round(double scale, Estimate& estimate) const {
        if (!steps) return round_to(dtype, scale, estimate);
        CurveRule rule;
        rule.is_line = false;
        rule.grid = steps;
        pass_through({{}, rule, 1, true, {}}, 1 / scale, estimate);
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
    std::vector<Rounding> roundings;
    // Numbers between -1 and 1 take up int8 in one of these two ways.
    for (const int parts : {127, 128}) {
        NumberGrid grid;
        grid.step = 1.0 / parts;
        grid.least = -127;
        grid.most = 127;
        roundings.push_back({"int8, step 1/" + std::to_string(parts), Dtype::f32, grid});
    }
    for (const DtypeInfo& info : narrow_dtypes()) roundings.push_back({std::string(info.name), info.dtype});
    return roundings;
}

/// Operands are few, and so are types: each is tried.
std::vector<Candidate> operand_rounded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return {};
    for (const Rounding& rounding : all_roundings()) {
        const auto add = [&](const char* which, Change change) {
            candidates.push_back({{{"operand", which}, {"type", rounding.name}}, std::move(change), 1});
        };
        if (evidence.acts == Stage::l || evidence.acts == Stage::acc) {
            add("P", rounds_p(rounding, true));
            add("P after its cast", rounds_p(rounding, false));
        }
        for (const OperandOfSum& operand : operands_of_sums)
            if (operand.sum == evidence.acts)
                add(operand.name, {.inputs = [=](SearchedTile& site) { operand.round(rounding, site); }});
    }
    const std::size_t of_all_terms = candidates.size();
    for (std::size_t i = 0; i < of_all_terms; ++i)
        for (Candidate& some : in_some_terms(evidence, candidates[i])) candidates.push_back(std::move(some));
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
         values_rounded},
        {"operand_rounded",
         "precision",
         {Stage::s, Stage::l, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "an operand of the sum is rounded to a type that is not declared",
         "casts of the operand as the product or the sum takes it",
         operand_rounded},
    };
}

}  // namespace tilescope
