#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "oracle/causes/rewrites.h"
#include "oracle/causes/sinks.h"
#include "oracle/causes/staged_output.h"

namespace tilescope {

namespace {

bool is_split(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    return problem.splits() > 1;
}

/// What is added to l, by the dump: acc / o - l.
std::vector<double> epsilons(const Evidence& evidence) {
    std::vector<double> all = {1e-3, 1e-2, 1e-4, 1e-5, 1e-6, 1e-8, 1};
    std::vector<double> seen_here;
    for (const Observation& seen : evidence.seen) {
        if (!evidence.direct() || !seen.is_bad()) continue;
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (seen.is_wrong(i, j) && std::isfinite(seen.got(i, j)) && seen.got(i, j) != 0)
                    seen_here.push_back(whole.acc.value(i, j) / seen.natural(i, j) - whole.l.value(i, 0));
            }
        }
    }
    if (const double middle = median_of(seen_here); std::isfinite(middle) && middle > 0) {
        const double power = std::pow(10, std::round(std::log10(middle)));
        all.push_back(std::abs(power / middle - 1) < 0.1 ? power : middle);
    }
    return all;
}

std::vector<NamedConstant> constants_of_guard(const Evidence& evidence) {
    std::vector<NamedConstant> constants;
    for (const double epsilon : epsilons(evidence)) constants.push_back({digits(epsilon), epsilon});
    return constants;
}

/// What acc is divided by: where splits are combined, in each of them or after them.
Generator divides_by(const Expr& of_row, const Expr& of_split, const Constants& constants) {
    return all_of(
        {rewrites_with("value", constants, {{var::l, of_row}}),
         where_declared(is_split, told({"in", "each split"},
                                       rewrites_with("value", constants, {{var::divisor, of_split}})))});
}
Generator divides_by(const Expr& of_row, const Expr& of_split) {
    return all_of(
        {rewrites({{var::l, of_row}}),
         where_declared(is_split, told({"in", "each split"}, rewrites({{var::divisor, of_split}})))});
}

std::vector<Candidate> split_dropped(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_split(evidence)) return {};
    for (std::int64_t which = 0; which < std::min<std::int64_t>(evidence.problem().splits(), 64); ++which) {
        candidates.push_back({{{"which", digits(which)}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       if (std::ssize(site.splits) > which + 0 && site.splits.size() > 1)
                                           site.splits.erase(site.splits.begin() + which);
                                   }},
                              1});
    }
    return candidates;
}

/// Every split with a weight of exp(weight(lse)), normalised by itself.
Change weighs_splits(std::function<double(double lse)> weight, bool counts_empty) {
    return {.inputs = [=](SearchedTile& site) {
        for (RunningState& split : site.splits) {
            for (Eigen::Index i = 0; i < split.m.value.rows(); ++i) {
                const double l = sum_of_row(split.l.value, i);
                const double m = split.m.value(i, 0);
                if (l == 0 || m == -infinity) {
                    if (!counts_empty) continue;
                    split.m.value(i, 0) = weight(0);
                    split.l.value.row(i).setZero();
                    split.l.value(i, 0) = 1;
                    split.acc.value.row(i).setZero();
                    continue;
                }
                split.acc.value.row(i) /= l;
                split.acc.error.row(i) =
                    split.acc.error.row(i) / l + split.acc.value.row(i).cwiseAbs() * 4 * u_f32;
                split.l.value.row(i).setZero();
                split.l.error.row(i).setZero();
                split.l.value(i, 0) = 1;
                split.m.value(i, 0) = weight(m + std::log(l));
            }
        }
    }};
}

std::vector<Candidate> splits_averaged(const Evidence& evidence) {
    if (!is_split(evidence)) return {};
    const auto same = [](double) { return 0.0; };
    return {{{}, weighs_splits(same, true)}, {{{"of", "splits that see a key"}}, weighs_splits(same, false)}};
}

std::vector<Candidate> split_base_mixed(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_split(evidence)) return {};
    for (const double factor : {std::numbers::log2e, std::numbers::ln2}) {
        candidates.push_back({{{"factor", factor > 1 ? "log2e" : "ln2"}},
                              weighs_splits([=](double lse) { return factor * lse; }, false)});
    }
    return candidates;
}

/// What the other head of the same rows should hold.
Estimate output_of(const SearchedTile& site, std::int64_t batch, std::int64_t head) {
    Estimate o;
    ChangedReplay walk(*site.world, {batch, head, site.id.q_block, 0}, Stage::o, {});
    walk.run(Stage::o, [&](const SearchedTile&, const Estimate& expected) { o = expected; });
    return o;
}

bool resembles(const Observation& seen, const Estimate& other) {
    std::int64_t same = 0;
    if (other.value.rows() != seen.got.rows()) return false;
    for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
        const double difference = double(seen.got.data()[i]) - other.value.data()[i] * seen.factor.at(0, 0);
        if (seen.wrong[std::size_t(i)] && std::abs(difference) <= other.error.data()[i]) ++same;
    }
    return same * 2 > seen.wrong_elements;
}

