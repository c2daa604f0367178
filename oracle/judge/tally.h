#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "dump/schema.h"
#include "oracle/formula/matrix.h"

namespace tilescope {

/// How one element fares. The first three are no divergence.
enum class Finding : std::uint8_t {
    match,
    indifferent,  ///< nothing can be expected here, or an unwritten cell that the mask hides
    not_judged,   ///< within a tolerance that tells nothing
    outside,      ///< finite, further from the expected value than the tolerance
    nan,
    infinite,    ///< an infinity where none is expected, or a finite value in place of an expected infinity
    unwritten,   ///< no thread wrote it
    conflicting  ///< written again with different bits
};

std::string_view to_string(Finding finding);
bool is_divergence(Finding finding);

/// One element, in coordinates of the whole tensor. `row` is a q row; for k and v it is a key.
struct Element {
    Finding finding = Finding::match;
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
    double got = 0;
    double expected = 0;
    double tolerance = 0;

    /// |got - expected| / tolerance; infinity where one of them is not finite.
    double ratio() const;
};

/// Order of KV tile, batch, head, row, column.
bool comes_before(const Element& a, const Element& b);

struct BadRow {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t elements = 0;
    auto operator<=>(const BadRow&) const = default;
};

/// What a comparison of one stage found. Threads count parts of a stage; merge() adds them up in any order.
struct StageTally {
    std::int64_t tiles = 0;          ///< tiles compared
    std::int64_t tiles_missing = 0;  ///< tiles that the kernel should have written and did not
    std::int64_t compared = 0;       ///< elements compared, without indifferent ones and those not judged
    std::int64_t not_judged = 0;     ///< elements within a tolerance that tells nothing
    std::int64_t outside = 0;        ///< elements that diverge, of any kind
    std::int64_t nan = 0;
    std::int64_t infinite = 0;
    std::int64_t unwritten =
        0;  ///< inside captured tiles and in missing ones, also where the mask hides them
    std::int64_t conflicting = 0;  ///< elements written again with different bits
    /// Elements that hold the largest number of the type that the stage was cast to, although the expected
    /// value is larger; and the largest such expected value.
    std::int64_t saturated = 0;
    double most_saturated = 0;
    std::int64_t inherited = 0;  ///< elements that agree with the stages before them, yet differ end to end
    double max_abs = 0;          ///< largest finite |got - expected|
    std::uint64_t max_ulp = 0;
    double budget_used = 0;  ///< largest |got - expected| / tolerance of the elements that match
    /// Over all elements that are expected to be finite: the largest expected - tolerance, and the smallest
    /// expected + tolerance. As long as the first is not above the second, one constant passes for all of
    /// them: see constant_passes().
    double highest_lower = -std::numeric_limits<double>::infinity();
    double lowest_upper = std::numeric_limits<double>::infinity();
    std::optional<Element> first;  ///< first divergence, by comes_before()
    std::optional<Element> first_nan;
    std::optional<Element> first_infinite;
    std::optional<Element> first_unwritten;
    std::vector<Element> worst;  ///< largest ratio() first
    std::vector<BadRow> bad_rows;

    /// Least and largest finite value of the elements compared, of an output.
    double least_got = std::numeric_limits<double>::infinity();
    double most_got = -std::numeric_limits<double>::infinity();
    /// The same with half of each derived tolerance, for is_constant(): the first is above the second once
    /// two expected values differ by more than the mean of their tolerances.
    double highest_half_lower = -std::numeric_limits<double>::infinity();
    double lowest_half_upper = std::numeric_limits<double>::infinity();

    bool diverges() const { return outside > 0 || conflicting > 0; }
    /// Whether an output holds one value alone although more than one is expected.
    bool is_constant() const { return least_got == most_got && highest_half_lower > lowest_half_upper; }
    /// Whether one constant in place of every element would have matched: then a match says nothing.
    bool constant_passes() const { return compared > 1 && highest_lower <= lowest_upper; }
};

/// How elements are compared.
struct CompareOptions {
    std::optional<double> atol;  ///< with rtol, in place of the derived tolerance
    std::optional<double> rtol;
    int top = 5;  ///< worst elements kept
    /// Of these alone worst elements are kept; nullopt: of all of them.
    std::optional<std::int64_t> only_row;
    std::optional<std::int64_t> only_kv_tile;

