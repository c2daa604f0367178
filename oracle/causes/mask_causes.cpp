#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

using Visible = std::function<KeyRange(const Problem& problem, std::int64_t row, std::int64_t first_key)>;

/// Whether the mask acts where the mistake is looked for: in s, or in what first takes a score without it.
bool masks_here(const Evidence& evidence) {
    const bool in_s = evidence.units().s_masked;
    return in_s ? evidence.acts == Stage::s : evidence.acts == Stage::m || evidence.acts == Stage::p;
}

bool is_causal(const Evidence& evidence) {
    return evidence.problem().mask == Mask::causal && masks_here(evidence);
}

bool is_windowed(const Evidence& evidence) {
    const Problem& p = evidence.problem();
    return (p.window_left >= 0 || p.window_right >= 0) && masks_here(evidence);
}

Change sees(Visible visible) {
    return {.inputs = [visible = std::move(visible)](SearchedTile& site) {
        HeadCall& call = site.own_call();
        call.visible = [visible, problem = call.problem](std::int64_t row, std::int64_t first_key) {
            KeyRange keys = visible(problem, row, first_key);
            keys.last = std::min(keys.last, problem.seqlen_kv);
            return keys;
        };
    }};
}

/// The mask of another problem.
Change sees_as(std::function<void(Problem&)> change) {
    return sees([change = std::move(change)](const Problem& problem, std::int64_t row, std::int64_t) {
        Problem other = problem;
        change(other);
        return visible_keys(other, row);
    });
}

/// The other alignment in the mask, and with it in ALiBi, whose diagonal is the same.
std::vector<Candidate> aligned(const Evidence& evidence, CausalAlignment alignment) {
    if (!is_causal(evidence) || evidence.problem().causal_alignment == alignment) return {};
    const Change change = sees_as([=](Problem& p) { p.causal_alignment = alignment; });
    std::vector<Candidate> candidates = always(change);
    if (evidence.problem().alibi == Alibi::none || !evidence.units().s_biased) return candidates;
    const auto with_alibi = [=](SearchedTile& site) {
        change.inputs(site);
        site.own_call().problem.causal_alignment = alignment;
    };
    candidates.push_back({{{"ALiBi", "as well"}}, {.inputs = with_alibi}});
    return candidates;
}

std::vector<Candidate> causal_top_left(const Evidence& evidence) {
    return aligned(evidence, CausalAlignment::top_left);
}

std::vector<Candidate> causal_bottom_right(const Evidence& evidence) {
    return aligned(evidence, CausalAlignment::bottom_right);
}

std::vector<Candidate> causal_ignored(const Evidence& evidence) {
    if (!is_causal(evidence)) return {};
    return always(sees_as([](Problem& p) { p.mask = Mask::none; }));
}

/// The window tells which tiles a block of rows skips, and nothing else.
KeyRange windowed_by_tiles(const Problem& problem, std::int64_t row, std::int64_t first_key) {
    const std::int64_t first_row = row / problem.block_m * problem.block_m;
    const std::int64_t end_row = std::min(first_row + problem.block_m, problem.seqlen_q);
    bool is_visible = false;
    for (std::int64_t other = first_row; other < end_row; ++other) {
        const KeyRange keys = visible_keys(problem, other);
        is_visible = is_visible || (keys.first < first_key + problem.block_n && keys.last > first_key);
    }
    if (!is_visible) return {first_key, first_key};
    Problem open = problem;
    open.window_left = open.window_right = -1;
    return visible_keys(open, row);
}

std::vector<Candidate> window_ignored(const Evidence& evidence) {
    if (!is_windowed(evidence)) return {};
    std::vector<Candidate> candidates =
        always(sees_as([](Problem& p) { p.window_left = p.window_right = -1; }));
    candidates.push_back({{{"but for", "tiles that no row of the block sees"}}, sees(windowed_by_tiles)});
    if (evidence.problem().window_left >= 0 && evidence.problem().window_right >= 0) {
        candidates.push_back({{{"side", "left"}}, sees_as([](Problem& p) { p.window_left = -1; })});
        candidates.push_back({{{"side", "right"}}, sees_as([](Problem& p) { p.window_right = -1; })});
    }
    return candidates;
}