std::vector<Candidate> o_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const std::int64_t heads = evidence.problem().heads;
    if (heads == 1 || !evidence.direct() || !evidence.seen.front().is_bad()) return {};
    const Observation& seen = evidence.seen.front();
    const std::int64_t own = seen.site.id.head;
    const auto add = [&](std::string which, std::function<std::int64_t(const SearchedTile&)> head) {
        candidates.push_back({{{"which", std::move(which)}},
                              {.result =
                                   [=](const SearchedTile& site, Estimate& o) {
                                       if (head(site) >= site.call->problem.heads) return;
                                       Estimate other = output_of(site, site.id.batch, head(site));
                                       if (other.value.rows() == o.value.rows()) o = std::move(other);
                                   }},
                              1});
    };
    for (std::int64_t head = 0; head < std::min<std::int64_t>(heads, 8); ++head) {
        if (head == own || !resembles(seen, output_of(seen.site, seen.site.id.batch, head))) continue;
        add(digits(head), [=](const SearchedTile&) { return head; });
        const std::int64_t offset = head - own;
        add((offset > 0 ? "+" : "") + digits(offset), [=](const SearchedTile& site) {
            const std::int64_t there = site.call->problem.heads;
            return ((site.id.head + offset) % there + there) % there;
        });
        add("heads reversed",
            [](const SearchedTile& site) { return site.call->problem.heads - 1 - site.id.head; });
    }
    return candidates;
}

std::vector<Candidate> o_precision(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const DtypeInfo& info : narrow_dtypes()) {
        const Dtype dtype = info.dtype;
        if (dtype == stage_dtype(evidence.problem(), evidence.acts) ||
            (evidence.direct() && !are_numbers_of(evidence, dtype)))
            continue;
        candidates.push_back(
            {{{"dtype", std::string(dtype_info(dtype).name)}},
             {.result = [=](const SearchedTile&, Estimate& o) { round_to(dtype, 1, o); }, .widens = true}});
    }
    return candidates;
}

std::vector<Candidate> zero_row_convention(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const bool is_o = evidence.acts == Stage::o;
    const EmptyRow declared = is_o ? evidence.units().o_empty_row : evidence.units().lse_empty_row;
    for (const EmptyRow empty :
         {EmptyRow::zero, EmptyRow::minus_infinity, EmptyRow::plus_infinity, EmptyRow::nan}) {
        if (empty == declared) continue;
        candidates.push_back(
            {{{"rows hold", std::string(name_of(empty))}}, {.inputs = [=](SearchedTile& site) {
                 Units& units = site.own_call().units;
                 (is_o ? units.o_empty_row : units.lse_empty_row) = empty;
             }}});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> output_causes() {
    const std::vector<Stage> o = {Stage::o};
    const std::vector<Stage> both = {Stage::o, Stage::lse};
    const std::vector<Stage> stored = {Stage::o, Stage::dq, Stage::dk, Stage::dv};
    return {
        {"not_normalised", "constants", o, "the output is not divided by the row sum", "acc / l at the end",
         divides_by(1, 1)},
        {"double_normalised", "constants", o, "the output is divided by the row sum twice",
         "acc / l at the end", divides_by(var::l * var::l, var::divisor * var::divisor)},
        {"zero_row_convention", "guards", both, "rows that see no key hold another value than declared",
         "declare empty_row of the output where it is meant", zero_row_convention,
         "--causal with seqlen_q above seqlen_kv", true},
        {"sink_missing_in_denominator", "sink, ALiBi, bias", o, "the sink does not join the row sum",
         "where the sink is added to l before the division", sink_missing_at_end},
        {"split_dropped", "split / combine", both, "one split is left out when splits are combined",
         "the number of splits that the combining loop takes", split_dropped},
        {"splits_averaged", "split / combine", both, "splits are averaged instead of weighted by their lse",
         "the weights of the splits", splits_averaged},
        {"split_base_mixed", "split / combine", both, "splits are weighted with an lse of the other base",
         "exp or exp2 of the differences of lse", split_base_mixed},
        {"epsilon_in_denominator", "guards", o, "a number is added to the row sum before the division",
         "the guard of the division",
         divides_by(var::l + var::constant, var::divisor + var::constant, constants_of_guard),
         "--causal with short rows"},
        {"operand_stored_as_o", "unwritten / stale", o,
         "the output holds the operand in whose shared memory it is staged",
         "the barrier and the fence between the stores to shared memory and the copy from it",
         staged_over_operand},
        {"o_of_other_head", "head / batch map", o, "the output is that of another head",
         "the index of the head in the store", o_of_other_head},
        {"o_precision", "precision", stored, "the output is rounded to another type than it is stored in",
         "the conversion before the store", o_precision},
        {"output_constant", "constants", stored, "the output is multiplied with a constant too many",
         "the factors after the sum",
         rewrites_with("factor", constants_of_results, {{var::result, var::result * var::constant}}, true)},
    };
}

}  // namespace tilescope
