// Casts and sums that keep fewer digits than is declared, in any stage.

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// Digits that are cut off leave a bias towards zero.
std::vector<Candidate> cast_truncated(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const Dtype stored = evidence.units().p_cast;
    if (evidence.acts == Stage::p && stored != Dtype::f32) {
        return always({.inputs = [](Site& site) { site.own_call().units.p_cast = Dtype::f32; },
                       .result = [=](const Site& site,
                                     Estimate& p) { truncate_to(stored, site.call->units.p_scale, p); }});
    }
    if (evidence.acts == Stage::acc && stored == Dtype::f32 && problem.dtype_p != Dtype::f32) {
        return always({.inputs = [dtype = problem.dtype_p](Site& site) {
            site.operand_p = site.p;
            truncate_to(dtype, site.call->units.p_scale, site.operand_p);
        }});
    }
    if (evidence.acts == Stage::o && problem.dtype_o != Dtype::f32) {
        return always(
            {.inputs = [](Site& site) { site.own_call().problem.dtype_o = Dtype::f32; },
             .result = [dtype = problem.dtype_o](const Site&, Estimate& o) { truncate_to(dtype, 1, o); }});
    }
    return {};
}

bool is_fp8(Dtype dtype) {
    return dtype == Dtype::e4m3 || dtype == Dtype::e5m2;
}

/// Tensor cores that keep fewer bits of a sum than is declared: where nothing is left but their noise.
std::vector<Candidate> narrow_sum(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const bool of_scores = evidence.acts == Stage::s;
    const Dtype operand = of_scores ? problem.dtype_q : problem.dtype_v;
    const Accumulation declared =
        of_scores ? evidence.units().s_accumulation : evidence.units().acc_accumulation;
    std::vector<Candidate> candidates;
    const auto add = [&](const char* name, Accumulation accumulation) {
        if (accumulation == declared) return;
        candidates.push_back({{{"accumulation", name}},
                              {.inputs =
                                   [=](Site& site) {
                                       Units& units = site.own_call().units;
                                       (of_scores ? units.s_accumulation : units.acc_accumulation) =
                                           accumulation;
                                   },
                               .widens = true},
                              1});
    };
    if (is_fp8(operand)) add("tensor_core_fp8", Accumulation::tensor_core_fp8);
    if (operand == Dtype::f32) add("tensor_core_tf32", Accumulation::tensor_core_tf32);
    return candidates;
}

}  // namespace

std::vector<Cause> precision_causes() {
    return {
        {"cast_truncated",
         "precision",
         {Stage::p, Stage::acc, Stage::o},
         "a cast to a narrower type cuts digits off instead of rounding to nearest",
         "the rounding mode of the conversion",
         cast_truncated},
        {"narrow_sum",
         "precision",
         {Stage::s, Stage::acc},
         "the sum of products keeps fewer bits than is declared",
         "nothing where it is meant: declare accumulation of the stage",
         narrow_sum,
         {},
         true},
    };
}

}  // namespace tilescope
