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
#include "oracle/causes/gradient_rows.h"
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
                                     : tiles_.emplace(&seen, numbers_of(slot_, seen)).first->second;
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

/// Whether nearly all of them took the number of this place.
bool is_taken_at(const ReadAddress& address, const ReadQuestion& question, std::int64_t ld) {
    const auto off = std::ranges::count_if(question.numbers, [&](const TakenNumber& taken) {
        return !taken.fits(question.memories[taken.memory].at(address.at(taken.place, ld)));
    });
    return std::size_t(off) * 8 <= question.numbers.size();
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
          ld_(columns_of(slot, evidence.problem(), stage_)),
          known_(slot) {}

    void add(std::vector<Candidate>& candidates) {
        if (ld_ == tile_shape(evidence_.problem(), stage_).cols && !slot_.array)
            for (const AddressMap& map : maps_within_tiles(evidence_, ld_, known_))
                add(text_of(map, ld_), cost_of(map), read_by(map, ld_), candidates);
        // Those of a load are indices into its array.
        if (is_operand(stage_)) return;
        constexpr std::size_t fewest = 8;
        constexpr std::size_t most = 4;
        const ReadQuestion question = question_of(evidence_, ld_, known_);
        if (question.numbers.size() < fewest) return;
        if (slot_.array && is_taken_at(question.right(), question, ld_))
            add("", 0, read_by(question.right(), stage_, ld_), candidates);
        if (slot_.only_there) return;
        for (const ReadAddress& read : find_reads(question, most))
            add(text_of(read, ld_), 1 + read.choices(), read_by(read, stage_, ld_), candidates);
    }

 private:
    void add(const std::string& index, int cost, const ReadAt& at, std::vector<Candidate>& candidates) const {
        Change change = reads_slot(slot_, stage_, at);
        const bool is_named = *slot_.name != '\0';
        const std::string_view stage = stage_info(slot_.variable == var::s ? Stage::s : stage_).name;
        change.indices = {{std::string(is_named ? slot_.name : stage), index}};
        candidates.push_back({{{slot_.parameter, slot_.name + index}}, std::move(change), cost});
    }

    const Evidence& evidence_;
    const Slot& slot_;
    Stage stage_;
    std::int64_t ld_;
    KnownTiles known_;
};

template <SlotCause cause>
std::vector<Candidate> read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    for (const Slot& slot : all_slots())
        if (slot.cause == cause && slot.is_of(evidence)) SlotReads(evidence, slot).add(candidates);
    return candidates;
}

std::vector<Candidate> numbers_read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates = read_elsewhere<SlotCause::numbers>(evidence);
    for (Candidate& of_heads : rows_of_heads_read_elsewhere(evidence))
        candidates.push_back(std::move(of_heads));
    return candidates;
}

/// Of rows that lanes of a warp share, and the next one: these are tried where no value tells the row.
std::vector<Candidate> rescaled_by_other_row(const Evidence& evidence) {
    if (evidence.direct()) return read_elsewhere<SlotCause::factor>(evidence);
    std::vector<Candidate> candidates;
    const Slot& factor = *std::ranges::find(all_slots(), SlotCause::factor, &Slot::cause);
    const Expr row = Coordinate::row;
    const auto add = [&](const Expr& other) {
        const ReadAddress address{other, Coordinate::nothing};
        candidates.push_back({{{factor.parameter, factor.name + text_of(address, 1)}},
                              reads_slot(factor, evidence.acts, read_by(address, evidence.acts, 1)),
                              1 + other.choices() / 2});
    };
    for (std::int64_t n = 2; n <= evidence.problem().block_m; n *= 2) {
        add(Expr::changed(Op::multiple, row, n));
        add(row ^ n / 2);
    }
    add(row + 1);
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
         read_elsewhere<SlotCause::moved>},
        {"scores_read_elsewhere",
         "address",
         {Stage::p},
         "the exponentials are those of other scores of the tile",
         "the index with which the softmax reads its scores: fragment layout, leading dimension",
         read_elsewhere<SlotCause::scores>},
        {"numbers_read_elsewhere",
         "address",
         {Stage::p, Stage::ds},
         "lse, p, dp or delta are those of other elements or rows",
         "the index with which the row's lse and delta, or the tile's p and dp, are read",
         numbers_read_elsewhere},
        {"rescaled_by_other_row",
         "recurrence",
         {Stage::l, Stage::acc},
         "the row sum or the O accumulator is rescaled by the factor of another row",
         "which row an element of a lane belongs to",
         rescaled_by_other_row,
         "--input ramped"},
    };
}

std::vector<Cause> state_read_causes() {
    return {
        {"p_of_other_max",
         "recurrence",
         {Stage::p},
         "P is computed with another maximum than that of its row",
         "which maximum the exponential subtracts, and the row that it is read at",
         read_elsewhere<SlotCause::maximum>},
    };
}

}  // namespace tilescope
