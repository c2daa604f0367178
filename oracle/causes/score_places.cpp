// Scores of another query and key than their own: which, is told by trying what an author may have written.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dump/schema/semantics.h"
#include "oracle/causes/element_places.h"
#include "oracle/causes/evidence.h"
#include "oracle/causes/table.h"
#include "oracle/describe/edits.h"
#include "oracle/formula/scores.h"
#include "oracle/replay/tiles.h"
#include "oracle/solve/array_index.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// Larger operands are not searched.
constexpr std::int64_t largest_operand = std::int64_t(1) << 25;
/// Numbers in an index.
constexpr std::int64_t most_number = 64;
constexpr std::int64_t most_asked = 64;
constexpr std::size_t most_told = 3;
/// What a product with its bound costs beside its terms, in memory for rows and estimates; and one without a bound.
constexpr std::int64_t effort_of_product = 2048;
constexpr std::int64_t effort_of_dot = 64;

/// Of what a score is computed: the parts of an index.
enum NumberOfScore : std::uint8_t { of_batch, of_head, of_kv_head, of_query, of_key, numbers_of_score };

/// What a score is computed from in place of its own row of q and row of k.
struct ScoreSource {
    Index index;
    bool whole = false;     ///< with the cap, bias and mask of that place; otherwise with those of its own
    Stage left = Stage::q;  ///< the array of the query's row, and that of the key's
    Stage right = Stage::k;
};

// ---- what an author may have written

Index right_place() {
    using enum Coordinate;
    return {{batch, head, kv_head, query, key}, {}};
}

/// A part that is computed otherwise: of its own number, of its tile and the number in it, or of others.
class OtherPlaces {
 public:
    explicit OtherPlaces(const Problem& problem) {
        using enum Coordinate;
        ranges_ = {
            {batch, problem.batch},        {head, problem.heads},         {kv_head, problem.heads_kv},
            {query, problem.seqlen_q},     {key, problem.seqlen_kv},      {row, problem.block_m},
            {col, problem.block_n},        {q_block, problem.q_blocks()}, {kv_tile, problem.kv_tiles()},
            {first_row, problem.seqlen_q}, {first_col, problem.seqlen_kv}};
        for (std::size_t part = 0; part < numbers_of_score; ++part) {
            for (const Expr& edit : edits(ranges_[part])) add(NumberOfScore(part), edit);
            for (const Coordinate extent : {block_m, block_n, head_dim, seqlen_q, seqlen_kv, heads, heads_kv})
                add(NumberOfScore(part), extent);
        }
        for (const Expr& edit : edits(range_of(head))) add(of_kv_head, edit);
        add_parts_of(of_query, q_block, block_m, first_row, row);
        add_parts_of(of_key, kv_tile, block_n, first_col, col);
        all_.push_back(right_place());
        std::swap(all_.back().parts[of_query], all_.back().parts[of_key]);
    }

    std::vector<Index> take() { return std::move(all_); }

 private:
    std::vector<Expr> edits(const CoordinateRange& own) const {
        return edits_with(own, ranges_, most_number);
    }
    const CoordinateRange& range_of(Coordinate coordinate) const {
        return *std::ranges::find(ranges_, coordinate, &CoordinateRange::coordinate);
    }

    void add(NumberOfScore part, const Expr& instead) {
        all_.push_back(right_place());
        all_.back().parts[part] = instead;
    }

    /// Kernels compute it as tile * block + number, or as first + number.
    void add_parts_of(NumberOfScore part, Coordinate tile, Coordinate block, Coordinate first,
                      Coordinate number) {
        for (const Expr& edit : edits(range_of(tile))) add(part, edit * block + number);
        for (const Expr& edit : edits(range_of(first))) add(part, edit + number);
        for (const Expr& edit : edits(range_of(number))) add(part, Expr(first) + edit);
        add(part, Expr(first) - number);
    }

    std::vector<CoordinateRange> ranges_;
    std::vector<Index> all_;
};

// ---- the score of a place