    /// The same without tolerances given by hand, which are not for operands.
    CompareOptions derived() const {
        CompareOptions options = *this;
        options.atol = options.rtol = std::nullopt;
        return options;
    }
};

/// The part of a tile that is compared: where it is, and how its values are rounded.
struct TileContext {
    Stage stage = Stage::q;
    TileId tile;
    std::int64_t first_row = 0;  ///< of the tile, in the tensor
    std::int64_t first_col = 0;
    Dtype dtype = Dtype::f32;  ///< type the values were rounded to last: ulps and overflow are of this type
    bool may_be_unwritten =
        false;  ///< the run did not complete: nobody is to blame for what it did not write
    /// What a score that the mask hides holds, in the dump's units.
    double masked_score = -std::numeric_limits<double>::infinity();
    /// What m may hold in place of -inf.
    double m_start = -std::numeric_limits<double>::infinity();
    bool expects_nan = false;  ///< expected are copies, not results: an expected NaN must be NaN in the dump
    /// Which rows see a key of the tile, where not all of them do: a kernel may leave the others out of it.
    std::vector<bool> sees = {};
};

/// Where the tile stands in its tensor and how its values were rounded.
TileContext tile_context(const Problem& problem, Stage stage, const TileId& tile);

/// The same with what the units say of the values, and which rows see any of them, for who judges `got`. `entry` is the
/// problem with the batch entry's own lengths.
TileContext tile_context(const Recording& recording, const Problem& entry, const Units& units, Stage stage,
                         const TileId& tile, const MatrixF& got);

/// What one element should hold.
struct Expected {
    double value = 0;
    double tolerance = 0;
    bool certain =
        false;          ///< the value has no error; if it is NaN, the dump must hold NaN (rows without keys)
    bool tells = true;  ///< the tolerance is narrower than what could be there at all
};

/// Of element `i` of a tile, row-major.
Expected expected_of(const Estimate& estimate, std::int64_t i, const CompareOptions& options);

/// Whether the tolerances of a whole tile do.
bool tells_everywhere(const Estimate& estimate, const CompareOptions& options);

/// Whether `expected` is what a hidden score holds.
bool is_masked(const TileContext& context, double expected);

/// NaN is judged before any metric. `row` is that in the tile.
Finding judge_element(const TileContext& context, std::int64_t row, float got, const Expected& expected);

/// Whether the element, whose finding is `finding`, agrees with the stages before it and yet differs from
/// what is expected end to end. `i` is its place in the tile, row-major.
bool is_inherited(const TileContext& context, float got, Finding finding, const Estimate& end_to_end,
                  std::int64_t i, const CompareOptions& options);

/// Compares a dumped tile with what it should hold, both in the dump's units, and adds to `tally`.
/// NaN is judged before any metric. `end_to_end`, where given, counts what is inherited.
void compare_tile(const TileContext& context, const MatrixF& got, const Estimate& expected,
                  const Estimate* end_to_end, const CompareOptions& options, StageTally& tally);

/// Shown each tile that is compared, and what it should hold.
using TileObserver =
    std::function<void(Stage stage, const TileId& tile, const MatrixF& got, const Estimate& expected)>;

/// Counts the elements of a tile that saturate in `dtype`, to which its stage was cast.
void count_saturated(Dtype dtype, const MatrixF& got, const Estimate& expected, StageTally& tally);

/// Shown each tile that diverges, or is computed from one that does, and what is expected of it end to end.
using InheritedObserver = std::function<void(Stage stage, const TileId& tile, const MatrixF& got,
                                             const Estimate& expected, const Estimate& end_to_end)>;

/// Counts a whole tile as unwritten.
void count_missing_tile(const TileContext& context, const TileShape& extent, const CompareOptions& options,
                        StageTally& tally);

/// Sorts the bad rows and adds up those that are named more than once.
void compact_bad_rows(StageTally& tally);

/// Adds `part` to `whole`.
void merge(const StageTally& part, const CompareOptions& options, StageTally& whole);

}  // namespace tilescope
