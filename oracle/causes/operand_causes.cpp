#include <algorithm>
#include <bit>

#include "oracle/causes/both_operands.h"
#include "oracle/causes/layouts.h"
#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

std::int64_t first_of(const SearchedTile& site, Stage stage) {
    return is_of_queries(stage) ? site.first_row : site.first_key;
}

/// The head that the operand should be loaded from.
std::int64_t own_head(const SearchedTile& site, Stage stage) {
    return is_of_queries(stage) ? site.id.head : site.call->problem.head_kv(site.id.head);
}

TileId own_place(const SearchedTile& site, Stage stage) {
    return {site.id.batch, own_head(site, stage), 0, 0};
}

/// Rows of a bad tile that hold nothing but zeros, and should not.
std::vector<bool> zero_rows(const Observation& seen) {
    std::vector<bool> zero(seen.bad_rows.size());
    for (std::size_t i = 0; i < zero.size(); ++i)
        zero[i] = seen.bad_rows[i] && (seen.got.row(Eigen::Index(i)).array() == 0).all();
    return zero;
}

using IsRowOfTile = std::function<bool(const SearchedTile&, Eigen::Index row)>;

Candidate zeroes_rows(std::string name, std::string value, const IsRowOfTile& is_zero) {
    return {{{std::move(name), std::move(value)}},
            {.inputs =
                 [=](SearchedTile& site) {
                     for (Eigen::Index i = 0; i < site.raw.rows(); ++i)
                         if (is_zero(site, i)) site.raw.row(i).setZero();
                 }},
            1};
}

/// The bound of the load is the length of the other sequence, which is shorter.
void add_rows_beyond_other_length(const Evidence& evidence, std::vector<Candidate>& candidates) {
    const Stage stage = evidence.acts;
    const Problem& problem = evidence.problem();
    const bool is_query = is_of_queries(stage);
    if (is_query ? problem.seqlen_q <= problem.seqlen_kv : problem.seqlen_kv <= problem.seqlen_q) return;
    const IsRowOfTile is_beyond = [=](const SearchedTile& site, Eigen::Index i) {
        const Problem& own = site.call->problem;
        return first_of(site, stage) + i >= (is_query ? own.seqlen_kv : own.seqlen_q);
    };
    candidates.push_back(zeroes_rows("rows", is_query ? "from seqlen_kv on" : "from seqlen_q on", is_beyond));
    candidates.back().free_parameters = 0;
}

/// All of them, wherever a rule says, or those of each tile from a row on.
std::vector<Candidate> rows_zeroed(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (evidence.direct()) candidates = always({.inputs = [](SearchedTile& site) { site.raw.setZero(); }});
    const auto add = [&](const char* name, std::int64_t value, const IsRowOfTile& is_zero) {
        const CauseParameter parameter{name, digits(value)};
        for (const Candidate& known : candidates)
            if (known.parameters == std::vector{parameter}) return;
        candidates.push_back(zeroes_rows(name, digits(value), is_zero));
    };
    const auto last = [](std::int64_t count) {
        return [=](const SearchedTile& site, Eigen::Index i) { return i >= site.raw.rows() - count; };
    };
    if (!evidence.direct()) {
        add("last rows", 1, last(1));
        add_rows_beyond_other_length(evidence, candidates);
    }
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || !evidence.direct() || candidates.size() >= 7) break;
        const std::vector<bool> zero = zero_rows(seen);
        const auto count = std::ranges::count(zero, true);
        if (count == 0) continue;
        const auto first = std::ranges::find(zero, true) - zero.begin();
        add("first row in tile", first, [=](const SearchedTile&, Eigen::Index i) { return i >= first; });
        if (first + count == std::ssize(zero)) add("last rows", count, last(count));
        if (const auto places = places_of(zero); places && places->first + places->count < std::ssize(zero))
            add("rows", first, [=](const SearchedTile&, Eigen::Index i) { return places->contains(i); });
    }
    return candidates;
}

