#pragma once

// Which thread owns which element of a stage's tiles: what dump/FORMAT.md calls the threads of a stage.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/comparison.h"

namespace tilescope {

/// The n-th element that a thread owns; threads count in the group that owns a fragment together.
struct ThreadElement {
    int thread = 0;
    int reg = 0;

    TILESCOPE_EQUALITY(ThreadElement);
};

/// The part of a tile that a group of threads owns together, and that is repeated over the tile.
struct Fragment {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::vector<ThreadElement> owners;  ///< [rows][cols]

    TILESCOPE_EQUALITY(Fragment);
};

/// How a stage's tiles lie in the threads of a block. Zeros stand for the defaults.
struct ThreadLayout {
    std::string fragment;           ///< of the table in dump/FORMAT.md, or one given; "": not declared
    std::int64_t lanes = 0;         ///< of "lanes": those that share a row; a power of two up to 32
    std::int64_t lane_columns = 0;  ///< of "lanes": columns next to each other that a lane owns; default 1
    std::int64_t group_rows = 0;    ///< rows of a tile that a group owns; default: those of the fragment
    std::int64_t group_cols = 0;    ///< its columns; default: those of the tile
    std::int64_t groups = 0;        ///< after so many the first one has the next part; default: no repetition
    std::int64_t split_groups = 0;  ///< groups of its own of each split of the KV tiles; default: shared

    bool declared() const { return !fragment.empty(); }
    TILESCOPE_EQUALITY(ThreadLayout);
};

/// The threads of every stage of a recording.
struct ThreadLayouts {
    std::array<ThreadLayout, stage_count> stages;
    std::vector<Fragment> fragments;  ///< layouts of one's own, beside known_fragments()

    ThreadLayout& operator[](Stage stage) { return stages[std::size_t(stage)]; }
    const ThreadLayout& operator[](Stage stage) const { return stages[std::size_t(stage)]; }
    TILESCOPE_EQUALITY(ThreadLayouts);
};

/// Who owns an element.
struct Owner {
    int warp = 0;  ///< of the thread block
    int lane = 0;
    int reg = 0;  ///< number of the element among those that the thread owns of the tile

    TILESCOPE_ORDER(Owner);
};

/// The owners of a stage's elements, from its declaration.
class ThreadMap {
 public:
    /// Errors: Error(where) for a declaration that is unknown or does not cover the stage's tiles.
    ThreadMap(const Problem& problem, Stage stage, const ThreadLayouts& layouts, const std::string& where);

    /// `row` and `col` count in the tile, padding included.
    Owner owner(const TileId& tile, std::int64_t row, std::int64_t col) const;
    int warps() const { return warps_; }          ///< of the thread block
    int registers() const { return registers_; }  ///< that a thread has of a tile

 private:
    Fragment fragment_;
    std::int64_t group_rows_ = 0;
    std::int64_t group_cols_ = 0;
    std::int64_t row_groups_ = 0;
    std::int64_t groups_ = 0;
    std::int64_t split_groups_ = 0;
    Problem problem_;  ///< for its splits
    std::int64_t group_warps_ = 0;
    std::int64_t fragment_registers_ = 0;
    int warps_ = 0;
    int registers_ = 0;
};

/// Nullopt where the stage's threads are not declared. Errors: those of ThreadMap.
std::optional<ThreadMap> thread_map(const Problem& problem, Stage stage, const ThreadLayouts& layouts,
                                    const std::string& where);

/// Names of the fragments that need no Fragment of their own.
std::vector<std::string_view> known_fragments();
/// Whether it may be the name of a given fragment: [a-z][a-z0-9_]*, at most 32 characters, none of the known.
bool is_fragment_name(std::string_view name);

/// Throws Error(where) unless the fragment has a name of its own, from 1 to 256 rows and columns, an owner
/// for each element, of at most 1024 threads with 256 registers, and no two elements the same.
void validate(const Fragment& fragment, const std::string& where);
/// Throws Error(where) unless all fragments are valid and every declared stage that the problem has is
/// covered.
void validate(const ThreadLayouts& layouts, const Problem& problem, const std::string& where);

/// "warp 2, lane 17, register 3".
std::string to_string(const Owner& owner);

}  // namespace tilescope
