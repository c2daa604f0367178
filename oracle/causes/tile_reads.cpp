// Numbers of a tile that a stage takes, or holds, from other places of the tile than it should: what each element must have
// taken is solved for, and where that stands tells the index.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/slots.h"
#include "oracle/causes/table.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/read_search.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// The numbers of each tile that is asked, once.
class KnownTiles {
 public:
    explicit KnownTiles(const Slot& slot) : slot_(slot) {}

    const SlotNumbers& of(const Observation& seen) {
        const auto known = tiles_.find(&seen);
        return known != tiles_.end() ? known->second
                                     : tiles_.emplace(&seen, slot_.numbers(seen)).first->second;
    }

 private:
    const Slot& slot_;
    std::map<const Observation*, SlotNumbers> tiles_;
};

/// The tile's numbers in rows of a whole tile; NaN: not known.
std::vector<double> in_memory(const Matrix& tile, std::int64_t rows, std::int64_t ld) {
    std::vector<double> values(std::size_t(rows * ld), quiet_nan);
    for (Eigen::Index i = 0; i < tile.rows(); ++i) std::ranges::copy(tile.row(i), values.begin() + i * ld);
    return values;
}

/// What runs past a row is in the row before or in nobody's.
ReadAt read_by(const AddressMap& described, std::int64_t ld) {
    return [=, map = in_rows_of(described, ld)](const SearchedTile&, Eigen::Index row,
                                                Eigen::Index col) -> std::optional<std::int64_t> {
        const std::int64_t at = map.apply(row, col);
        if (at < 0 || (map.has_rows() && map.row_of(row, col) != at / ld)) return std::nullopt;
        return at;
    };
}

ReadAt read_by(const ReadAddress& address, Stage stage, std::int64_t ld) {
    return [=](const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
        return std::optional(address.at(element_place(stage, site, row, col), ld));
    };
}

/// Maps that say where in a tile like its own the numbers of each element stand; a NaN stands nowhere.
std::vector<AddressMap> maps_within_tiles(const Evidence& evidence, std::int64_t ld, KnownTiles& known) {
    std::map<const Observation*, std::shared_ptr<const ValueIndex>> memories;
    const auto sample_of = [&](const Observation& seen, Eigen::Index row,
                               Eigen::Index col) -> std::optional<AddressSample> {
        const SlotNumbers& numbers = known.of(seen);
        if (!tells_address(numbers.taken(row, col))) return std::nullopt;
        std::shared_ptr<const ValueIndex>& memory = memories[&seen];
        if (!memory)
            memory = std::make_shared<const ValueIndex>(in_memory(numbers.right, numbers.right.rows(), ld));
        AddressSample sample{row, col, {}};
        if (numbers.is_known(row, col))
            sample.sources = memory->sources(numbers.taken(row, col), numbers.error(row, col), 0);
        return sample;
    };
    // What runs past a row is in the row before or in nobody's: both fit most elements.
    constexpr std::size_t most_kinds = 2;
    return voted_maps(evidence, ld, axes_of_tile(evidence.observed), sample_of, most_kinds);
}

/// What a few wrong elements took.
ReadQuestion question_of(const Evidence& evidence, std::int64_t ld, KnownTiles& known) {
    constexpr std::int64_t few_tiles = 8;
    constexpr std::int64_t few = 64;
    const Problem& problem = evidence.problem();
    const TileShape shape = tile_shape(problem, evidence.observed);
    ReadQuestion question;
    const TileAxes axes = axes_of_tile(evidence.observed);
    question.ranges = {{axes.down, shape.rows}};
    if (ld > 1) question.ranges.push_back({axes.along, shape.cols});
    question.ranges.insert(question.ranges.end(), {{Coordinate::nothing, 1},
                                                   {Coordinate::kv_tile, problem.kv_tiles()},
                                                   {Coordinate::q_block, problem.q_blocks()},
                                                   {Coordinate::head, problem.heads}});
    if (ld == 1 && shape.cols > 1) question.ranges.push_back({axes.along, shape.cols});
    const std::int64_t bad = std::ranges::count_if(evidence.seen, &Observation::is_bad);
    const std::int64_t tiles = std::min(bad, few_tiles);
    for (std::int64_t t = 0; t < tiles; ++t) {
        // The bad ones come first.
        const Observation& seen = evidence.seen[std::size_t(t * bad / tiles)];
        const SlotNumbers& numbers = known.of(seen);
        question.memories.push_back({in_memory(numbers.right, shape.rows, ld), ld});
        const std::int64_t step = seen.wrong_elements * tiles / few | 1;
        std::int64_t met = 0;
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const Eigen::Index row = i / seen.got.cols();
            const Eigen::Index col = i % seen.got.cols();
            if (!seen.is_wrong(row, col) || met++ % step != 0) continue;
            if (!numbers.is_known(row, col) || !tells_address(numbers.taken(row, col))) continue;
            question.numbers.push_back({element_place(evidence.observed, seen.site, row, col),
                                        question.memories.size() - 1, numbers.taken(row, col),
                                        numbers.error(row, col)});
        }
    }
    return question;
}

/// "[row ^ 4][d]"; of numbers of rows "[row ^ 4]".
std::string text_of(const ReadAddress& address, std::int64_t ld) {
    return ld == 1 ? Index{{address.row}, {}}.text() : address.text();
}
std::string text_of(const AddressMap& map, std::int64_t ld) {
    return ld == 1 && map.has_rows() ? Index{{map.index.parts.front()}, {}}.text() : map.text();
}

/// Candidates of one slot.
class SlotReads {
 public:
    SlotReads(const Evidence& evidence, const Slot& slot)
        : evidence_(evidence),
          slot_(slot),
          stage_(evidence.observed),
          ld_(tile_shape(evidence.problem(), stage_).cols),
          known_(slot) {}

    void add(std::vector<Candidate>& candidates) {
        for (const AddressMap& map : maps_within_tiles(evidence_, ld_, known_))
            add(text_of(map, ld_), cost_of(map), read_by(map, ld_), candidates);
        // Those of a load are indices into its array.
        if (is_operand(stage_)) return;
        constexpr std::size_t fewest = 8;
        constexpr std::size_t most = 4;
        const ReadQuestion question = question_of(evidence_, ld_, known_);
        if (question.numbers.size() < fewest) return;
        for (const ReadAddress& read : find_reads(question, most))
            add(text_of(read, ld_), 1 + read.choices(), read_by(read, stage_, ld_), candidates);
    }

 private:
    void add(const std::string& index, int cost, const ReadAt& at, std::vector<Candidate>& candidates) const {
        Change change = reads_slot(slot_, stage_, at);
        change.indices = {{std::string(stage_info(stage_).name), index}};
        candidates.push_back({{{slot_.parameter, index}}, std::move(change), cost});
    }

    const Evidence& evidence_;
    const Slot& slot_;
    Stage stage_;
    std::int64_t ld_;
    KnownTiles known_;
};

std::vector<Candidate> elements_moved(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    for (const Slot& slot : all_slots())
        if (slot.is_of(evidence)) SlotReads(evidence, slot).add(candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> tile_read_causes() {
    return {
        {"elements_moved",
         "address",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o,
          Stage::lse, Stage::dout, Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv},
         "elements of the tile stand in each other's place",
         "the index with which the tile is stored, and the fragment layout",
         elements_moved},
    };
}

}  // namespace tilescope