/// How far the first hidden key is from where it should be, on either side, by how many rows of the dump show
/// it.
enum class Side { left, right };
std::vector<std::int64_t> shifts_seen(const Evidence& evidence, Side side) {
    std::map<std::int64_t, int> votes;
    if (!evidence.direct() || evidence.acts != Stage::s) return {};
    for (const Observation& seen : evidence.seen) {
        const auto keys = std::int64_t(seen.got.cols());
        for (Eigen::Index i = 0; i < seen.got.rows() && seen.is_bad(); ++i) {
            if (!seen.bad_rows[std::size_t(i)]) continue;
            std::int64_t first = 0;
            while (first < keys && !(seen.got(i, first) > -3e38f)) ++first;
            std::int64_t last = keys;
            while (last > first && !(seen.got(i, last - 1) > -3e38f)) --last;
            const KeyRange right = visible_keys(seen.site.call->problem, seen.site.first_row + i);
            // A bound at the edge of the tile may lie beyond it.
            if (first == last) continue;
            if (side == Side::right && last < keys) ++votes[seen.site.first_key + last - right.last];
            if (side == Side::left && first > 0) ++votes[seen.site.first_key + first - right.first];
        }
    }
    std::vector<std::int64_t> shifts;
    for (const auto& [shift, count] : votes)
        if (shift != 0) shifts.push_back(shift);
    std::ranges::sort(shifts, [&](std::int64_t a, std::int64_t b) { return votes[a] > votes[b]; });
    if (shifts.size() > 3) shifts.resize(3);
    return shifts;
}

/// Those of the dump, and the common ones.
std::vector<std::int64_t> shifts(const Evidence& evidence, Side side) {
    std::vector<std::int64_t> all = shifts_seen(evidence, side);
    const Problem entry = evidence.call().problem;
    std::vector<std::int64_t> common = {-1, 1};
    if (!evidence.direct()) common.insert(common.end(), {-2, 2, -entry.block_n, entry.block_n});
    for (const std::int64_t shift : common)
        if (std::ranges::find(all, shift) == all.end()) all.push_back(shift);
    return all;
}

std::vector<Candidate> diagonal_shifted(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_causal(evidence)) return {};
    for (const std::int64_t columns : shifts(evidence, Side::right)) {
        const auto visible = [=](const Problem& problem, std::int64_t row, std::int64_t) {
            Problem open = problem;
            open.mask = Mask::none;
            KeyRange keys = visible_keys(open, row);
            keys.last = std::min(keys.last, diagonal_of(problem, row) + columns + 1);
            return keys;
        };
        candidates.push_back({{{"columns", digits(columns)}}, sees(visible), 1});
        if (!is_windowed(evidence)) continue;
        // The bounds of the window follow the row as well.
        const auto of_row = [=](const Problem& problem, std::int64_t row, std::int64_t) {
            return visible_keys(problem, row + columns);
        };
        candidates.push_back({{{"columns", digits(columns)}, {"window", "as well"}}, sees(of_row), 1});
    }
    return candidates;
}

std::vector<Candidate> window_shifted(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_windowed(evidence)) return {};
    const Problem& problem = evidence.problem();
    const auto add = [&](const char* side, std::int64_t left, std::int64_t right, std::int64_t shown) {
        candidates.push_back({{{"side", side}, {"columns", digits(shown)}},
                              sees_as([=](Problem& p) {
                                  if (p.window_left >= 0)
                                      p.window_left = std::max<std::int64_t>(0, p.window_left + left);
                                  if (p.window_right >= 0)
                                      p.window_right = std::max<std::int64_t>(0, p.window_right + right);
                              }),
                              1});
    };
    if (problem.window_left >= 0)
        for (const std::int64_t shift : shifts(evidence, Side::left)) add("left", -shift, 0, -shift);
    if (problem.window_right >= 0)
        for (const std::int64_t shift : shifts(evidence, Side::right)) add("right", 0, shift, shift);
    if (problem.window_left >= 0 && problem.window_right >= 0)
        for (const std::int64_t by : {-1, 1}) add("both", by, by, by);
    return candidates;
}

std::vector<Candidate> mask_tile_local(const Evidence& evidence) {
    if (!masks_here(evidence) || (!is_causal(evidence) && !is_windowed(evidence))) return {};
    std::vector<Candidate> candidates =
        always(sees([](const Problem& problem, std::int64_t row, std::int64_t first_key) {
            const KeyRange keys = visible_keys(problem, row);
            return KeyRange{keys.first + first_key, keys.last + first_key};
        }));
    candidates.push_back(
        {{{"index", "row"}}, sees([](const Problem& problem, std::int64_t row, std::int64_t) {
             return visible_keys(problem, row % problem.block_m);
         })});
    candidates.push_back({{{"index", "row and key"}},
                          sees([](const Problem& problem, std::int64_t row, std::int64_t first_key) {
                              const KeyRange keys = visible_keys(problem, row % problem.block_m);
                              return KeyRange{keys.first + first_key, keys.last + first_key};
                          })});
    if (is_causal(evidence)) {
        candidates.push_back({{{"index", "row and key"}, {"diagonal", "of the tile"}},
                              sees([](const Problem& problem, std::int64_t row, std::int64_t first_key) {
                                  Problem square = problem;
                                  square.causal_alignment = CausalAlignment::top_left;
                                  square.diagonal_offset = 0;
                                  const KeyRange keys = visible_keys(square, row % problem.block_m);
                                  return KeyRange{keys.first + first_key, keys.last + first_key};
                              })});
    }
    return candidates;
}