using ScoreNumbers = std::array<std::int64_t, numbers_of_score>;

ScoreNumbers score_numbers_at(const Index& index, const Place& place) {
    ScoreNumbers numbers{};
    for (std::size_t part = 0; part < numbers_of_score; ++part) numbers[part] = index.parts[part].at(place);
    return numbers;
}

/// Rows of q and k as they lie in memory, in natural units.
class OperandRows {
 public:
    explicit OperandRows(const CauseSearch& world) : world_(world), problem_(world.recording().problem()) {}

    std::int64_t length(Stage stage) const {
        return stage == Stage::q ? problem_.seqlen_q : problem_.seqlen_kv;
    }

    /// Where a number of a head lies in memory: behind the last row come those of the next head.
    struct Spot {
        const Operand* rows;
        Eigen::Index row;
    };
    /// nullopt: beyond the array.
    std::optional<Spot> spot(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t number) {
        const std::int64_t heads = stage == Stage::q ? problem_.heads : problem_.heads_kv;
        const std::int64_t length = this->length(stage);
        const std::int64_t address = (batch * heads + head) * length + number;
        if (address < 0 || address >= problem_.batch * heads * length) return std::nullopt;
        return Spot{&of_head(stage, address / length / heads, address / length % heads), address % length};
    }

 private:
    const Operand& of_head(Stage stage, std::int64_t batch, std::int64_t head) {
        std::shared_ptr<const Operand>& known = known_[{stage, batch, head}];
        if (!known)
            known = world_.once<Operand>(
                fmt::format("rows of {} {} {}", stage_info(stage).name, batch, head), [&] {
                    const auto call = world_.call(batch, stage == Stage::q ? head : query_head(head));
                    Matrix rows = world_.input_rows(stage, batch, head, 0, length(stage));
                    return staged_operand(*call, stage, 0, std::move(rows), false).natural;
                });
        return *known;
    }

    /// One that reads the KV head.
    std::int64_t query_head(std::int64_t kv_head) const {
        std::int64_t head = 0;
        while (head + 1 < problem_.heads && problem_.head_kv(head) != kv_head) ++head;
        return head;
    }

    const CauseSearch& world_;
    const Problem& problem_;
    std::map<std::tuple<Stage, std::int64_t, std::int64_t>, std::shared_ptr<const Operand>> known_;
};

/// Columns of a row of the tile whose scores are of one query and of keys one after the other.
struct ScoreRun {
    Eigen::Index row = 0;
    Eigen::Index col = 0;
    std::int64_t count = 1;
    ScoreNumbers at{};  ///< of the first column
};

/// Whether the next column belongs to the run, which ends where the head does.
bool continues(const ScoreRun& run, const ScoreNumbers& next, std::int64_t length) {
    ScoreNumbers expected = run.at;
    expected[of_key] += run.count;
    return next == expected && next[of_key] % length != 0;
}

/// The rows of the query and of the first key; nullopt: one of them is beyond its array.
std::optional<std::pair<OperandRows::Spot, OperandRows::Spot>> spots_of(const ScoreNumbers& at,
                                                                        const ScoreSource& source,
                                                                        OperandRows& rows) {
    const auto spot = [&](Stage array, std::int64_t number) {
        return rows.spot(array, at[of_batch], at[array == Stage::q ? of_head : of_kv_head], number);
    };
    const auto q = spot(source.left, at[of_query]);
    const auto k = spot(source.right, at[of_key]);
    if (!q || !k) return std::nullopt;
    return std::pair(*q, *k);
}

Operand rows_from(const OperandRows::Spot& spot, std::int64_t count) {
    return {spot.rows->value.middleRows(spot.row, count), spot.rows->error, spot.rows->absolute};
}

