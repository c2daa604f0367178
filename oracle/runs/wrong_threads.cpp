#include "oracle/runs/wrong_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "oracle/runs/places.h"

namespace tilescope {

namespace {

/// What an owner is counted by.
struct OwnerAxis {
    const char* one;
    const char* several;
    int Owner::*number;
    ThreadSet WrongThreads::*set;
};

constexpr OwnerAxis axes[] = {
    {"warp", "warps", &Owner::warp, &WrongThreads::warps},
    {"lane", "lanes", &Owner::lane, &WrongThreads::lanes},
    {"register", "registers", &Owner::reg, &WrongThreads::registers},
};

std::optional<ThreadMap> map_of(const Recording& recording, Stage stage) {
    return thread_map(recording.problem(), stage, recording.threads(), recording.name());
}

/// Marks number `at`.
void mark(std::vector<bool>& set, int at) {
    if (std::ssize(set) <= at) set.resize(std::size_t(at) + 1, false);
    set[std::size_t(at)] = true;
}

/// The owners of all elements, and of those that are wrong.
WrongThreads owners_of(const ThreadMap& map, const ForEachOwned& for_each) {
    WrongThreads threads;
    threads.warps_of_block = map.warps();
    threads.registers_of_thread = map.registers();
    for_each([&](const TileId& tile, std::int64_t row, std::int64_t col, Ownership ownership) {
        const Owner owner = map.owner(tile, row, col);
        for (const OwnerAxis& axis : axes) {
            mark((threads.*axis.set).all, owner.*axis.number);
            if (ownership != Ownership::wrong) continue;
            mark((threads.*axis.set).wrong, owner.*axis.number);
        }
        threads.elements += ownership == Ownership::wrong;
    });
    for (const OwnerAxis& axis : axes)
        (threads.*axis.set).wrong.resize((threads.*axis.set).all.size(), false);
    return threads;
}

bool holds(const WrongThreads& threads, const Owner& owner) {
    return std::ranges::all_of(axes, [&](const OwnerAxis& axis) {
        return (threads.*axis.set).wrong[std::size_t(owner.*axis.number)];
    });
}

/// What is right and wrong in bad tiles, of the threads and of the others.
struct Owned {
    std::int64_t wrong = 0;
    std::int64_t right = 0;
    std::int64_t others_right = 0;

    /// Nearly all elements are told right from wrong, and most of what the threads own is wrong.
    bool tell() const { return wrong + others_right >= 9 * right && wrong >= right; }
    /// Part of what the threads own is wrong, and nothing of as much that others own.
    bool hold_all_wrong() const { return 9 * wrong >= right && 19 * others_right >= wrong + right; }
};

Owned count_owned(const ThreadMap& map, const ForEachOwned& for_each, const WrongThreads& threads) {
    Owned owned;
    for_each([&](const TileId& tile, std::int64_t row, std::int64_t col, Ownership ownership) {
        if (ownership == Ownership::no_matter) return;
        const bool inside = holds(threads, map.owner(tile, row, col));
        // Whoever owns what is wrong is one of them.
        owned.wrong += ownership == Ownership::wrong;
        owned.right += inside && ownership == Ownership::right;
        owned.others_right += !inside;
    });
    return owned;
}

/// An element that should be 0 or infinite may be so in spite of a mistake.
Ownership ownership_of(const SeenTile& seen, Eigen::Index row, Eigen::Index col) {
    if (seen.is_wrong(row, col)) return Ownership::wrong;
    const double expected = seen.expected.value(row, col);
    const bool matters = seen.is_bad() && std::isfinite(expected) && expected != 0;
    return matters ? Ownership::right : Ownership::no_matter;
}

constexpr std::size_t most_listed = 4;

std::set<std::int64_t> wrong_numbers(const ThreadSet& set) {
    std::set<std::int64_t> numbers;
    for (std::size_t i = 0; i < set.wrong.size(); ++i)
        if (set.wrong[i]) numbers.insert(std::int64_t(i));
    return numbers;
}

bool is_regular(const ThreadSet& set) {
    return wrong_numbers(set).size() <= most_listed || places_of(set.wrong).has_value();
}

/// "warp 2 of 4", "lanes 16-31", "registers 0-1 of every 4".
std::string text_of(const OwnerAxis& axis, const ThreadSet& set, int of) {
    const std::string numbers = numbers_of(set);
    const bool one = wrong_numbers(set).size() == 1;
    const bool says_of = of == 0 || numbers.find("of") != std::string::npos;
    return fmt::format("{} {}{}", one ? axis.one : axis.several, numbers,
                       says_of ? std::string() : fmt::format(" of {}", of));
}

std::string says(const WrongThreads& threads) {
    std::string text =
        threads.warps.is_part() ? text_of(axes[0], threads.warps, threads.warps_of_block) : "every warp";
    if (threads.lanes.is_part()) text += ", " + text_of(axes[1], threads.lanes, 0);
    if (!threads.registers.is_part()) return text;
    return text + (threads.lanes.is_part() ? ", " : ", all lanes, ") +
           text_of(axes[2], threads.registers, threads.registers_of_thread);
}

/// Of all threads and their registers.
double share_of(const WrongThreads& threads) {
    double share = 1;
    for (const OwnerAxis& axis : axes) {
        const ThreadSet& set = threads.*axis.set;
        share *= double(std::ranges::count(set.wrong, true)) / double(std::ranges::count(set.all, true));
    }
    return share;
}

/// The rows, counted in their tile, where all that are bad follow each other in one tile; otherwise none.
struct RowsOfTile {
    TileId tile;
    std::int64_t first = 0;
    std::int64_t count = 0;
};
RowsOfTile run_of_bad_rows(const Report& report, Stage stage) {
    const std::vector<BadRow>& rows = report.stage(stage).tally.bad_rows;
    const Axis axis = stage_info(report.problem, stage).row_axis;
    if (rows.empty() || !report.first_divergence || (axis != Axis::query && axis != Axis::key)) return {};
    const BadRow& first = rows.front();
    const BadRow& last = rows.back();
    const std::int64_t block = tile_shape(report.problem, stage).rows;
    const bool one_tile = first.batch == last.batch && first.head == last.head &&
                          first.row / block == last.row / block &&
                          last.row - first.row + 1 == std::ssize(rows);
    if (!one_tile) return {};
    TileId tile = report.first_divergence->tile;
    (axis == Axis::key ? tile.kv_tile : tile.q_block) = first.row / block;
    return {tile, first.row % block, std::ssize(rows)};
}

/// Whether all bad rows follow each other, and what they hold is what the threads own.
bool rows_say_as_much(const Report& report, const WrongThreads& threads) {
    const Stage stage = *report.guilty;
    const RowsOfTile rows = run_of_bad_rows(report, stage);
    if (rows.count == 0) return false;
    const std::optional<ThreadMap> map = thread_map(report.problem, stage, report.threads, report.recording);
    if (!map) return false;
    WrongThreads owners = threads;
    for (const OwnerAxis& axis : axes)
        (owners.*axis.set).wrong.assign((threads.*axis.set).wrong.size(), false);
    const std::int64_t cols = tile_shape(report.problem, stage).cols;
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
            const Owner owner = map->owner(rows.tile, row, col);
            for (const OwnerAxis& axis : axes) mark((owners.*axis.set).wrong, owner.*axis.number);
        }
    }
    return std::ranges::all_of(
        axes, [&](const OwnerAxis& axis) { return (owners.*axis.set).wrong == (threads.*axis.set).wrong; });
}

