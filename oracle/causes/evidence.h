#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oracle/causes/walk.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge/report.h"
#include "oracle/runs/seen_tiles.h"

namespace tilescope {

/// Of what diverges, so much must be as the replay of one mistake has it.
inline constexpr double enough_of_one = 0.99;

/// A dumped tile of the stage that diverges, with what goes into its formula.
/// `expected` is of a kernel with the changes known so far.
struct Observation : SeenTile {
    SearchedTile site;  ///< what its stage is computed from
    DumpFactor factor;  ///< from natural units to the dump's
    TileContext context;
    std::vector<bool> settled;  ///< of each row: explained by a mistake found before; not compared again

    /// Got, in natural units.
    double natural(Eigen::Index row, Eigen::Index col) const {
        return double(got(row, col)) / factor.at(row, col);
    }
};

/// What is known of a stage that diverges: tiles that do and tiles that do not, from several heads and query
/// blocks.
struct Evidence {
    const CauseSearch* world = nullptr;
    Stage acts = Stage::q;      ///< in which the mistake is looked for
    Stage observed = Stage::q;  ///< in which it shows
    std::vector<Change> known;  ///< changes that are in the replay already
    /// Changes of the inputs that are in `seen` already, as mistakes before the stage have them; then only direct() is asked.
    std::vector<Change> beneath;
    std::vector<TileId> blocks;
    std::vector<Observation> seen;
    std::int64_t wrong_elements = 0;
    std::int64_t compared = 0;

    /// Whether the stage with the mistake was itself dumped: then a parameter (a factor, a shift) can be read
    /// from its values.
    bool direct() const { return acts == observed; }
    const HeadCall& call() const { return *seen.front().site.call; }
    const Problem& problem() const { return world->recording().problem(); }
    const Units& units() const { return world->recording().units(); }
};

/// The tiles alone. The evidence has to stay.
SeenTiles seen_tiles_of(const Evidence& evidence);

/// Collects tiles of query blocks that have bad rows, and of as many that have none.
Evidence collect_evidence(const CauseSearch& world, const Report& report, Stage observed, int threads);

/// The same tiles, judged with `known` changes of the stage `acts`.
Evidence with_known(const Evidence& evidence, Stage acts, std::vector<Change> known);

/// The same where the stage is computed from inputs as this change has them. Of a tile that has it in a part, each part is a
/// tile of its own.
Evidence with_inputs(const Evidence& evidence, const Change& change);

/// Of what the change would have otherwise nothing is asked.
Evidence without_changed(const Evidence& evidence, const Change& change);

/// The same without the rows that `change` explains.
Evidence without_explained(const Evidence& evidence, const Change& change);

/// The same of the elements that `is_inside` alone, in `most` tiles that diverge and as many others.
Evidence part_of(
    const Evidence& evidence, std::size_t most,
    const std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)>& is_inside);

/// How well the replay of a mistake fits the tiles that were looked at: first the elements that do not fit
/// (right ones that the mistake would change, wrong ones that it does not explain), then the wrong ones that
/// do.
struct Misfit {
    std::int64_t in_bad_rows = 0;
    std::int64_t beside_bad_rows = 0;  ///< in tiles that have bad rows
    std::int64_t in_good_tiles = 0;
    /// Wrong elements that the replay reproduces. Sharp: as near as the healthy budget asks for, or within a
    /// budget of the replay that the right value would miss. Swallowed: within a budget of the replay that is
    /// so wide that the right value would pass, too. That explains nothing by itself: they count as fitting
    /// only beside three times as many sharp ones.
    std::int64_t sharp = 0;
    std::int64_t swallowed = 0;
    /// Of which the replay says nothing, as where it reads memory that was not dumped: they count as fitting beside as many
    /// sharp ones.
    std::int64_t unknown = 0;
    std::int64_t unknown_left = 0;  ///< of these, those that do not count as fitting
    /// Elements of which it says nothing, right ones as well: in bad rows, beside them in their tiles, and in good tiles.
    std::int64_t open_in_bad_rows = 0;
    std::int64_t open_beside_bad_rows = 0;
    std::int64_t open_in_good_tiles = 0;
    std::int64_t by_value = 0;  ///< sharp ones but computed NaN: numbers, infinities, unwritten elements
    std::int64_t finite = 0;    ///< judged elements that the replay expects to be finite, and that fit
    /// Sum of |got - replay| / |got - healthy| over the finite wrong elements that fit, and how many these
    /// are: how much nearer the dump is to the replay than to what is right.
    double distance = 0;
    std::int64_t distances = 0;
    bool widens = false;           ///< Change::widens of the mistake
    std::int64_t unexplained = 0;  ///< wrong elements that do not fit

    std::int64_t in_bad_tiles() const { return in_bad_rows + beside_bad_rows; }
    std::int64_t anywhere() const { return in_bad_tiles() + in_good_tiles; }
    /// Whether the dump is, on the whole, at least twice as near to the replay as to what is right: to be
    /// within a wider budget is not enough.
    bool tells_values() const;
    /// Whether something speaks for the mistake beside NaN, which many mistakes leave.
    bool tells_more_than_nan() const { return by_value > 0 || finite > 0; }
};

/// Elements that are not as the replay has them, of those that a cause of this scope answers for.
std::int64_t left_by(Scope scope, const Misfit& misfit);
/// Of those, the elements of which the replay says nothing.
std::int64_t open_by(Scope scope, const Misfit& misfit);

/// Which kernel an element is as: one with the change alone, a healthy one alone, both or none.
enum class Side : std::uint8_t { changed, healthy, either, neither };

/// Calls `see` with every element, by its number in the row-major tile.
void visit_sides(const Evidence& evidence, const Change& change,
                 const std::function<void(const Observation&, Eigen::Index, Side)>& see);

/// Replays the tiles with the known changes and this one, and counts what fits. Stops early, with every
/// element counted as not fitting, where the first bad tiles show that the change explains next to nothing.
Misfit misfit_of(const Evidence& evidence, const Change& change);

}  // namespace tilescope
