// Values that come from other addresses: from which, is read from where in memory the dumped values stand.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/causes/array_indices.h"
#include "oracle/causes/both_operands.h"
#include "oracle/causes/loads.h"
#include "oracle/causes/table.h"

namespace tilescope {

namespace {

/// Larger arrays are not searched.
constexpr std::int64_t largest_array = std::int64_t(1) << 25;

// ---- staged operands

/// The operand as it lies in memory; empty where it is too large to be searched.
std::shared_ptr<const std::vector<double>> operand_array(const CauseSearch& world, Stage stage) {
    return world.once<std::vector<double>>(fmt::format("operand {}", stage_info(stage).name), [&] {
        const ArrayExtents shape = array_shape(stage, world.recording().problem());
        std::vector<double> values;
        if (shape.size() > largest_array) return values;
        for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
            for (std::int64_t head = 0; head < shape.heads; ++head) {
                const Matrix rows = world.input_rows(stage, batch, head, 0, shape.length);
                values.insert(values.end(), rows.data(), rows.data() + rows.size());
            }
        }
        return values;
    });
}

std::int64_t length_of(const SearchedTile& site, Stage stage) {
    return is_of_queries(stage) ? site.call->problem.seqlen_q : site.call->problem.seqlen_kv;
}

/// Whether a staged tile holds the numbers of the input and no others.
bool is_copied(const Evidence& evidence, Stage stage) {
    const Units& units = evidence.units();
    const SideInputs& side = evidence.world->recording().side_inputs();
    switch (stage) {
        case Stage::dout:
            return true;
        case Stage::q:
            return units.q_scale == 1 && units.q_cast == Dtype::f32 &&
                   (side.descale_q.empty() || !units.q_dequantised);
        case Stage::k:
            return units.k_scale == 1 && units.k_cast == Dtype::f32 &&
                   (side.descale_k.empty() || !units.k_dequantised);
        default:
            return units.v_cast == Dtype::f32 && (side.descale_v.empty() || !units.v_dequantised);
    }
}

/// The tile from addresses of the array. Bounded: rows of another head, or beyond the sequence, are zeros; otherwise
/// what lies beyond the array is not known.
Change reads(Stage stage, const Index& index, bool bounded) {
    // `see` gets each element with its value, or nullopt where there is none.
    const auto each = [=](const SearchedTile& site, Eigen::Index rows, Eigen::Index cols, const auto& see) {
        const std::vector<double>& array = *operand_array(*site.world, stage);
        const ArrayExtents shape = array_shape(stage, site.world->recording().problem());
        const AddressInTile address = addresses_by(index, stage, site);
        const std::int64_t head = origin(site, stage) / shape.size_of_head() * shape.size_of_head();
        const std::int64_t begin = bounded ? head : 0;
        const std::int64_t end = bounded ? head + length_of(site, stage) * shape.cols : shape.size();
        for (Eigen::Index i = 0; i < rows; ++i) {
            for (Eigen::Index j = 0; j < cols; ++j) {
                const std::int64_t at = address(i, j);
                see(i, j, at >= begin && at < end ? std::optional(array[std::size_t(at)]) : std::nullopt);
            }
        }
    };
    const auto inputs = [=](SearchedTile& site) {
        each(site, site.raw.rows(), site.raw.cols(),
             [&](Eigen::Index i, Eigen::Index j, std::optional<double> value) {
                 site.raw(i, j) = value.value_or(0);
             });
    };
    if (bounded) return {.inputs = inputs};
    const auto result = [=](const SearchedTile& site, Estimate& estimate) {
        each(site, estimate.value.rows(), estimate.value.cols(),
             [&](Eigen::Index i, Eigen::Index j, std::optional<double> value) {
                 if (!value) estimate.error(i, j) = infinity;
             });
    };
    return {.inputs = inputs, .result = result};
}

/// The operand at these indices, within its head or beyond it.
void add_indices(const Evidence& evidence, const std::vector<OtherIndex>& others,
                 std::vector<Candidate>& candidates) {
    const Stage stage = evidence.acts;
    const Problem& problem = evidence.problem();
    for (const OtherIndex& other : others) {
        const std::vector<CauseParameter> told = told_of_load(other, stage, problem);
        const std::string_view name = name_of_load(other, stage, problem);
        // A name of its own costs less.
        const int cost = told.empty() ? 0 : other.choices() + int(name == operand_addresses_name);
        for (const bool bounded : {true, false}) {
            candidates.push_back({told, reads(stage, other.index, bounded), cost});
            candidates.back().name = name;
            candidates.back().change.indices = {rewrite_of_load(other, stage, problem)};
        }
    }
}

// ---- an operand that the dump has not, told by what is summed up of it

/// An element of acc that is wrong.
struct SumOfV {
    const Observation* seen;
    Eigen::Index row;
    Eigen::Index col;
    double carried;  ///< from the tile before
};

std::vector<SumOfV> asked_sums(const Evidence& evidence) {
    constexpr std::int64_t most_asked = 64;
    std::vector<SumOfV> asked;
    for_some_wrong(evidence, most_asked, [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        const double carried = seen.site.before.acc.value(row, col) * seen.site.factor.value(row, 0);
        if (std::isfinite(carried) && std::isfinite(seen.natural(row, col)))
            asked.push_back({&seen, row, col, carried});
    });
    return asked;
}

/// Whether nearly all sums are of V at these addresses, as far as all of their terms are within the array.
bool is_sum_at(const Index& index, const std::vector<double>& v, const std::vector<SumOfV>& asked) {
    constexpr std::size_t least = 8;
    std::size_t tried = 0;
    std::size_t off = 0;
    for (const auto& [seen, row, col, carried] : asked) {
        const SearchedTile& site = seen->site;
        const AddressInTile address = addresses_by(index, Stage::v, site);
        spend(8 * site.keys());
        double sum = carried;
        for (Eigen::Index term = 0; term < site.keys(); ++term) {
            const double p = site.operand_p.value(row, term);
            if (p == 0) continue;
            const std::int64_t at = address(term, col);
            sum += p * (at >= 0 && at < std::ssize(v) ? v[std::size_t(at)] : quiet_nan);
        }
        if (std::isnan(sum)) continue;
        ++tried;
        const double error = seen->expected.error(row, col) / std::abs(seen->factor.at(row, col));
        off += !(std::abs(sum - seen->natural(row, col)) <= 2 * error);
        if (off * 8 > tried) return false;
    }
    return tried >= least;
}

std::vector<Candidate> addresses_of_sums(const Evidence& evidence, const std::vector<double>& v) {
    constexpr std::size_t most_told = 3;
    std::vector<Candidate> candidates;
    const IndexedArray array = indexed_array(Stage::v, evidence.problem());
    const std::vector<SumOfV> asked = asked_sums(evidence);
    std::vector<OtherIndex> found = other_indices(array);
    std::erase_if(found, [&](const OtherIndex& other) { return !is_sum_at(other.index, v, asked); });
    std::ranges::stable_sort(found, {}, &OtherIndex::choices);
    if (found.size() > most_told) found.resize(most_told);
    add_indices(evidence, found, candidates);
    return candidates;
}

/// Of a dumped operand, or of what is summed up of it.
std::vector<Candidate> told_addresses(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Stage stage = evidence.acts;
    const bool is_summed = stage == Stage::v && evidence.observed == Stage::acc;
    if (!(evidence.direct() || is_summed) || !is_copied(evidence, stage)) return candidates;
    const std::vector<double>& array = *operand_array(*evidence.world, stage);
    if (array.empty()) return candidates;
    if (is_summed) return addresses_of_sums(evidence, array);
    const auto stands_at = [&](const Observation& seen, Eigen::Index row, Eigen::Index col,
                               std::int64_t at) -> std::optional<bool> {
        const double got = seen.got(row, col);
        return tells_address(got) ? std::optional(array[std::size_t(at)] == got) : std::nullopt;
    };
    const IndexedArray indexed = indexed_array(stage, evidence.problem());
    add_indices(evidence, other_array_indices(evidence, indexed, stands_at), candidates);
    return candidates;
}

std::vector<Candidate> other_addresses(const Evidence& evidence) {
    std::vector<Candidate> candidates = told_addresses(evidence);
    return candidates.empty() ? common_loads(evidence) : candidates;
}

}  // namespace

std::vector<Cause> address_causes() {
    return {
        {operand_addresses_name,
         "address",
         {Stage::q, Stage::k, Stage::v, Stage::dout},
         "the staged tile holds elements of other addresses of its array",
         "the index of the load from global memory, and that of the store to shared memory",
         of_both_operands(other_addresses)},
    };
}

}  // namespace tilescope
