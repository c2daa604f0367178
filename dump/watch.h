#pragma once

// The watch: a launch that keeps statistics only, rules that they must keep, and the selection of a second
// launch that records the query blocks that broke one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording/tile_statistics.h"

namespace tilescope {

struct WatchedTile;

/// What breaks a rule: "greatest 3.2 is above 1.00001".
struct Breach {
    std::string_view what;  ///< of the tile
    double got = 0;
    std::string_view relation;
    double limit = 0;
};

std::string to_string(const Breach& breach);

/// Something that is true of every healthy kernel with finite inputs, of a tile's statistics.
struct WatchRule {
    std::string_view name;
    std::uint32_t stages;       ///< bit set
    int severity;               ///< 0 is the gravest
    std::string_view sentence;  ///< what is true of a healthy kernel
    /// Nullopt where the tile keeps the rule, and where what the rule needs was not kept. Null where tiles
    /// are not looked at one by one.
    std::optional<Breach> (*breach)(const WatchedTile& tile);
};

/// A rule that a query block broke in a stage. For dk and dv: that a head did.
struct WatchFinding {
    const WatchRule* rule = nullptr;
    Stage stage = Stage::q;
    TileId tile;  ///< the first one, in the kernel's order of KV tiles
    Breach breach;
    std::int64_t tiles = 1;  ///< tiles of the block that break the rule
};

/// "p of batch 0, head 1, q block 2, KV tile 3: greatest 1.5 is above 1: exp(s - m) is at most 1, ..."
std::string to_string(const WatchFinding& finding);

struct WatchReport {
    std::int64_t tiles = 0;  ///< tiles that a hook wrote and whose statistics were looked at
    /// Tiles that also hold rows beyond a batch entry's length: only their unwritten elements are looked at.
    std::int64_t beyond = 0;
    std::int64_t without_room = 0;       ///< tiles that were selected and had none
    std::vector<WatchFinding> findings;  ///< by severity, then in order of computation
};

/// Judges a launch. Errors: Error when no hook wrote anything, and when it did not end as it should.
WatchReport watch(const StatisticsRun& run);

/// Adds the tiles whose hashes differ in a second launch with the same inputs: a race, or memory that is read
/// before it is written. Errors: Error when the runs are not of the same problem and selection.
void watch_repeat(const StatisticsRun& first, const StatisticsRun& second, WatchReport& report);

/// What the second launch records: whole query blocks up to the KV tile that broke a rule, so that every
/// stage can be recomputed from the stages before it.
struct SuspectSelection {
    Selection selection;          ///< means nothing where `dumped` is 0
    std::size_t bytes = 0;        ///< memory that a capture of the selection takes
    std::int64_t dumped = 0;      ///< findings whose query blocks are in the selection
    std::int64_t left_out = 0;    ///< findings that do not fit into the budget
    std::size_t least_bytes = 0;  ///< what the first finding that was left out would take alone
};

/// Findings in their order, as many as fit into `budget` bytes.
SuspectSelection select_suspects(const Problem& problem, const Units& units, const WatchReport& report,
                                 std::size_t budget);

}  // namespace tilescope
