#include "oracle/causes/gradient_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "oracle/causes/array_indices.h"
#include "oracle/causes/slots.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// lse or delta of all heads, one after the other, in natural units; of delta those that were dumped.
std::vector<double> rows_of_heads(const CauseSearch& world, Stage rows_of) {
    const Problem& problem = world.recording().problem();
    std::vector<double> values;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < problem.heads; ++head) {
            const HeadCall& call = *world.call(batch, head);
            Matrix rows = Matrix::Constant(problem.seqlen_q, 1, quiet_nan);
            if (rows_of == Stage::lse) {
                const double unit = call.units.lse_log_base == LogBase::two ? std::log(2.0) : 1;
                rows.topRows(call.problem.seqlen_q) =
                    unit * load_input(world.recording(), Input::lse, batch, head, 0, call.problem.seqlen_q);
            } else {
                for (std::int64_t q_block = 0; q_block < call.problem.q_blocks(); ++q_block)
                    if (const auto tile =
                            load_tile(world.recording(), call.problem, rows_of, {batch, head, q_block, 0}))
                        rows.middleRows(q_block * problem.block_m, tile->rows()) = tile->cast<double>();
            }
            values.insert(values.end(), rows.data(), rows.data() + rows.size());
        }
    }
    return values;
}

std::shared_ptr<const std::vector<double>> memory_of(const CauseSearch& world, Stage rows_of) {
    return world.once<std::vector<double>>(fmt::format("rows of {}", stage_info(rows_of).name),
                                           [&] { return rows_of_heads(world, rows_of); });
}

/// Unknown beyond what is known of the memory.
Change takes_rows_at(const Slot& slot, Stage rows_of, const Index& index) {
    return {.inputs = [=, &slot](SearchedTile& site) {
        const std::vector<double>& memory = *memory_of(*site.world, rows_of);
        const AddressInTile address = addresses_by(index, rows_of, site);
        Estimate rows = numbers_of(slot.variable, site);
        for (Eigen::Index i = 0; i < rows.value.rows(); ++i) {
            const std::int64_t at = address(i, 0);
            const bool is_there = at >= 0 && at < std::ssize(memory);
            const double value = is_there ? memory[std::size_t(at)] : quiet_nan;
            rows.error(i, 0) = std::isnan(value) ? infinity : 0;
            rows.value(i, 0) = std::isnan(value) ? 0 : value;
        }
        put(slot.variable, std::move(rows), site);
    }};
}

}  // namespace

std::vector<Candidate> rows_of_heads_read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const Slot& slot : slots_of_heads()) {
        if (!slot.is_of(evidence)) continue;
        const Stage rows_of = evidence.observed == Stage::p ? Stage::lse : Stage::delta;
        const std::vector<double>& memory = *memory_of(*evidence.world, rows_of);
        std::map<const Observation*, SlotNumbers> known;
        const auto stands_at = [&](const Observation& seen, Eigen::Index row, Eigen::Index col,
                                   std::int64_t at) -> std::optional<bool> {
            if (!known.contains(&seen)) known[&seen] = numbers_of(slot, seen);
            const SlotNumbers& numbers = known[&seen];
            if (!numbers.is_known(row, col)) return std::nullopt;
            return std::abs(memory[std::size_t(at)] - numbers.taken(row, col)) <= numbers.error(row, col);
        };
        const IndexedArray array = indexed_array(rows_of, evidence.problem());
        for (const OtherIndex& other : other_array_indices(evidence, array, stands_at))
            candidates.push_back(
                {{{slot.parameter, fmt::format("{}: {}", slot.name, other.text(array.right))}},
                 takes_rows_at(slot, rows_of, other.index),
                 other.choices() + 1});
    }
    return candidates;
}

}  // namespace tilescope
