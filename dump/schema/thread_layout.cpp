#include "dump/schema/thread_layout.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr std::int64_t warp_size = 32;
constexpr std::int64_t most_warps = 32;  ///< of a thread block
constexpr std::int64_t most_side = 256;  ///< of a given fragment
constexpr std::int64_t most_registers = 256;
constexpr std::int64_t most_elements = std::int64_t(1) << 20;  ///< of a tile, with one thread

constexpr const char* advice = "declare the threads as dump/FORMAT.md says, or leave the declaration out";

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
    throw Error(what, where, advice);
}

std::string size_of(std::int64_t rows, std::int64_t cols) {
    return std::to_string(rows) + " x " + std::to_string(cols);
}

std::int64_t or_default(std::int64_t given, std::int64_t otherwise) {
    return given == 0 ? otherwise : given;
}

/// A fragment of the table: its size and the owner of an element.
struct KnownFragment {
    std::string_view name;
    std::int64_t (*rows)(const ThreadLayout&);
    std::int64_t (*cols)(const ThreadLayout&);
    ThreadElement (*owner)(const ThreadLayout&, int row, int col);
};

std::int64_t lane_columns(const ThreadLayout& layout) {
    return or_default(layout.lane_columns, 1);
}

ThreadElement lane_owner(const ThreadLayout& layout, int row, int col) {
    const int columns = int(lane_columns(layout));
    return {row * int(layout.lanes) + col / columns, col % columns};
}

// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", accumulators: with groupID =
// lane / 4, row = groupID + 8 (i / 2), col = 2 (lane mod 4) + i mod 2. Those of m16n8k8 and m16n8k32 lie
// alike.
ThreadElement mma_owner(const ThreadLayout&, int row, int col) {
    return {row % 8 * 4 + col / 2, row / 8 * 2 + col % 2};
}

// Source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", accumulators: warp w of the warpgroup
// has rows 16 w to 16 w + 15, as those of mma.m16n8k16, for each 8 columns.
ThreadElement wgmma_owner(const ThreadLayout& layout, int row, int col) {
    const ThreadElement in_warp = mma_owner(layout, row % 16, col);
    return {row / 16 * 32 + in_warp.thread, in_warp.reg};
}

template <std::int64_t size>
std::int64_t always(const ThreadLayout&) {
    return size;
}

constexpr KnownFragment known[] = {
    {"lanes", [](const ThreadLayout& layout) { return warp_size / layout.lanes; },
     [](const ThreadLayout& layout) { return layout.lanes * lane_columns(layout); }, lane_owner},
    {"mma_m16n8", always<16>, always<8>, mma_owner},
    {"wgmma_m64", always<64>, always<8>, wgmma_owner},
};

void require_lanes(const ThreadLayout& layout, const std::string& where) {
    const bool striped = layout.fragment == "lanes";
    if (!striped && (layout.lanes != 0 || layout.lane_columns != 0))
        refuse("declares lanes, and its fragment is " + shortened(layout.fragment), where);
    if (!striped) return;
    if (layout.lanes < 1 || layout.lanes > warp_size || !std::has_single_bit(std::uint64_t(layout.lanes)))
        refuse("has " + std::to_string(layout.lanes) + " lanes a row, not 1, 2, 4, 8, 16 or 32", where);
    if (layout.lane_columns < 0 || layout.lane_columns > most_side)
        refuse("has " + std::to_string(layout.lane_columns) + " columns a lane, not 1 to 256", where);
}

Fragment fragment_of(const KnownFragment& kind, const ThreadLayout& layout) {
    Fragment fragment;
    fragment.name = kind.name;
    fragment.rows = kind.rows(layout);
    fragment.cols = kind.cols(layout);
    for (std::int64_t row = 0; row < fragment.rows; ++row) {
        for (std::int64_t col = 0; col < fragment.cols; ++col)
            fragment.owners.push_back(kind.owner(layout, int(row), int(col)));
    }
    return fragment;
}

Fragment find_fragment(const ThreadLayouts& layouts, const ThreadLayout& layout, const std::string& where) {
    require_lanes(layout, where);
    const auto* const kind = std::ranges::find(known, layout.fragment, &KnownFragment::name);
    if (kind != std::end(known)) return fragment_of(*kind, layout);
    const auto given = std::ranges::find(layouts.fragments, layout.fragment, &Fragment::name);
    if (given != layouts.fragments.end()) return *given;
    std::string names;
    for (const KnownFragment& row : known) names += std::string(row.name) + ", ";
    for (const Fragment& row : layouts.fragments) names += row.name + ", ";
    names.resize(names.size() - 2);
    const bool readable = is_fragment_name(layout.fragment);
    throw Error("declares " + (readable ? "the fragment " + layout.fragment : "a fragment of another name") +
                    ", which is none of " + names,
                where, "name one of these, or give its owners in /fragments as dump/FORMAT.md says");
}