/// 1 x count, in natural units; nullopt where it is not known.
std::optional<Estimate> scores_of_run(const SearchedTile& site, const ScoreRun& run,
                                      const ScoreSource& source, OperandRows& rows) {
    const CauseSearch& world = *site.world;
    const Problem& problem = world.recording().problem();
    const auto& at = run.at;
    const auto spots = spots_of(at, source, rows);
    if (!spots) return std::nullopt;
    spend(effort_of_product + run.count * problem.head_dim);
    Estimate product =
        scaled_scores(*site.call, rows_from(spots->first, 1), rows_from(spots->second, run.count));
    if (!source.whole)
        return dumped_from_scaled(*site.call, site.first_row + run.row, site.first_key + run.col,
                                  std::move(product));
    const auto is_in = [](std::int64_t number, std::int64_t length) {
        return number >= 0 && number < length;
    };
    if (!is_in(at[of_batch], problem.batch) || !is_in(at[of_head], problem.heads) ||
        !is_in(at[of_query], problem.seqlen_q) || !is_in(at[of_key], problem.seqlen_kv))
        return std::nullopt;
    return dumped_from_scaled(*world.call(at[of_batch], at[of_head]), at[of_query], at[of_key],
                              std::move(product));
}

void put_run(const SearchedTile& site, const ScoreRun& run, const ScoreSource& source, OperandRows& rows,
             Estimate& s) {
    const auto scores = scores_of_run(site, run, source, rows);
    auto value = s.value.row(run.row).segment(run.col, run.count);
    auto error = s.error.row(run.row).segment(run.col, run.count);
    if (!scores) {
        value.setZero();
        error.setConstant(infinity);
        return;
    }
    value = scores->value.row(0);
    error = scores->error.row(0);
}

Change scores_of(const ScoreSource& source) {
    return {.result = [=](const SearchedTile& site, Estimate& s) {
        OperandRows rows(*site.world);
        const std::int64_t length = rows.length(source.right);
        Place place = element_place(Stage::s, site, 0, 0);
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            ScoreRun run{i, 0, 0};
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                move_in_tile(Stage::s, i, j, place);
                const ScoreNumbers next = score_numbers_at(source.index, place);
                if (run.count > 0 && !continues(run, next, length)) {
                    put_run(site, run, source, rows, s);
                    run.count = 0;
                }
                if (run.count == 0) run = {i, j, 0, next};
                ++run.count;
            }
            if (run.count > 0) put_run(site, run, source, rows, s);
        }
    }};
}

// ---- which place

/// A wrong score.
struct AskedScore {
    const SearchedTile* site;
    Eigen::Index row;
    Eigen::Index col;
    Place place;
    double got;
    double error;  ///< of what a healthy kernel has, in its units
    /// From a sum of products to the score; NaN where a cap, a bias or the number of a mask comes between.
    double unit;
};

/// Whether the score is far from what these rows give, whatever their bound is: so most places are told without one.
bool is_far_from(const AskedScore& one, const ScoreNumbers& at, const ScoreSource& source,
                 OperandRows& rows) {
    constexpr double wider_than_bounds = 1.0 / 16;
    if (std::isnan(one.unit) || !std::isfinite(one.got)) return false;
    const auto spots = spots_of(at, source, rows);
    if (!spots) return false;
    const auto q = spots->first.rows->value.row(spots->first.row);
    const auto k = spots->second.rows->value.row(spots->second.row);
    spend(effort_of_dot + q.size());
    double sum = 0;
    double magnitude = 0;
    for (Eigen::Index d = 0; d < q.size(); ++d) {
        sum += q(d) * k(d);
        magnitude += std::abs(q(d) * k(d));
    }
    return std::abs(sum * one.unit - one.got) >
           wider_than_bounds * magnitude * std::abs(one.unit) + one.error;
}

std::vector<AskedScore> asked_scores(const Evidence& evidence) {
    std::vector<AskedScore> asked;
    for_some_wrong(evidence, most_asked, [&](const Observation& seen, Eigen::Index row, Eigen::Index col) {
        const HeadCall& call = *seen.site.call;
        const double error = seen.expected.error(row, col) / std::abs(seen.factor.at(row, col));
        const bool is_bare = !call.capped() && !call.biased() && !masks_with_number(call.units);
        asked.push_back({&seen.site, row, col, element_place(Stage::s, seen.site, row, col),
                         seen.natural(row, col), std::isfinite(error) ? error : 0,
                         is_bare ? call.problem.sm_scale : quiet_nan});
    });
    return asked;
}

