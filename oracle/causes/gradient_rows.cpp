#include "oracle/causes/gradient_rows.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "oracle/replay/tiles.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// A number of each row that the stage takes.
struct RowNumber {
    Stage stage;
    const char* name;
    Estimate& (*in)(SearchedTile&);
    /// What it must have been where the result is `got`, and by how much that may be off.
    std::pair<double, double> (*solved)(const SearchedTile&, const Matrix& scores, double got, double error,
                                        Eigen::Index, Eigen::Index);
};

constexpr std::array<RowNumber, 2> row_numbers = {{
    {Stage::ds, "delta", [](SearchedTile& site) -> Estimate& { return site.delta; },
     [](const SearchedTile& site, const Matrix&, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double p = site.p.value(i, j);
         const double dp = site.dp.value(i, j);
         return std::pair(dp - got / p, error / std::abs(p) + 2 * u_f32 * std::abs(dp));
     }},
    {Stage::p, "lse", [](SearchedTile& site) -> Estimate& { return site.m; },
     [](const SearchedTile&, const Matrix& scores, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double s = scores(i, j);
         return std::pair(s - std::log(got), error / got + 4 * u_f32 * std::abs(s));
     }},
}};

/// The rows of all heads, one after the other; of delta those that were dumped.
std::vector<double> all_rows(const CauseSearch& world, Stage stage) {
    const Problem& problem = world.recording().problem();
    std::vector<double> values;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < problem.heads; ++head) {
            const HeadCall& call = *world.call(batch, head);
            Matrix rows = Matrix::Constant(problem.seqlen_q, 1, quiet_nan);
            if (stage == Stage::p) {
                const double unit = call.units.lse_log_base == LogBase::two ? std::log(2.0) : 1;
                rows.topRows(call.problem.seqlen_q) =
                    unit * load_input(world.recording(), Input::lse, batch, head, 0, call.problem.seqlen_q);
            } else {
                for (std::int64_t q_block = 0; q_block < call.problem.q_blocks(); ++q_block)
                    if (const auto tile = load_tile(world.recording(), call.problem, Stage::delta,
                                                    {batch, head, q_block, 0}))
                        rows.middleRows(q_block * problem.block_m, tile->rows()) = tile->cast<double>();
            }
            values.insert(values.end(), rows.data(), rows.data() + rows.size());
        }
    }
    return values;
}

std::shared_ptr<const ValueIndex> index_of_rows(const CauseSearch& world, Stage stage) {
    return world.once<ValueIndex>(fmt::format("rows for {}", stage_info(stage).name),
                                  [&] { return ValueIndex(all_rows(world, stage)); });
}

/// The rows of all heads, and where those of the tile begin.
struct RowMemory {
    std::shared_ptr<const ValueIndex> values;
    std::int64_t first = 0;
};

RowMemory memory_of(const RowNumber& number, const SearchedTile& site) {
    const Problem& problem = site.world->recording().problem();
    return {index_of_rows(*site.world, number.stage),
            (site.id.batch * problem.heads + site.id.head) * problem.seqlen_q + site.first_row};
}

/// `by_rows`: of each row one element, which tells an order of the rows.
std::optional<AddressMap> map_of_tile(const RowNumber& taken, const Observation& seen,
                                      const RowMemory& memory, bool by_rows) {
    std::vector<AddressSample> samples;
    const Matrix scores = taken.stage == Stage::p ? finished_scores(seen.site).value : Matrix();
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double got = seen.natural(i, j);
            const double error =
                2 * seen.expected.error(i, j) / std::abs(seen.factor.at(i, j)) + 4 * u_f32 * std::abs(got);
            // Where next to nothing is left of it the number is not known.
            if (!(std::abs(got) > 32 * error) || !std::isfinite(got) || samples.size() > 2048) continue;
            if (taken.stage == Stage::p && !(got > 0)) continue;
            const auto [value, off] = taken.solved(seen.site, scores, got, error, i, j);
            if (!std::isfinite(value) || !std::isfinite(off)) continue;
            samples.push_back({i, by_rows ? 0 : j, memory.values->sources(value, off, memory.first)});
            if (by_rows && !samples.back().sources.empty()) break;
        }
    }
    return find_address_map(samples, 1, {Coordinate::row, Coordinate::col});
}

/// The tile's numbers as the map takes them; unknown beyond what is known of the memory.
Change takes_from(const RowNumber& taken, const AddressMap& map) {
    return {.inputs = [=](SearchedTile& site) {
        const RowMemory memory = memory_of(taken, site);
        Estimate& numbers = taken.in(site);
        for (Eigen::Index i = 0; i < numbers.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < numbers.value.cols(); ++j) {
                const std::int64_t at = memory.first + map.apply(i, 0);
                const double value = memory.values->has(at) ? memory.values->at(at) : quiet_nan;
                numbers.error(i, j) = std::isnan(value) ? infinity : 0;
                numbers.value(i, j) = std::isnan(value) ? 0 : value;
            }
        }
    }};
}

}  // namespace

std::vector<Candidate> gradient_rows_read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || evidence.problem().direction == Direction::forward) return candidates;
    for (const RowNumber& taken : row_numbers) {
        if (taken.stage != evidence.acts) continue;
        std::set<std::string> texts;
        std::size_t tiles = 0;
        for (const Observation& seen : evidence.seen) {
            if (!seen.is_bad() || ++tiles > 3) break;
            const RowMemory memory = memory_of(taken, seen.site);
            auto map = map_of_tile(taken, seen, memory, false);
            if (!map) map = map_of_tile(taken, seen, memory, true);
            if (!map || map->parameters == 0 || !texts.insert(map->text()).second) continue;
            candidates.push_back(
                {{{"takes", taken.name + map->text()}}, takes_from(taken, *map), cost_of(*map)});
        }
    }
    return candidates;
}

}  // namespace tilescope
