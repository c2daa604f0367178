#include <algorithm>
#include <cmath>

#include "oracle/causes/rewrites.h"
#include "oracle/formula/softmax.h"
#include "oracle/replay/replay.h"

namespace tilescope {

namespace {

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

/// Columns that are NaN in every row of a bad tile.
std::vector<bool> nan_columns(const Observation& seen) {
    std::vector<bool> columns(std::size_t(seen.got.cols()), true);
    for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
            columns[std::size_t(j)] = columns[std::size_t(j)] && std::isnan(seen.got(i, j));
    return columns;
}

std::vector<Candidate> nan_times_zero(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    // Masked keys whose V is no number.
    candidates.push_back({{{"V of", "masked keys"}}, {.result = [](const SearchedTile& site, Estimate& acc) {
                              for (Eigen::Index key = 0; key < site.v.value.rows(); ++key) {
                                  for (Eigen::Index d = 0; d < site.v.value.cols(); ++d) {
                                      if (std::isfinite(site.v.value(key, d))) continue;
                                      acc.value.col(d).setConstant(quiet_nan);
                                      acc.error.col(d).setZero();
                                  }
                              }
                          }}});
    const auto rest = evidence.call().problem.seqlen_kv % evidence.problem().block_n;
    const Observation& bad = evidence.seen.front();
    if (rest == 0 || !evidence.direct() || !bad.is_bad()) return candidates;
    const std::vector<bool> columns = nan_columns(bad);
    if (std::ranges::find(columns, true) == columns.end()) return candidates;
    candidates.push_back(
        {{{"V of", "keys past seqlen_kv"}}, {.result = [=](const SearchedTile& site, Estimate& acc) {
             if (site.keys() == site.call->problem.block_n) return;
             for (std::size_t d = 0; d < columns.size(); ++d) {
                 if (!columns[d]) continue;
                 acc.value.col(Eigen::Index(d)).setConstant(quiet_nan);
                 acc.error.col(Eigen::Index(d)).setZero();
             }
         }}});
    return candidates;
}

bool is_p_cast(const Evidence& evidence) {
    return evidence.problem().dtype_p != Dtype::f32;
}
bool is_acc_normalised(const Evidence& evidence) {
    return evidence.units().acc_normalised;
}

}  // namespace

std::vector<Cause> accumulator_causes() {
    const std::vector<Stage> acc = {Stage::acc};

    return {
        {"not_multiplied_with_l", "recurrence", acc,
         "the output so far is not multiplied with the row sum that it was divided by",
         "l_old in the update of O",
         where_declared(
             is_acc_normalised,
             rewrites({{var::acc_before, if_any(var::l_before, var::acc_before / var::l_before)}}))},
        {"half_accumulator", "precision", acc, "the O accumulator is kept in a 16-bit type",
         "the type of the accumulator; declare dtype_acc where it is meant", half_accumulator,
         "--input distinct_v"},
        {"nan_times_zero", "0 * NaN", acc, "a P of 0 is multiplied with a V that is NaN",
         "V of masked keys and of keys past seqlen_kv: zero it", nan_times_zero},
        {"uncast_p_multiplied",
         "precision",
         acc,
         "P multiplies V before its cast",
         "declare dtype_p where it is meant",
         where_declared(is_p_cast, rewrites({{var::p_operand, var::p}})),
         {},
         true},
    };
}

}  // namespace tilescope
