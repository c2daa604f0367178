// Casts and sums that keep fewer digits than is declared, in any stage.

#include <bit>
#include <cmath>

#include "oracle/causes/bare_scores.h"
#include "oracle/causes/table.h"

namespace tilescope {

namespace {

bool is_fp8(Dtype dtype) {
    return dtype_info(dtype).bytes == 1;
}

/// How kernels make tf32 of float32.
struct Tf32 {
    const char* name;
    std::uint32_t added;  ///< to the bits, before 13 of them are cut off
};
constexpr Tf32 tf32_casts[] = {{"rounded", 0x1000u}, {"cut off", 0}};

void make_tf32(const Tf32& cast, Matrix& values) {
    for (Eigen::Index i = 0; i < values.size(); ++i) {
        double& value = values.data()[i];
        if (!std::isfinite(value)) continue;
        value = double(
            std::bit_cast<float>((std::bit_cast<std::uint32_t>(float(value)) + cast.added) & ~0x1fffu));
    }
}

/// Operands that lose bits on their way to the tensor cores: their products are known.
std::vector<Candidate> tf32_products(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Tf32& cast : tf32_casts) {
        const auto change = [=, of_scores = evidence.acts == Stage::s](SearchedTile& site) {
            Units& units = site.own_call().units;
            (of_scores ? units.s_accumulation : units.acc_accumulation) = Accumulation::tensor_core_f32;
            make_tf32(cast, of_scores ? site.q.value : site.operand_p.value);
            make_tf32(cast, of_scores ? site.k.value : site.v.value);
        };
        candidates.push_back(
            {{{"accumulation", "tensor_core_tf32"}, {"operands", cast.name}}, {.inputs = change}, 1});
    }
    return candidates;
}

/// Whether `value`, which may be off by `noise`, has no digits after the 18 that the sum of 16 terms of 14
/// bits may have.
bool is_short(double value, double noise) {
    const double step = std::ldexp(1.0, std::ilogb(value) - 17);
    return std::abs(std::round(value / step) * step - value) <= noise;
}

/// Whether what the tensor cores summed up has the few digits that they keep of fp8 products. Sums that were
/// multiplied with something else since show nothing.
bool are_short_sums(const Evidence& evidence) {
    std::int64_t fit = 0;
    std::int64_t others = 0;
    const auto add = [&](double sum, double noise) {
        if (std::isfinite(sum) && sum != 0) (is_short(sum, noise) ? fit : others) += 1;
    };
    for (const BareScore& score : bare_scores(evidence))
        if (score.is_bare) add(score.got / score.unit, 4 * u_f32 * std::abs(score.got / score.unit));
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size() && evidence.acts == Stage::acc; ++i)
            if (seen.wrong[std::size_t(i)]) add(seen.got.data()[i], 0);
    }
    return fit >= 16 && others * 50 <= fit;
}

/// Tensor cores that keep fewer bits than is declared.
std::vector<Candidate> narrow_sum(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const bool of_scores = evidence.acts == Stage::s;
    const Dtype operand = of_scores ? problem.dtype_q : problem.dtype_v;
    const Accumulation declared =
        of_scores ? evidence.units().s_accumulation : evidence.units().acc_accumulation;
    if (operand == Dtype::f32 && declared != Accumulation::tensor_core_tf32) return tf32_products(evidence);
    const bool shows = evidence.direct() && is_fp8(operand) && declared != Accumulation::tensor_core_fp8;
    if (!shows || !are_short_sums(evidence)) return {};
    const auto change = [=](SearchedTile& site) {
        Units& units = site.own_call().units;
        (of_scores ? units.s_accumulation : units.acc_accumulation) = Accumulation::tensor_core_fp8;
    };
    return {{{{"accumulation", "tensor_core_fp8"}}, {.inputs = change, .widens = true}, 1}};
}

}  // namespace

std::vector<Cause> precision_causes() {
    return {
        {"narrow_sum",
         "precision",
         {Stage::s, Stage::acc},
         "the sum of products keeps fewer bits than is declared",
         "declare accumulation of the stage where it is meant",
         narrow_sum,
         {},
         true},
    };
}

}  // namespace tilescope
