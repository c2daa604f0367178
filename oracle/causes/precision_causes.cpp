// Casts and sums that keep fewer digits than is declared, in any stage.

#include <bit>
#include <cmath>
#include <numbers>

#include "oracle/causes/bare_scores.h"
#include "oracle/causes/signature.h"
#include "oracle/formula/scores.h"
#include "oracle/replay/tiles.h"

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

/// Whether what tiles add to their rows are numbers of the type.
bool added_products_are(const Evidence& evidence, Dtype dtype) {
    std::int64_t fit = 0;
    std::int64_t others = 0;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (!seen.is_wrong(i, j)) continue;
                const double got = seen.natural(i, j);
                const double start = seen.site.factor.value(i, 0) * seen.site.before.acc.value(i, j);
                const double sum = got - start;
                const double noise = start == 0 ? 0 : 8 * u_f32 * (std::abs(got) + std::abs(start));
                // Where the float32 sum hides more than the type's last bits nothing can be told.
                if (!std::isfinite(sum) || noise > std::ldexp(std::abs(sum), -15)) continue;
                (std::abs(rounded_to(dtype, sum) - sum) <= noise ? fit : others) += 1;
            }
        }
    }
    return fit >= 16 && others * 50 <= fit;
}

std::vector<Candidate> half_accumulator(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        if (evidence.problem().dtype_acc == dtype || (evidence.direct() && !are_numbers_of(evidence, dtype)))
            continue;
        candidates.push_back(
            {{{"dtype", std::string(dtype_info(dtype).name)}, {"rounded", "after each tile"}},
             {.result =
                  [=](const SearchedTile& site, Estimate& acc) {
                      const DumpFactor factor =
                          dump_factor(*site.call, Stage::acc, site.first_row, site.first_key, 1, 1);
                      round_to(dtype, factor.scalar, acc);
                  },
              .widens = evidence.direct()}});
    }
    // Sums that are kept narrow throughout leave their noise: the budget of such sums.
    if (evidence.direct() && !candidates.empty() && candidates[0].parameters[0].value == "f16") {
        candidates.push_back({{{"dtype", "f16"}, {"rounded", "at every step"}},
                              {.inputs =
                                   [](SearchedTile& site) {
                                       HeadCall& call = site.own_call();
                                       call.problem.dtype_acc = Dtype::f16;
                                       call.units.acc_accumulation = Accumulation::tensor_core_f16;
                                   },
                               .widens = true},
                              1});
    }
    if (evidence.direct() && candidates.empty() && added_products_are(evidence, Dtype::f16)) {
        candidates.push_back(
            {{{"dtype", "f16"}, {"rounded", "in the sum over the keys of a tile"}},
             {.inputs =
                  [](SearchedTile& site) { site.own_call().units.acc_accumulation = Accumulation::fma_f16; },
              .widens = true},
             1});
    }
    return candidates;
}

/// Whether the sums that the dumped scores were made of are numbers of the type, or infinite where they are
/// beyond its range. What is infinite in float32 says nothing.
bool scores_are(const Evidence& evidence, Dtype dtype) {
    std::int64_t fit = 0;
    std::int64_t others = 0;
    for (const BareScore& score : bare_scores(evidence)) {
        const double sum = score.got / score.unit;
        if (!std::isfinite(score.expected)) continue;
        if (std::isinf(sum)) {
            const bool is_beyond = std::isinf(rounded_to(dtype, score.expected / score.unit));
            (is_beyond ? fit : others) += 1;
            continue;
        }
        const double noise = score.is_bare ? 8 * u_f32 * std::abs(sum) : score.error / score.unit;
        // Where cap and bias hide more than the type's last bits nothing can be told.
        if (std::isnan(sum) || noise > std::ldexp(std::abs(sum), -14)) continue;
        (std::abs(rounded_to(dtype, sum) - sum) <= noise ? fit : others) += 1;
    }
    return fit >= 8 && others * 50 <= fit;
}

/// The sum of products rounded to a narrow type before anything else is done with it. What overflows is
/// infinite, or what a guard makes of it. `is_seen`: the dump shows numbers of the type.
Change rounds_sum(Dtype dtype, bool guarded, bool is_seen) {
    return {.result =
                [=](const SearchedTile& site, Estimate& s) {
                    Estimate sum = scaled_scores(*site.call, site.q, site.k);
                    Matrix unit(sum.value.rows(), sum.value.cols());
                    for (Eigen::Index i = 0; i < unit.rows(); ++i)
                        for (Eigen::Index j = 0; j < unit.cols(); ++j)
                            unit(i, j) = unit_of(*site.call, site.first_row + i, site.first_key + j);
                    sum.value.array() /= unit.array();
                    sum.error.array() /= unit.array();
                    round_to(dtype, 1, sum);
                    sum.value.array() *= unit.array();
                    sum.error.array() *= unit.array();
                    sum.error += 6 * u_f32 * sum.value.cwiseAbs();
                    sum.error = sum.value.array().isInf().select(0.0, sum.error);
                    s = dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sum));
                    if (guarded) s.value = (s.value.array() == infinity).select(-infinity, s.value);
                },
            .widens = is_seen};
}

