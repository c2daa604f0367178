// Numbers of a tile that a stage takes, or holds, from other places of the tile than it should: what each element must have
// taken is solved for, and where that stands tells the index.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "oracle/causes/array_addresses.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/gradient_rows.h"
#include "oracle/causes/product_results.h"
#include "oracle/causes/table.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/address_map.h"
#include "oracle/solve/term_search.h"
#include "oracle/solve/value_index.h"

namespace tilescope {

namespace {

/// Of a tile the numbers as they should be, what each element must have taken in place of its own, and by how much that may
/// be off; NaN where it is not known.
struct TakenNumbers {
    Matrix right;
    Matrix taken;
    Matrix error;

    bool is_known(Eigen::Index row, Eigen::Index col) const {
        return std::isfinite(taken(row, col)) && std::isfinite(error(row, col));
    }
};

/// The tile as an index reads it, of which this is the right one.
using Reader = std::function<Estimate(const SearchedTile&, const Estimate&)>;

/// A tile of numbers with an index: a slot of the stage.
struct TakenTile {
    std::string_view cause;
    bool (*is_of)(const Evidence&);
    const char* parameter;  ///< what the report says of the index, with the name of the tile before it
    const char* name;
    TakenNumbers (*numbers)(const Observation&);
    Change (*change)(Stage, const Reader&);
};

constexpr std::string_view moved_name = "elements_moved";
constexpr std::string_view scores_name = "scores_read_elsewhere";
constexpr std::string_view numbers_name = "numbers_read_elsewhere";

template <class Solve>
TakenNumbers solved(const Observation& seen, const Matrix& right, const Solve& solve) {
    TakenNumbers numbers{right, Matrix(seen.got.rows(), seen.got.cols()),
                         Matrix(seen.got.rows(), seen.got.cols())};
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
            std::tie(numbers.taken(i, j), numbers.error(i, j)) = solve(i, j);
    return numbers;
}

// ---- the tile itself

TakenNumbers held(const Observation& seen) {
    // Of a number that was rounded as it was stored, what another one in its place may be off by is its own.
    const Stage stage = seen.context.stage;
    const Dtype stored = is_output(stage) ? stage_dtype(seen.site.call->problem, stage) : Dtype::f32;
    return solved(seen, seen.expected.value, [&](Eigen::Index i, Eigen::Index j) {
        const double got = seen.got(i, j);
        return std::pair(got, seen.expected.error(i, j) + cast_bound(stored, std::abs(got)));
    });
}

Change holds(Stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) { estimate = read(site, estimate); }};
}

// ---- what a product leaves, before it is added to anything

/// Where nothing is done with a product it is what the stage holds.
bool is_added_up(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const HeadCall& call = evidence.call();
    if (evidence.observed != Stage::s) return evidence.observed == Stage::acc;
    const bool hides = problem.mask != Mask::none || problem.window_left >= 0 || problem.window_right >= 0;
    return hides || call.capped() || call.biased();
}

TakenNumbers added(const Observation& seen) {
    const ProductResults products = product_results(seen);
    return {products.expected, products.got, products.error};
}

Change adds(Stage stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        Estimate sums = stage == Stage::s ? scaled_scores(*site.call, site.q, site.k) : std::move(result);
        Matrix before(sums.value.rows(), sums.value.cols());
        for (Eigen::Index i = 0; i < before.rows(); ++i)
            for (Eigen::Index j = 0; j < before.cols(); ++j) before(i, j) = carried_over(stage, site, i, j);
        sums.value -= before;
        sums = read(site, sums);
        sums.value += before;
        result = stage == Stage::s
                     ? dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sums))
                     : std::move(sums);
    }};
}

// ---- what goes into exponentials, and into ds

bool is_p(const Evidence& evidence) {
    return evidence.observed == Stage::p;
}
bool is_ds(const Evidence& evidence) {
    return evidence.observed == Stage::ds;
}

/// Exponentials of other scores than their own, less the maximum of their own row.
TakenNumbers scores_taken(const Observation& seen) {
    return solved(seen, finished_scores(seen.site).value, [&](Eigen::Index i, Eigen::Index j) {
        const double error = seen.expected.error(i, j) / seen.expected.value(i, j);
        return std::pair(std::log(seen.natural(i, j)) + seen.site.m.value(i, 0), 2 * std::abs(error));
    });
}

Change takes_scores(Stage, const Reader& read) {
    return {.inputs = [=](SearchedTile& site) {
        take_finished_scores(site);
        site.dumped_s = read(site, site.dumped_s);
    }};
}

/// By how much a number of ds may be off, in natural units; infinite where next to nothing is left of it.
double error_of_ds(const Observation& seen, Eigen::Index i, Eigen::Index j) {
    const double got = seen.natural(i, j);
    const double error =
        2 * seen.expected.error(i, j) / std::abs(seen.factor.at(i, j)) + 4 * u_f32 * std::abs(got);
    return std::abs(got) > 32 * error ? error : infinity;
}