/// Whether nearly all of them are scores of these: hidden ones say little, and zeros nothing.
bool is_agreed_on(const ScoreSource& source, const std::vector<AskedScore>& asked, OperandRows& rows) {
    constexpr std::size_t least = 8;
    std::size_t tried = 0;
    std::size_t off = 0;
    std::size_t telling = 0;
    for (const AskedScore& one : asked) {
        const ScoreRun run{one.row, one.col, 1, score_numbers_at(source.index, one.place)};
        if (is_far_from(one, run.at, source, rows)) {
            ++tried;
            if (++off * 8 > tried) return false;
            continue;
        }
        const auto score = scores_of_run(*one.site, run, source, rows);
        if (!score) continue;
        ++tried;
        const double value = score->value(0, 0);
        const bool is_same = value == one.got || std::abs(value - one.got) <= score->error(0, 0) + one.error;
        off += !is_same;
        telling += is_same && std::isfinite(value) && value != 0;
        if (off * 8 > tried) return false;
    }
    return telling >= least;
}

/// Both rows of one array, each by the number of the query or of the key: "k[query] and k[key]".
std::vector<ScoreSource> other_arrays() {
    std::vector<ScoreSource> sources;
    for (const Stage array : {Stage::q, Stage::k}) {
        ScoreSource source{right_place(), false, array, array};
        sources.push_back(source);
        source.index.parts[array == Stage::q ? of_key : of_query] =
            source.index.parts[array == Stage::q ? of_query : of_key];
        sources.push_back(source);
    }
    return sources;
}

int choices_of(const ScoreSource& source) {
    return OtherIndex{source.index}.choices();
}

std::string text_of(const ScoreSource& source) {
    if (source.left == Stage::q && source.right == Stage::k)
        return OtherIndex{source.index}.text(right_place());
    return fmt::format("{}[{}] and {}[{}]", stage_info(source.left).name, source.index.parts[of_query].text(),
                       stage_info(source.right).name, source.index.parts[of_key].text());
}

/// Those that the scores agree with, of the fewest numbers.
void add_agreed(std::vector<ScoreSource> sources, const std::vector<AskedScore>& asked, OperandRows& rows,
                std::vector<Candidate>& candidates) {
    std::erase_if(sources, [&](const ScoreSource& source) { return !is_agreed_on(source, asked, rows); });
    std::ranges::stable_sort(sources, {}, choices_of);
    if (sources.size() > most_told) sources.resize(most_told);
    for (const ScoreSource& source : sources)
        candidates.push_back({{{source.whole ? "scores of" : "products of", text_of(source)}},
                              scores_of(source),
                              choices_of(source) + 1});
}

std::vector<Candidate> scores_of_other_places(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    std::vector<Candidate> candidates;
    if (!evidence.direct() || problem.direction == Direction::backward) return candidates;
    if (problem.batch * problem.heads * std::max(problem.seqlen_q, problem.seqlen_kv) * problem.head_dim >
        largest_operand)
        return candidates;
    const std::vector<AskedScore> asked = asked_scores(evidence);
    OperandRows rows(*evidence.world);
    const std::vector<Index> others = OtherPlaces(problem).take();
    for (const bool whole : {false, true}) {
        std::vector<ScoreSource> sources;
        for (const Index& other : others) sources.push_back({other, whole});
        add_agreed(std::move(sources), asked, rows, candidates);
    }
    add_agreed(other_arrays(), asked, rows, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> score_place_causes() {
    return {
        {"scores_of_other_places",
         "address",
         {Stage::s},
         "the scores are those of another query or key, or of other rows",
         "the query, the key and the heads that a score is computed for: what the loop hands on, and the "
         "rows of q and k",
         scores_of_other_places},
    };
}

}  // namespace tilescope