void require_positive(const ThreadLayout& layout, const std::string& where) {
    struct Size {
        const char* name;
        std::int64_t value;
    };
    for (const Size& size : {Size{"group_rows", layout.group_rows}, Size{"group_cols", layout.group_cols},
                             Size{"groups", layout.groups}, Size{"split_groups", layout.split_groups}}) {
        if (size.value < 0) refuse(std::string(size.name) + " is negative", where);
    }
}

std::string name_of(const Problem& problem, Stage stage) {
    return std::string(stage_info(problem, stage).name);
}

/// The fragment of values of a row: its threads have them in order of rows.
Fragment first_column(const Fragment& fragment) {
    Fragment column{fragment.name, fragment.rows, 1, {}};
    for (std::int64_t row = 0; row < fragment.rows; ++row) {
        const int thread = fragment.owners[std::size_t(row * fragment.cols)].thread;
        const auto before = std::ranges::count(column.owners, thread, &ThreadElement::thread);
        column.owners.push_back({thread, int(before)});
    }
    return column;
}

/// Largest number among the owners, and one more.
std::int64_t count_of(const Fragment& fragment, int ThreadElement::*member) {
    return std::ranges::max(fragment.owners, {}, member).*member + 1;
}

}  // namespace

ThreadMap::ThreadMap(const Problem& problem, Stage stage, const ThreadLayouts& layouts,
                     const std::string& where)
    : fragment_(find_fragment(layouts, layouts[stage], where)) {
    const ThreadLayout& layout = layouts[stage];
    require_positive(layout, where);
    const TileShape tile = tile_shape(problem, stage);
    if (tile.cols == 1) fragment_ = first_column(fragment_);
    group_rows_ = or_default(layout.group_rows, fragment_.rows);
    group_cols_ = or_default(layout.group_cols, tile.cols);
    const auto covers = [](std::int64_t part, std::int64_t whole) {
        return part <= whole && whole % part == 0;
    };
    const std::string of_tile =
        "the tile of " + name_of(problem, stage) + ", " + size_of(tile.rows, tile.cols);
    const std::string of_group = size_of(group_rows_, group_cols_) + " that a group owns";
    if (!covers(fragment_.rows, group_rows_) || !covers(fragment_.cols, group_cols_))
        refuse("the fragment " + fragment_.name + ", " + size_of(fragment_.rows, fragment_.cols) +
                   ", does not cover the " + of_group,
               where);
    if (!covers(group_rows_, tile.rows) || !covers(group_cols_, tile.cols))
        refuse("the " + of_group + " do not cover " + of_tile, where);

    row_groups_ = tile.rows / group_rows_;
    const std::int64_t all = row_groups_ * (tile.cols / group_cols_);
    groups_ = or_default(layout.groups, all);
    if (groups_ > all)
        refuse("has " + std::to_string(groups_) + " groups where " + of_tile + ", has " + std::to_string(all),
               where);
    split_groups_ = layout.split_groups;
    problem_ = problem;
    const bool has_splits = problem.is_split() && stage_info(problem, stage).per_kv_tile;
    if (split_groups_ > 0 && !has_splits)
        refuse("has groups for each split, and " + name_of(problem, stage) + " has no splits", where);
    if (split_groups_ > 0 && split_groups_ < groups_)
        refuse("has " + std::to_string(split_groups_) + " groups for each split where a tile has " +
                   std::to_string(groups_),
               where);

    group_warps_ = (count_of(fragment_, &ThreadElement::thread) + warp_size - 1) / warp_size;
    fragment_registers_ = count_of(fragment_, &ThreadElement::reg);
    const std::int64_t splits = split_groups_ > 0 ? problem.splits() : 1;
    const std::int64_t block_groups = split_groups_ > 0 ? split_groups_ : groups_;
    if (splits > most_warps || block_groups > most_warps || splits * block_groups * group_warps_ > most_warps)
        refuse("has more than " + std::to_string(most_warps) + " warps, which no thread block has", where);
    warps_ = int(splits * block_groups * group_warps_);
    const std::int64_t rounds = (all + groups_ - 1) / groups_;
    const std::int64_t fragments = group_rows_ / fragment_.rows * (group_cols_ / fragment_.cols);
    if (rounds > most_elements || fragments > most_elements ||
        rounds * fragments > most_elements / fragment_registers_)
        refuse("gives a thread more than " + std::to_string(most_elements) + " elements of a tile", where);
    registers_ = int(rounds * fragments * fragment_registers_);
}

