#include "oracle/causes/descales.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "oracle/causes/other_heads.h"
#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// The operand's own place among what a HeadCall and the recording hold of descales.
struct DescaledOperand {
    Stage stage;
    const char* name;
    Eigen::VectorXd HeadCall::*rows;
    Descale SideInputs::*descale;
    Operand SearchedTile::*operand;
};

constexpr DescaledOperand operands[] = {
    {Stage::q, "q", &HeadCall::q_descale, &SideInputs::descale_q, &SearchedTile::q},
    {Stage::k, "k", &HeadCall::k_descale, &SideInputs::descale_k, &SearchedTile::k},
    {Stage::v, "v", &HeadCall::v_descale, &SideInputs::descale_v, &SearchedTile::v}};

/// The stage in which the kernel multiplies with the operand's descale.
Stage applied_in(const Units& units, Stage operand) {
    if (operand == Stage::v && units.p_descale_v != DescaleInP::none) return Stage::acc;
    if (operand == Stage::v)
        return units.v_dequantised ? Stage::v : units.acc_dequantised ? Stage::acc : Stage::o;
    const bool dequantised = operand == Stage::q ? units.q_dequantised : units.k_dequantised;
    return dequantised ? operand : Stage::s;
}

std::vector<DescaledOperand> applied_here(const Evidence& evidence) {
    std::vector<DescaledOperand> here;
    for (const DescaledOperand& operand : operands) {
        const Descale& descale = evidence.world->recording().side_inputs().*operand.descale;
        if (!descale.empty() && applied_in(evidence.units(), operand.stage) == evidence.acts)
            here.push_back(operand);
    }
    return here;
}

const DescaledOperand& descaled(Stage stage) {
    return *std::ranges::find(operands, stage, &DescaledOperand::stage);
}

/// `descale` of the head's rows in place of the right one.
Change applies(const DescaledOperand& operand, Stage acts,
               std::function<Eigen::VectorXd(const SearchedTile&, const Eigen::VectorXd&)> descale) {
    return {.inputs = [=](SearchedTile& site) {
        const Eigen::VectorXd right = (*site.call).*operand.rows;
        const Eigen::VectorXd wrong = descale(site, right);
        if (acts == operand.stage) {
            site.own_call().*operand.rows = wrong;
            return;
        }
        const Eigen::VectorXd ratio = wrong.cwiseQuotient(right);
        if (acts == Stage::o) {
            for (RunningState& split : site.splits) {
                split.acc.value *= ratio(0);
                split.acc.error *= std::abs(ratio(0));
            }
            return;
        }
        Matrix& value = (site.*operand.operand).value;
        const std::int64_t first = operand.stage == Stage::q ? site.first_row : site.first_key;
        value = (ratio.segment(first, value.rows()).asDiagonal() * value).eval();
    }};
}

std::vector<Candidate> for_each_operand(
    const Evidence& evidence,
    const std::function<Eigen::VectorXd(const SearchedTile&, const Eigen::VectorXd&)>& descale) {
    std::vector<Candidate> candidates;
    for (const DescaledOperand& operand : applied_here(evidence))
        candidates.push_back({{{"operand", operand.name}}, applies(operand, evidence.acts, descale)});
    return candidates;
}

/// Of entry `index` of [batch][heads].
Eigen::VectorXd rows_of_entry(const Descale& descale, std::int64_t index, Eigen::Index count) {
    Eigen::VectorXd values(count);
    for (Eigen::Index row = 0; row < count; ++row)
        values(row) = double(descale.at(index / descale.heads, index % descale.heads, row));
    return values;
}

}  // namespace

bool descale_is_applied(const Evidence& evidence, Stage operand) {
    if (operand == Stage::dout) return false;
    const Descale& descale = evidence.world->recording().side_inputs().*descaled(operand).descale;
    return !descale.empty() && applied_in(evidence.units(), operand) == operand;
}

void use_descale_of(const HeadCall& other, Stage operand, HeadCall& call) {
    const Eigen::VectorXd& from = other.*descaled(operand).rows;
    Eigen::VectorXd& to = call.*descaled(operand).rows;
    for (Eigen::Index row = 0; row < to.size() && from.size() > 0; ++row)
        to(row) = from(std::min(row, from.size() - 1));
}

std::vector<Candidate> descale_missing(const Evidence& evidence) {
    return for_each_operand(evidence,
                            [](const SearchedTile&, const Eigen::VectorXd& right) -> Eigen::VectorXd {
                                return Eigen::VectorXd::Ones(right.size());
                            });
}

std::vector<Candidate> descale_twice(const Evidence& evidence) {
    return for_each_operand(evidence,
                            [](const SearchedTile&, const Eigen::VectorXd& right) -> Eigen::VectorXd {
                                return right.cwiseAbs2();
                            });
}

namespace {

/// What a head's numbers are of what they should be, by the dump: where the index leaves the array, nobody
/// else knows what lies there. NaN where they are NaN.
std::map<std::pair<std::int64_t, std::int64_t>, double> ratio_of_heads(const Evidence& evidence) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> ratios;
    for (const Observation& seen : evidence.seen) {
        std::vector<double>& of_head = ratios[{seen.site.id.batch, seen.site.id.head}];
        for (Eigen::Index i = 0; i < seen.got.size() && evidence.direct(); ++i) {
            const double expected = seen.expected.value.data()[i];
            const double got = seen.got.data()[i];
            if (std::isfinite(expected) && std::abs(expected) > 8 * seen.expected.error.data()[i])
                of_head.push_back(std::isnan(got) ? 1e300 : got / expected);
        }
    }
    std::map<std::pair<std::int64_t, std::int64_t>, double> medians;
    for (const auto& [head, list] : ratios) {
        const double median = median_of(list);
        medians[head] = median > 1e299 ? std::numeric_limits<double>::quiet_NaN() : median;
    }
    return medians;
}

}  // namespace

std::vector<Candidate> descale_of_other_head(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const SideInputs& side = evidence.world->recording().side_inputs();
    const auto beyond = ratio_of_heads(evidence);
    for (const DescaledOperand& operand : applied_here(evidence)) {
        const Descale& descale = side.*operand.descale;
        if (descale.heads <= 1) continue;
        const Coordinate own = operand.stage == Stage::q ? Coordinate::head : Coordinate::kv_head;
        std::vector<OtherHead> others = other_heads(evidence, own, descale.heads);
        if (descale.heads < evidence.problem().heads) others.push_back({Coordinate::head, 0});
        for (const OtherHead& other : others) {
            const auto wrong = [=, of = operand.descale, head = other.head](
                                   const SearchedTile& site,
                                   const Eigen::VectorXd& right) -> Eigen::VectorXd {
                const Descale& there = site.world->recording().side_inputs().*of;
                const std::int64_t entries = there.heads * site.world->recording().problem().batch;
                const std::int64_t at = site.id.batch * there.heads + at_tile(head, site);
                // One step beyond either end is the other end, as where the array is one of a kind.
                const bool is_step = !head.is(Coordinate::head);
                if (at < entries || is_step)
                    return rows_of_entry(there, (at + entries) % entries, right.size());
                const auto ratio = beyond.find({site.id.batch, site.id.head});
                return ratio == beyond.end() ? right : right * ratio->second;
            };
            candidates.push_back({{{"operand", operand.name}, {"head", other.head.text()}},
                                  applies(operand, evidence.acts, wrong),
                                  other.free_parameters});
        }
    }
    return candidates;
}

}  // namespace tilescope
