#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "oracle/causes/left_out_tiles.h"
#include "oracle/causes/signature.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// What an element holds that was left out.
enum class Left { zero, unwritten, before };
constexpr Left all_left[] = {Left::zero, Left::unwritten, Left::before};

const char* name_of(Left left) {
    return left == Left::zero ? "0" : left == Left::unwritten ? "unwritten" : "as before the tile";
}

std::optional<double> value_of(Left left, const SearchedTile& site, Stage stage, Eigen::Index row,
                               Eigen::Index col) {
    if (left == Left::zero) return 0.0;
    if (left == Left::unwritten) return double(std::bit_cast<float>(unwritten_bits));
    if (stage == Stage::acc) return site.before.acc.value(row, col);
    if (stage == Stage::l) return site.before.l.value(row, col);
    return std::nullopt;
}

bool holds(Left left, const Observation& seen, Eigen::Index row, Eigen::Index col) {
    const auto value = value_of(left, seen.site, seen.context.stage, row, col);
    if (!value) return false;
    const float got = seen.got(row, col);
    return is_unwritten(float(*value)) ? is_unwritten(got) : seen.natural(row, col) == *value;
}

/// Columns, or rows, of a bad tile: whether every element is left out, and whether that is no chance.
struct Line {
    bool all = true;
    bool any = false;
};

std::vector<Line> lines_of(const Observation& seen, Left left, bool columns) {
    std::vector<Line> lines(std::size_t(columns ? seen.got.cols() : seen.got.rows()));
    for (Eigen::Index row = 0; row < seen.got.rows(); ++row) {
        for (Eigen::Index col = 0; col < seen.got.cols(); ++col) {
            Line& line = lines[std::size_t(columns ? col : row)];
            line.all = line.all &&
                       (holds(left, seen, row, col) || (left == Left::unwritten && !seen.is_wrong(row, col) &&
                                                        seen.expected.value(row, col) == 0));
            line.any = line.any || seen.is_wrong(row, col) || is_unwritten(seen.got(row, col));
        }
    }
    return lines;
}

/// The lines that are left out in the first bad tile, or in all of them: a mask hides some in one tile.
std::vector<bool> left_out(const Evidence& evidence, Left left, bool columns, bool in_all) {
    std::vector<Line> lines;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || (!in_all && !lines.empty())) break;
        const std::vector<Line> here = lines_of(seen, left, columns);
        lines.resize(std::max(lines.size(), here.size()));
        for (std::size_t i = 0; i < here.size(); ++i) {
            lines[i].all = lines[i].all && here[i].all;
            lines[i].any = lines[i].any || here[i].any;
        }
    }
    std::vector<bool> out;
    for (const Line& line : lines) out.push_back(line.all && line.any);
    return out;
}

Change leaves_out(Stage stage, Left left, std::function<bool(Eigen::Index, Eigen::Index)> is_out) {
    return {.result = [=, is_out = std::move(is_out)](const SearchedTile& site, Estimate& e) {
        for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
                const auto value = is_out(i, j) ? value_of(left, site, stage, i, j) : std::nullopt;
                if (!value) continue;
                e.value(i, j) = *value;
                e.error(i, j) = 0;
            }
        }
    }};
}

bool is_periodic(const Places& places) {
    return places.period > 0;
}

using Shape = std::function<bool(Left, const Places&, std::int64_t length)>;

/// Lines that were left out, where they have the shape.
std::vector<Candidate> lines_left_out(const Evidence& evidence, bool columns, const Shape& shape) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.seen.front().is_bad()) return {};
    for (const Left left : all_left) {
        std::optional<Places> before;
        for (const bool in_all : {false, true}) {
            const std::vector<bool> out = left_out(evidence, left, columns, in_all);
            const auto places = places_of(out);
            if (!places || places == before || !shape(left, *places, std::ssize(out))) continue;
            before = places;
            const auto is_out = [=, places = *places](Eigen::Index row, Eigen::Index col) {
                return places.contains(columns ? col : row);
            };
            candidates.push_back(
                {{{columns ? "columns" : "rows", to_string(*places)}, {"left", name_of(left)}},
                 leaves_out(evidence.acts, left, is_out),
                 1});
        }
    }
    return candidates;
}

std::vector<Candidate> lane_stride(const Evidence& evidence) {
    return lines_left_out(evidence, true, [](Left, const Places& p, std::int64_t) { return is_periodic(p); });
}

std::vector<Candidate> any_columns(const Evidence& evidence) {
    return lines_left_out(evidence, true,
                          [](Left, const Places& p, std::int64_t length) { return p.count < length; });
}