std::vector<Candidate> mask_row_of_group(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!masks_here(evidence) || (!is_causal(evidence) && !is_windowed(evidence))) return {};
    const Problem& problem = evidence.problem();
    std::vector<std::int64_t> groups = {2, 4, 8, 16, 32, problem.block_m};
    if (const std::int64_t heads = problem.heads / problem.heads_kv;
        heads > 1 && std::ranges::find(groups, heads) == groups.end())
        groups.push_back(heads);
    for (const std::int64_t group : groups) {
        const auto add = [&](const char* row_of, auto row) {
            candidates.push_back({{{"group", digits(group)}, {"row", row_of}},
                                  sees([=](const Problem& p, std::int64_t r, std::int64_t) {
                                      return visible_keys(p, row(p, r));
                                  }),
                                  1});
        };
        add("first of the group", [=](const Problem&, std::int64_t r) { return r / group * group; });
        add("last of the group", [=](const Problem& p, std::int64_t r) {
            return std::min(r / group * group + group, p.seqlen_q) - 1;
        });
        add("number of the group", [=](const Problem&, std::int64_t r) { return r / group; });
    }
    return candidates;
}

/// Of the inputs, for what else is done to scores: wherever a rule says, the mask hides them, or none of them.
Change sees_keys(const KeyRange& keys) {
    return sees([=](const Problem&, std::int64_t, std::int64_t) { return keys; });
}

std::vector<Candidate> mask_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || evidence.seen.empty() || !evidence.units().s_masked) return candidates;
    const auto masked = float(evidence.units().s_masked_value);
    bool hides = false;
    bool shows = false;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            if (!seen.wrong[std::size_t(i)]) continue;
            hides = hides || seen.got.data()[i] == masked;
            shows = shows || (std::isfinite(seen.got.data()[i]) && seen.expected.value.data()[i] == masked);
        }
    }
    if (hides) candidates.push_back({{all_hidden}, sees_keys({0, 0})});
    if (shows)
        candidates.push_back(
            {{{"scores", "shown"}}, sees_keys({0, std::numeric_limits<std::int64_t>::max()})});
    return candidates;
}

}  // namespace

std::vector<Cause> mask_causes() {
    const std::vector<Stage> stages = {Stage::s, Stage::m, Stage::p};
    return {
        {"mask_elsewhere",
         "mask geometry",
         {Stage::s},
         "the mask hides scores that it should not, or shows scores that it should hide",
         "the comparison of row and key, and the bounds of the columns",
         mask_elsewhere},
        // No mask shows every score on any lengths, another diagonal on some: what shows all is said first.
        {"causal_ignored", "mask geometry", stages, "the causal mask is not applied",
         "which tiles are masked, and the comparison", causal_ignored},
        {"window_ignored", "mask geometry", stages, "the sliding window is not applied",
         "which tiles are masked, and the comparison", window_ignored},
        {"causal_top_left", "mask geometry", stages,
         "the causal diagonal starts at the top left although seqlen_q and seqlen_kv differ",
         "seqlen_kv - seqlen_q in the causal comparison", causal_top_left,
         "--causal with seqlen_q and seqlen_kv that differ by more than a tile"},
        {"causal_bottom_right", "mask geometry", stages,
         "the causal diagonal ends at the bottom right although it is declared to start at the top left",
         "seqlen_kv - seqlen_q in the causal comparison", causal_bottom_right},
        {"mask_tile_local", "mask geometry", stages,
         "the mask counts keys or rows from the beginning of the tile",
         "the global index of key and row in the mask", mask_tile_local,
         "--causal with seqlen_q = seqlen_kv of several tiles"},
        {"diagonal_shifted", "mask geometry", stages, "the causal diagonal is some columns off",
         "< or <= in the causal comparison, and the offset of its diagonal", diagonal_shifted,
         "--causal with seqlen_q and seqlen_kv that differ by more than a tile"},
        {"window_shifted", "mask geometry", stages, "the window is some columns too wide or too narrow",
         "whether the bound of the window is inclusive", window_shifted},
        {"tail_not_masked",
         "tail",
         {Stage::s},
         "keys past seqlen_kv are not masked: they take part like any other",
         "the mask of the last KV tile",
         tail_not_masked,
         "seqlen_kv that no tile divides"},
        {"mask_row_of_group", "mask geometry", stages, "the mask takes one row for a group of rows",
         "the row that the mask compares with, where threads or query heads share one", mask_row_of_group},
    };
}

}  // namespace tilescope