/// These rows of the tile `offset` tiles further on; where there was none before, zeros.
Change takes_rows(Stage stage, const Places& places, std::int64_t offset) {
    return {.inputs = [=](SearchedTile& site) {
        const TileId from = own_place(site, stage);
        const std::int64_t first = site.first_key + offset * site.call->problem.block_n;
        if (first >= site.call->problem.seqlen_kv) return;
        const Matrix other = site.world->input_rows(stage, from.batch, from.head, first, site.raw.rows());
        for (Eigen::Index i = 0; i < other.rows(); ++i)
            if (places.contains(i)) site.raw.row(i) = other.row(i);
    }};
}

/// Of a tile that was not dumped: halves and quarters of it, or every other row, from the tile before or the next one.
std::vector<Candidate> parts_not_loaded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (is_of_queries(evidence.acts) || evidence.observed < Stage::acc) return {};
    const std::int64_t block = evidence.problem().block_n;
    for (const Places& part : parts_of(block)) {
        const bool is_every_other = part.period == 2;
        if (!is_every_other && (part.period != block || part.count * 4 < block)) continue;
        const std::string rows = to_string(is_every_other ? part : Places{0, part.first, part.count});
        for (const std::int64_t offset : {-1, 1})
            candidates.push_back({{{"rows", rows}, {"of", offset < 0 ? "the tile before" : "the next tile"}},
                                  takes_rows(evidence.acts, part, offset),
                                  2});
    }
    return candidates;
}

/// Rows that keep what an earlier tile left in the same place.
std::vector<Candidate> rows_not_loaded(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct()) return parts_not_loaded(evidence);
    if (!evidence.seen.front().is_bad()) return {};
    const Stage stage = evidence.acts;
    const auto places = places_of(evidence.seen.front().bad_rows);
    if (!places || places->count == std::ssize(evidence.seen.front().bad_rows)) return {};
    for (const std::int64_t behind : {1, 2, 3, 4}) {
        if (is_of_queries(stage)) break;
        candidates.push_back({{{"rows", to_string(*places)}, {"left by tile", digits(-behind)}},
                              takes_rows(stage, *places, -behind),
                              2});
    }
    for (const auto& [name, value] :
         {std::pair{"0", 0.0f}, std::pair{"unwritten", std::bit_cast<float>(unwritten_bits)}}) {
        const auto change = [=, left = double(value)](const SearchedTile&, Estimate& e) {
            for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
                if (!places->contains(i)) continue;
                e.value.row(i).setConstant(left);
                e.error.row(i).setZero();
            }
        };
        candidates.push_back({{{"rows", to_string(*places)}, {"left", name}}, {.result = change}, 1});
    }
    return candidates;
}

Matrix& raw_of(SearchedTile& site) {
    return site.raw;
}

/// Of row and column together, which no index of a formula takes.
std::vector<Candidate> columns_permuted(const Evidence& evidence) {
    return read_in_layouts(swizzled_layouts(tile_shape(evidence.problem(), evidence.acts).cols), raw_of);
}

}  // namespace

std::vector<Cause> operand_causes() {
    const std::vector<Stage> any = {Stage::q, Stage::k, Stage::v, Stage::dout};

    return {
        {rows_zeroed_name, "operand load", any,
         "rows that exist are overwritten with the zeros of the padding",
         "the row count that zero padding of the tile starts from", of_both_operands(rows_zeroed)},
        {"rows_not_loaded", "unwritten / stale", any,
         "rows of the tile are not loaded and keep what was there, or hold those of the next tile",
         "how the threads divide the rows of the tile, and the barriers around the load",
         of_both_operands(rows_not_loaded)},
        {"buffer_aliased",
         "unwritten / stale",
         {Stage::v},
         "P is stored over the V tile that it is about to be multiplied with",
         "the shared memory that P and V share",
         buffer_aliased},

        {"columns_permuted",
         "layout",
         {Stage::q, Stage::k, Stage::v, Stage::dout},
         "the columns of the staged tile are permuted",
         "the swizzle or fragment layout of the store to shared memory",
         columns_permuted},
    };
}

}  // namespace tilescope