/// "lane 5", "warps 0 and 2".
std::string named(const OwnerAxis& axis, const ThreadSet& set) {
    std::string text = text_of(axis, set, 0);
    const std::size_t comma = text.rfind(", ");
    return comma == std::string::npos ? text : text.replace(comma, 2, " and ");
}

}  // namespace

std::string threads_sentence(const Report& report, const WrongThreads& threads) {
    constexpr double most = 0.75;
    if (share_of(threads) > most || rows_say_as_much(report, threads)) return "";
    std::string where;
    const auto add = [&](const std::string& part) {
        // "lanes 1 of every 4 in every warp"
        const std::string_view joint = where.find(" of every ") == std::string::npos ? " of " : " in ";
        where += where.empty() ? part : std::string(joint) + part;
    };
    if (threads.registers.is_part()) add(named(axes[2], threads.registers));
    if (threads.lanes.is_part()) add(named(axes[1], threads.lanes));
    if (threads.warps.is_part())
        add(named(axes[0], threads.warps));
    else if (threads.lanes.is_part() && threads.warps_of_block > 1)
        add("every warp");
    else if (!threads.lanes.is_part())
        add("every thread");
    std::int64_t all = 0;
    for (const BadRow& row : report.stage(*report.guilty).tally.bad_rows) all += row.elements;
    const std::string looked_at =
        threads.elements < all ? fmt::format(" of {} looked at", threads.elements) : "";
    return fmt::format("every wrong element{} belongs to {}", looked_at, where);
}

std::string numbers_of(const ThreadSet& set) {
    const std::set<std::int64_t> numbers = wrong_numbers(set);
    const std::optional<Places> places = places_of(set.wrong);
    return numbers.size() > most_listed && places ? to_string(*places) : range_of(numbers).text;
}

std::optional<WrongThreads> wrong_threads(const ThreadMap& map, const ForEachOwned& for_each) {
    WrongThreads threads = owners_of(map, for_each);
    const auto is_part = [&](const OwnerAxis& axis) { return (threads.*axis.set).is_part(); };
    const auto fits = [&](const OwnerAxis& axis) { return !is_part(axis) || is_regular(threads.*axis.set); };
    if (std::ranges::none_of(axes, is_part) || !std::ranges::all_of(axes, fits)) return std::nullopt;
    const Owned owned = count_owned(map, for_each, threads);
    if (!owned.tell() && !owned.hold_all_wrong()) return std::nullopt;
    threads.among_right_ones = !owned.tell();
    threads.says = says(threads);
    return threads;
}

std::optional<WrongThreads> wrong_threads(const Recording& recording, const SeenTiles& seen) {
    const std::optional<ThreadMap> map = map_of(recording, seen.stage);
    if (!map || seen.wrong_elements == 0) return std::nullopt;
    return wrong_threads(*map, [&](const ShowOwned& show) {
        for (const SeenTile* const tile : seen.tiles) {
            for (Eigen::Index i = 0; i < tile->got.rows(); ++i)
                for (Eigen::Index j = 0; j < tile->got.cols(); ++j)
                    show(tile->id, i, j, ownership_of(*tile, i, j));
        }
    });
}

Holds owned_by(const Recording& recording, Stage stage, const WrongThreads& threads) {
    return
        [map = *map_of(recording, stage), threads](const SeenTile& seen, Eigen::Index row, Eigen::Index col) {
            return seen.is_bad() && holds(threads, map.owner(seen.id, row, col));
        };
}

}  // namespace tilescope