/// Sums beyond the range of float16 are infinite. Where only some order of the sum leaves the range, the dump
/// says whether the kernel's did.
void overflows(const SearchedTile& site, Estimate& s) {
    const HeadCall& call = *site.call;
    const Estimate sums = scaled_scores(call, site.q, site.k);
    const Estimate magnitudes = scaled_scores(call, {site.q.value.cwiseAbs()}, {site.k.value.cwiseAbs()});
    const auto dumped = load_tile(site.world->recording(), call.problem, Stage::s, site.id);
    const auto beyond = [](double sum) { return std::isinf(rounded_to(Dtype::f16, sum)); };
    for (Eigen::Index i = 0; i < sums.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < sums.value.cols(); ++j) {
            const double unit = unit_of(call, site.first_row + i, site.first_key + j);
            if (!std::isfinite(s.value(i, j))) continue;
            if (beyond(sums.value(i, j) / unit)) {
                s.value(i, j) = std::copysign(infinity, sums.value(i, j));
            } else if (dumped && std::isinf((*dumped)(i, j)) && beyond(magnitudes.value(i, j) / unit)) {
                s.value(i, j) = double((*dumped)(i, j));
            } else {
                continue;
            }
            s.error(i, j) = 0;
        }
    }
}

std::vector<Candidate> half_scores(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        std::vector<CauseParameter> parameters = {{"dtype", std::string(dtype_info(dtype).name)}};
        const bool is_seen = evidence.direct() && scores_are(evidence, dtype);
        candidates.push_back({parameters, rounds_sum(dtype, false, is_seen)});
        parameters.push_back({"beyond its range", "-inf"});
        // A guard alone makes infinities, too.
        if (is_seen) candidates.push_back({parameters, rounds_sum(dtype, true, true), 1});
        parameters.back() = {"kept as", "score"};
        if (evidence.direct() && are_numbers_of(evidence, dtype)) {
            const double by =
                evidence.units().s_scaled ? 1 : 1 / product_scale(evidence.problem(), evidence.units());
            candidates.push_back(
                {parameters,
                 {.result = [=](const SearchedTile&, Estimate& s) { round_to(dtype, by, s); },
                  .widens = true}});
        }
    }
    // A sum that is kept narrow throughout: the budget of such a sum, where all that is left is its noise.
    if (evidence.units().s_accumulation != Accumulation::fma_f16 && scores_are(evidence, Dtype::f16))
        candidates.push_back(
            {{{"dtype", "f16"}, {"kept as", "running sum"}},
             {.inputs =
                  [](SearchedTile& site) { site.own_call().units.s_accumulation = Accumulation::fma_f16; },
              .result = overflows,
              .widens = true},
             1});
    return candidates;
}

/// One element tells it, which is too few for a formula.
std::vector<Candidate> lse_in_other_base(const Evidence& evidence) {
    const bool is_two = evidence.units().lse_log_base == LogBase::two;
    const double factor = is_two ? std::numbers::ln2 : std::numbers::log2e;
    const auto change = [=](const SearchedTile&, Estimate& lse) {
        lse.value *= factor;
        lse.error = factor * lse.error + 2 * u_f32 * lse.value.cwiseAbs();
    };
    return {{{{"base", is_two ? "e where 2 is declared" : "2 where e is declared"}}, {.result = change}}};
}

}  // namespace

std::vector<Cause> precision_causes() {
    return {
        {"half_scores",
         "overflow",
         {Stage::s},
         "q k is kept in a narrow type",
         "the accumulator type of the first product",
         half_scores,
         "--input large"},
        {"lse_in_other_base",
         "split / combine",
         {Stage::lse},
         "the log-sum-exp is stored to another base than declared",
         "declare log_base of /outputs/lse where it is meant; otherwise look at log2(e) or ln 2 in the store",
         lse_in_other_base,
         {},
         true},
        {"narrow_sum",
         "precision",
         {Stage::s, Stage::acc},
         "the sum of products keeps fewer bits than is declared",
         "declare accumulation of the stage where it is meant",
         narrow_sum,
         {},
         true},
        {"half_accumulator",
         "precision",
         {Stage::acc},
         "the O accumulator is kept in a narrower type",
         "the type of the accumulator; declare dtype_acc where it is meant",
         half_accumulator,
         "--input distinct_v"},
    };
}

}  // namespace tilescope
