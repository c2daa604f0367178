#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dump/recording/program_call.h"
#include "dump/schema/rounding.h"
#include "oracle/program/contraction.h"

namespace tilescope {

struct AxisRange {
    std::int64_t first = 0;
    std::int64_t count = 0;

    auto operator<=>(const AxisRange&) const = default;
};

/// A part of a stage: some indices of each of its axes, and of a state the block after which it is.
struct ProgramTile {
    int stage = -1;                  ///< array
    std::vector<AxisRange> indices;  ///< in the order in which the stage has them
    std::int64_t block = -1;         ///< of the axis that it goes over; -1: it goes over none

    std::int64_t size() const;
    /// Of the element that is the i-th of the tile, row-major: the index of each axis.
    std::vector<std::int64_t> index_of(std::int64_t i) const;
};

/// What a tile should hold, row-major: |kernel's value - value| <= error for any kernel that computes as declared.
struct ExpectedTile {
    Reals value;
    Reals error;
};

/// What a kernel stored of the stages of a program. Thread-safe.
class StoredTiles {
 public:
    virtual ~StoredTiles() = default;
    /// Whether it stored anything of a stage.
    virtual bool has(int stage) const = 0;
    /// What stands in a tile of such a stage, row-major: the elements that are known, which `known` says with a 1. Where hooks
    /// should have written and did not, nobody_wrote(out).
    virtual void read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const = 0;
    /// Writes of a stage that changed an element already written.
    virtual std::int64_t conflicts(int /*stage*/) const { return 0; }
    /// That recorded a stage, where it is known.
    virtual std::vector<SourceLine> hooks(int /*stage*/) const { return {}; }
};

struct ProgramOptions {
    TensorCore tensor_core;
    /// Probability that every bound holds that is only probable; 1: certain bounds alone.
    double confidence = 1 - 1e-6;
    /// Later stages are computed from these, so that each is judged by what it was given; null: all follow from the inputs.
    const StoredTiles* stored = nullptr;
    /// What observe_program() and observe_stage() expect follows from the inputs alone: end to end.
    bool from_inputs = false;
    /// Where something is wrong judge_program() judges end to end as well.
    bool tells_inherited = false;
    /// Tiles of other stages than these are not shown; null: all are.
    const StoredTiles* shown = nullptr;
    /// Elements that a search for mistakes computes at most: about ten seconds of one core.
    std::int64_t searched_elements = 300'000'000;
    /// The search tells what explains a part of what is wrong, where nothing explains all of it.
    bool tells_parts = false;
    /// Whether kernels are known to compute a stage so: `value`, a node, in the place of its formula, or of what it starts from. Such
    /// mistakes are likelier, and tried first; null: none are known.
    std::function<bool(const Program&, int stage, int value, bool is_start)> is_known_mistake = {};
    /// Whether the stage may be stored at other places of its array than its own.
    bool searches_stores = true;
    /// Most bytes of memory for stages.
    std::int64_t memory = std::int64_t(4) << 30;
};

/// Sees the tiles of one part of a call, which one thread computes, in their order.
class PartObserver {
 public:
    virtual ~PartObserver() = default;
    virtual void take(const ProgramTile& tile, ExpectedTile expected) = 0;
    /// When all of its tiles were taken, and those of the parts before it were finished.
    virtual void finish() = 0;
};
void evaluate_program(const ProgramCall& call, const ProgramOptions& options,
                      const std::function<std::unique_ptr<PartObserver>()>& make_observer);
/// Shows `observe` each tile of each stage, in an order in which stages come after what they are computed from. Tiles of
/// stages that the kernel makes for each index of an axis by itself are cut along that.
/// Errors: Error where the stages of one tile need more memory than they may take.
void evaluate_program(const ProgramCall& call, const ProgramOptions& options,
                      const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe);
/// The same of one stage, and of those that it is computed from.
void evaluate_stage(const ProgramCall& call, const ProgramOptions& options, int stage,
                    const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe);

/// The stage, and those that it is computed from and that nobody stored; they rise.
std::vector<int> computed_for(const Program& program, const StoredTiles* stored, int stage);
/// Stages that were stored, but for one.
std::vector<int> stored_beside(const Program& program, const StoredTiles& stored, int stage);
/// Whether a formula reads an array.
bool reads(const Program& program, int number, int array);

/// Axes along which these stages are computed for each index by itself: all of them have it, and read each other at the same
/// index.
std::vector<int> independent_axes(const Program& program, std::span<const int> stages);
/// The same of the axes of one of the stages, which others of them may not have.
std::vector<int> independent_axes_of(const Program& program, std::span<const int> stages, int stage);

}  // namespace tilescope