TakenNumbers probabilities_taken(const Observation& seen) {
    const SearchedTile& site = seen.site;
    return solved(seen, site.p.value, [&](Eigen::Index i, Eigen::Index j) {
        const double difference = site.dp.value(i, j) - site.delta.value(i, 0);
        return std::pair(seen.natural(i, j) / difference, error_of_ds(seen, i, j) / std::abs(difference));
    });
}

TakenNumbers dp_taken(const Observation& seen) {
    const SearchedTile& site = seen.site;
    return solved(seen, site.dp.value, [&](Eigen::Index i, Eigen::Index j) {
        const double p = site.p.value(i, j);
        const double delta = site.delta.value(i, 0);
        return std::pair(seen.natural(i, j) / p + delta,
                         error_of_ds(seen, i, j) / std::abs(p) + 2 * u_f32 * std::abs(delta));
    });
}

template <Estimate SearchedTile::*tile>
Change takes(Stage, const Reader& read) {
    return {.inputs = [=](SearchedTile& site) { site.*tile = read(site, site.*tile); }};
}

constexpr std::array<TakenTile, 5> taken_tiles = {{
    {moved_name, [](const Evidence&) { return true; }, "holds", "", held, holds},
    {moved_name, is_added_up, "adds", "", added, adds},
    {scores_name, is_p, "reads", "", scores_taken, takes_scores},
    {numbers_name, is_ds, "takes", "p", probabilities_taken, takes<&SearchedTile::p>},
    {numbers_name, is_ds, "takes", "dp", dp_taken, takes<&SearchedTile::dp>},
}};

// ---- where they are read

/// The numbers of each tile that is asked, once.
class KnownTiles {
 public:
    explicit KnownTiles(const TakenTile& taken) : taken_(taken) {}

    const TakenNumbers& of(const Observation& seen) {
        const auto known = tiles_.find(&seen);
        return known != tiles_.end() ? known->second
                                     : tiles_.emplace(&seen, taken_.numbers(seen)).first->second;
    }

 private:
    const TakenTile& taken_;
    std::map<const Observation*, TakenNumbers> tiles_;
};

/// Elements from a row of a tile to the next: those of a whole tile, for tiles at the end as well.
std::int64_t row_length(const Problem& problem, Stage stage) {
    return tile_shape(problem, stage).cols;
}

std::shared_ptr<const ValueIndex> index_of(const Matrix& tile, std::int64_t ld) {
    std::vector<double> values(std::size_t(tile.rows() * ld), quiet_nan);
    for (Eigen::Index i = 0; i < tile.rows(); ++i) std::ranges::copy(tile.row(i), values.begin() + i * ld);
    return std::make_shared<const ValueIndex>(std::move(values));
}

/// Where in a tile's memory, in rows of `ld` elements, each of its elements is read; beyond it nothing is known.
using ReadAt =
    std::function<std::optional<std::int64_t>(const SearchedTile&, Eigen::Index row, Eigen::Index col)>;

ReadAt read_by(const AddressMap& described, std::int64_t ld) {
    return [=, map = in_rows_of(described, ld)](const SearchedTile&, Eigen::Index row,
                                                Eigen::Index col) -> std::optional<std::int64_t> {
        const std::int64_t at = map.apply(row, col);
        if (at < 0 || (map.has_rows() && map.row_of(row, col) != at / ld)) return std::nullopt;
        return at;
    };
}

/// A tile's elements where they are read.
Estimate moved(const SearchedTile& site, const Estimate& right, const ReadAt& read, std::int64_t ld) {
    Estimate estimate = right;
    for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
            const std::int64_t at = read(site, i, j).value_or(-1);
            if (at < 0 || at / ld >= right.value.rows() || at % ld >= right.value.cols()) {
                estimate.error(i, j) = infinity;
                continue;
            }
            estimate.value(i, j) = right.value(at / ld, at % ld);
            estimate.error(i, j) = right.error(at / ld, at % ld);
        }
    }
    return estimate;
}

/// Maps that say where in a tile like its own the numbers of each element stand; a NaN stands nowhere.
std::vector<AddressMap> maps_within_tiles(const Evidence& evidence, KnownTiles& known) {
    const std::int64_t ld = row_length(evidence.problem(), evidence.observed);
    std::map<const Observation*, std::shared_ptr<const ValueIndex>> memories;
    const auto sample_of = [&](const Observation& seen, Eigen::Index row,
                               Eigen::Index col) -> std::optional<AddressSample> {
        if (!tells_address(seen.got(row, col))) return std::nullopt;
        const TakenNumbers& numbers = known.of(seen);
        std::shared_ptr<const ValueIndex>& memory = memories[&seen];
        if (!memory) memory = index_of(numbers.right, ld);
        AddressSample sample{row, col, {}};
        if (numbers.is_known(row, col))
            sample.sources = memory->sources(numbers.taken(row, col), numbers.error(row, col), 0);
        return sample;
    };
    // What runs past a row is in the row before or in nobody's: both fit most elements.
    constexpr std::size_t most_kinds = 2;
    return voted_maps(evidence, ld, axes_of_tile(evidence.observed), sample_of, most_kinds);
}

