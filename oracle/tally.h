#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "oracle/estimate.h"

namespace tilescope {

/// How one element fares. Everything but match and indifferent is a divergence.
enum class Finding : std::uint8_t {
    match,
    indifferent,  ///< nothing can be expected here, or an unwritten cell that the mask hides
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

/// What a comparison of one stage found. Tallies of parts merge into the tally of the whole, in any order.
struct StageTally {
    std::int64_t tiles = 0;          ///< tiles compared
    std::int64_t tiles_missing = 0;  ///< tiles that the kernel should have written and did not
    std::int64_t compared = 0;       ///< elements compared, without indifferent ones
    std::int64_t outside = 0;        ///< elements that diverge, of any kind
    std::int64_t nan = 0;
    std::int64_t infinite = 0;
    std::int64_t unwritten =
        0;  ///< inside captured tiles and in missing ones, also where the mask hides them
    std::int64_t conflicting = 0;  ///< elements written again with different bits
    std::int64_t inherited = 0;    ///< elements that agree with the stages before them, yet differ end to end
    double max_abs = 0;            ///< largest finite |got - expected|
    std::uint64_t max_ulp = 0;
    /// Largest expected - tolerance and smallest expected + tolerance, of what is expected to be finite,
    /// until they cross.
    double highest_lower = -std::numeric_limits<double>::infinity();
    double lowest_upper = std::numeric_limits<double>::infinity();
    std::optional<Element> first;  ///< first divergence, by comes_before()
    std::optional<Element> first_nan;
    std::optional<Element> first_infinite;
    std::optional<Element> first_unwritten;
    std::vector<Element> worst;  ///< largest ratio() first
    std::vector<BadRow> bad_rows;

    bool diverges() const { return outside > 0 || conflicting > 0; }
    /// Whether one constant in place of every element would have matched: then a match says nothing.
    bool constant_passes() const { return compared > 1 && highest_lower <= lowest_upper; }
};

/// How elements are compared.
struct CompareOptions {
    std::optional<double> atol;  ///< with rtol, in place of the derived tolerance
    std::optional<double> rtol;
    int top = 5;  ///< worst elements kept
};

/// The part of a tile that is compared: where it is, and how its values are rounded.
struct TileContext {
    Stage stage = Stage::q;
    TileId tile;
    std::int64_t first_row = 0;  ///< of the tile, in the tensor
    std::int64_t first_col = 0;
    Dtype dtype = Dtype::f32;  ///< type the values were rounded to last: ulps and overflow are of this type
    bool may_be_unwritten =
        false;                 ///< the run did not complete: nobody is to blame for what it did not write
    bool expects_nan = false;  ///< the expected values are a copy: NaN is to be NaN, and not indifferent
};

/// What element `i` of a tile, row-major, may differ by.
double tolerance_of(const Estimate& expected, Eigen::Index i, const CompareOptions& options);

/// NaN is judged before any metric. `certain`: the expected value has no error; then NaN is what a convention
/// asks for.
Finding judge_element(const TileContext& context, float got, double expected, double tolerance, bool certain);

/// Compares a dumped tile with what it should hold, both in the dump's units, and adds to `tally`.
/// NaN is judged before any metric. `end_to_end`, where given, counts what is inherited.
void compare_tile(const TileContext& context, const MatrixF& got, const Estimate& expected,
                  const Estimate* end_to_end, const CompareOptions& options, StageTally& tally);

/// Shown each tile that is compared, and what it should hold.
using TileObserver =
    std::function<void(Stage stage, const TileId& tile, const MatrixF& got, const Estimate& expected)>;

/// Counts a whole tile as unwritten.
void count_missing_tile(const TileContext& context, const TileShape& extent, const CompareOptions& options,
                        StageTally& tally);

/// Sorts the bad rows and adds up those that are named more than once.
void compact_bad_rows(StageTally& tally);

/// Adds `part` to `whole`.
void merge(const StageTally& part, const CompareOptions& options, StageTally& whole);

}  // namespace tilescope