Owner ThreadMap::owner(const TileId& tile, std::int64_t row, std::int64_t col) const {
    const std::int64_t group = row / group_rows_ + row_groups_ * (col / group_cols_);
    const std::int64_t fragments_in_row = group_cols_ / fragment_.cols;
    const std::int64_t fragments = group_rows_ / fragment_.rows * fragments_in_row;
    const std::int64_t fragment = group / groups_ * fragments +
                                  row % group_rows_ / fragment_.rows * fragments_in_row +
                                  col % group_cols_ / fragment_.cols;
    const ThreadElement& element =
        fragment_.owners[std::size_t(row % fragment_.rows * fragment_.cols + col % fragment_.cols)];
    const std::int64_t first = split_groups_ > 0 ? problem_.split_of(tile.kv_tile) * split_groups_ : 0;
    return {int((first + group % groups_) * group_warps_) + element.thread / int(warp_size),
            element.thread % int(warp_size), int(fragment * fragment_registers_) + element.reg};
}

std::optional<ThreadMap> thread_map(const Problem& problem, Stage stage, const ThreadLayouts& layouts,
                                    const std::string& where) {
    if (!layouts[stage].declared()) return std::nullopt;
    return ThreadMap(problem, stage, layouts, where);
}

std::vector<std::string_view> known_fragments() {
    std::vector<std::string_view> names;
    for (const KnownFragment& row : known) names.push_back(row.name);
    return names;
}

bool is_fragment_name(std::string_view name) {
    constexpr std::size_t longest = 32;
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
    return !name.empty() && name.size() <= longest && is_letter(name.front()) &&
           std::ranges::all_of(name, is_allowed) &&
           std::ranges::find(known, name, &KnownFragment::name) == std::end(known);
}

void validate(const Fragment& fragment, const std::string& where) {
    if (!is_fragment_name(fragment.name))
        refuse("a fragment's name is that of another, or not of a-z, 0-9 and _", where);
    const std::string what = "the fragment " + fragment.name;
    const auto is_side = [](std::int64_t size) { return size >= 1 && size <= most_side; };
    if (!is_side(fragment.rows) || !is_side(fragment.cols))
        refuse(what + " is " + size_of(fragment.rows, fragment.cols) + ", not of 1 to 256 rows and columns",
               where);
    if (std::ssize(fragment.owners) != fragment.rows * fragment.cols)
        refuse(what + " has " + std::to_string(fragment.owners.size()) + " owners, not " +
                   size_of(fragment.rows, fragment.cols),
               where);
    std::set<std::pair<int, int>> seen;
    for (const ThreadElement& owner : fragment.owners) {
        const auto refuse_owner = [&](const char* does, const char* limit) {
            std::string text = what;
            text.append(does).append("thread ").append(std::to_string(owner.thread));
            text.append(", register ").append(std::to_string(owner.reg)).append(limit);
            refuse(text, where);
        };
        if (owner.thread < 0 || owner.thread >= most_warps * warp_size || owner.reg < 0 ||
            owner.reg >= most_registers)
            refuse_owner(" names ", "; there are 1024 threads and 256 registers at most");
        if (!seen.insert({owner.thread, owner.reg}).second) refuse_owner(" gives two elements to ", "");
    }
}

void validate(const ThreadLayouts& layouts, const Problem& problem, const std::string& where) {
    std::set<std::string> names;
    for (const Fragment& fragment : layouts.fragments) {
        validate(fragment, where);
        if (!names.insert(fragment.name).second)
            refuse("gives the fragment " + fragment.name + " twice", where);
    }
    for (const StageInfo& info : stages_of(problem))
        thread_map(problem, info.stage, layouts, where + ": threads of " + std::string(info.name));
}

std::string to_string(const Owner& owner) {
    return "warp " + std::to_string(owner.warp) + ", lane " + std::to_string(owner.lane) + ", register " +
           std::to_string(owner.reg);
}

}  // namespace tilescope