/// Indices of row, column and the tile's numbers that a few wrong elements speak for: where no map of a tile by itself
/// says it, or few elements of each tile are wrong.
std::vector<TermRead> indices_within_tiles(const Evidence& evidence, KnownTiles& known) {
    constexpr std::int64_t few = 64;
    constexpr std::size_t most = 4;
    const Problem& problem = evidence.problem();
    const TileShape shape = tile_shape(problem, evidence.observed);
    TermQuestion question;
    const TileAxes axes = axes_of_tile(evidence.observed);
    // An element is a sum of one term.
    question.term = Coordinate::nothing;
    question.ranges = {{axes.down, shape.rows},
                       {axes.along, shape.cols},
                       {Coordinate::nothing, 1},
                       {Coordinate::kv_tile, problem.kv_tiles()},
                       {Coordinate::q_block, problem.q_blocks()},
                       {Coordinate::head, problem.heads}};
    const std::int64_t step = evidence.wrong_elements / few | 1;
    std::int64_t met = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const TakenNumbers& numbers = known.of(seen);
        TileMemory memory{std::vector<double>(std::size_t(shape.rows * shape.cols), quiet_nan), shape.cols};
        for (Eigen::Index i = 0; i < numbers.right.rows(); ++i)
            std::ranges::copy(numbers.right.row(i), memory.values.begin() + i * shape.cols);
        question.memories.push_back(std::move(memory));
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const Eigen::Index row = i / seen.got.cols();
            const Eigen::Index col = i % seen.got.cols();
            if (!seen.is_wrong(row, col) || met++ % step != 0 || !tells_address(seen.got(row, col))) continue;
            if (!numbers.is_known(row, col)) continue;
            question.results.push_back({element_place(evidence.observed, seen.site, row, col),
                                        question.memories.size() - 1,
                                        {1.0},
                                        0,
                                        numbers.taken(row, col),
                                        numbers.error(row, col),
                                        0});
        }
    }
    if (question.results.size() < 8) return {};
    return find_term_reads(question, most);
}

/// Where the elements of a tile are read, and what it takes to say so.
struct ReadWithinTile {
    std::string text;
    int cost;
    ReadAt at;
};

std::vector<ReadWithinTile> reads_within_tiles(const Evidence& evidence, KnownTiles& known) {
    const std::int64_t ld = row_length(evidence.problem(), evidence.observed);
    std::vector<ReadWithinTile> reads;
    for (const AddressMap& map : maps_within_tiles(evidence, known))
        reads.push_back({map.text(), cost_of(map), read_by(map, ld)});
    for (const TermRead& read : indices_within_tiles(evidence, known)) {
        const auto at = [=, stage = evidence.observed](const SearchedTile& site, Eigen::Index row,
                                                       Eigen::Index col) {
            return std::optional(read.address.at(element_place(stage, site, row, col), ld));
        };
        reads.push_back({read.address.text(ld), 1 + read.choices(), at});
    }
    return reads;
}

std::vector<Candidate> read_elsewhere(const Evidence& evidence, std::string_view cause) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return candidates;
    const Stage stage = evidence.observed;
    for (const TakenTile& taken : taken_tiles) {
        if (taken.cause != cause || !taken.is_of(evidence)) continue;
        KnownTiles known(taken);
        for (const ReadWithinTile& read : reads_within_tiles(evidence, known)) {
            const Reader reader = [=](const SearchedTile& site, const Estimate& right) {
                return moved(site, right, read.at, row_length(site.call->problem, stage));
            };
            candidates.push_back(
                {{{taken.parameter, taken.name + read.text}}, taken.change(stage, reader), read.cost});
        }
    }
    return candidates;
}

std::vector<Candidate> elements_moved(const Evidence& evidence) {
    return read_elsewhere(evidence, moved_name);
}
std::vector<Candidate> scores_read_elsewhere(const Evidence& evidence) {
    return read_elsewhere(evidence, scores_name);
}
std::vector<Candidate> numbers_read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates = read_elsewhere(evidence, numbers_name);
    for (Candidate& of_rows : gradient_rows_read_elsewhere(evidence))
        candidates.push_back(std::move(of_rows));
    return candidates;
}

}  // namespace

std::vector<Cause> tile_read_causes() {
    return {
        {moved_name,
         "address",
         {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse, Stage::delta, Stage::dp,
          Stage::ds, Stage::dq, Stage::dk, Stage::dv},
         "elements of the tile stand in each other's place",
         "the index with which the tile is stored, and the fragment layout",
         elements_moved},
        {scores_name,
         "address",
         {Stage::p},
         "the exponentials are those of other scores of the tile",
         "the index with which the softmax reads its scores: fragment layout, leading dimension",
         scores_read_elsewhere},
        {numbers_name,
         "address",
         {Stage::p, Stage::ds},
         "lse, p, dp or delta are those of other elements or rows",
         "the index with which the row's lse and delta, or the tile's p and dp, are read",
         numbers_read_elsewhere},
    };
}

}  // namespace tilescope