bool is_anywhere(Eigen::Index, Eigen::Index) {
    return true;
}

/// All of them, wherever a rule says, or some of each tile. Outputs of blocks that are never computed hold the zeros that
/// their memory was filled with.
std::vector<Candidate> any_rows(const Evidence& evidence) {
    std::vector<Candidate> candidates = lines_left_out(
        evidence, false, [](Left, const Places& p, std::int64_t length) { return p.count < length; });
    std::string left = name_of(Left::zero);
    if (!candidates.empty()) left = candidates.front().parameters.back().value;
    if (candidates.empty() && !(evidence.direct() && is_output(evidence.acts))) return {};
    for (const Left of : all_left)
        if (left == name_of(of))
            candidates.insert(candidates.begin(),
                              {{{"left", left}}, leaves_out(evidence.acts, of, is_anywhere)});
    return candidates;
}

/// Elements that no thread writes, wherever a rule says.
std::vector<Candidate> never_written(const Evidence& evidence) {
    // What a hook did not write, no later stage is computed from.
    if (!evidence.direct()) return {};
    return always(leaves_out(evidence.acts, Left::unwritten, is_anywhere));
}

/// Zeros of the padding, wherever a rule says: from a number of the element in its tile on, which no formula takes.
std::vector<Candidate> zeros_loaded(const Evidence& evidence) {
    if (!evidence.direct()) return {};
    return always({.inputs = [](SearchedTile& site) { site.raw.setZero(); }});
}

/// A tile that was not recorded although others were, or that no thread wrote: so one is that is left out.
std::vector<Candidate> kv_tile_skipped(const Evidence& evidence) {
    const std::int64_t last = evidence.problem().kv_tiles() - 1;
    if (last < 1) return {};
    const double left = evidence.direct() ? double(std::bit_cast<float>(unwritten_bits)) : -infinity;
    std::vector<Candidate> candidates;
    const auto add = [&](const char* which, const std::function<bool(const SearchedTile&)>& is_skipped) {
        const auto leave = [=](const SearchedTile& site, Estimate& s) {
            if (!is_skipped(site)) return;
            s.value.setConstant(left);
            s.error.setZero();
        };
        candidates.push_back({{{"which", which}}, {.result = leave}});
    };
    // A tile that some block has is not left out by all.
    const auto is_in_some = [&](std::int64_t kv_tile) {
        return std::ranges::any_of(evidence.seen, [&](const Observation& seen) {
            TileId tile = seen.site.id;
            tile.kv_tile = kv_tile;
            return was_computed(*seen.site.world, tile).value_or(false);
        });
    };
    if (!is_in_some(0)) add("the first", [](const SearchedTile& site) { return site.id.kv_tile == 0; });
    if (!is_in_some(last)) add("the last", [=](const SearchedTile& site) { return site.id.kv_tile == last; });
    add(evidence.direct() ? "those that no thread wrote" : "those that are not in the recording",
        [](const SearchedTile& site) { return is_left_out(*site.world, site.id); });
    return candidates;
}

}  // namespace

std::vector<Cause> coverage_causes() {
    const std::vector<Stage> ends = {Stage::acc, Stage::o, Stage::dq, Stage::dk, Stage::dv};
    return {
        {rows_zeroed_name,
         "operand load",
         {Stage::q, Stage::k, Stage::v, Stage::dout},
         "rows that exist are overwritten with the zeros of the padding",
         "the row count that zero padding of the tile starts from",
         zeros_loaded},
        {skipped_kv_tile_name,
         "trip / tile",
         {Stage::s},
         "a KV tile does not count",
         "the bounds of the loop over KV tiles",
         kv_tile_skipped},
        {"p_lane_stride",
         "unwritten / stale",
         {Stage::p},
         "lanes fill P with a stride that leaves columns out",
         "the stride with which the lanes of a row fill P",
         lane_stride},
        {"columns_uncovered", "coverage", ends, "columns are left out",
         "the columns that warps and lanes cover", any_columns},
        {rows_uncovered_name,
         "coverage",
         {Stage::acc, Stage::o, Stage::lse, Stage::dq, Stage::dk, Stage::dv},
         "rows are left out",
         "the rows that warps cover, and the grid",
         any_rows},
    };
}

std::vector<Cause> identified_coverage_causes() {
    return {
        {"never_written",
         "coverage",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o,
          Stage::lse, Stage::dout, Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv},
         "elements are never written",
         "the bounds and strides of the loop that writes them, and its hook",
         never_written},
    };
}

}  // namespace tilescope
