#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "dump/schema/program_scopes.h"
#include "oracle/program/formulas.h"

namespace tilescope {

using ObserveTile = std::function<void(const ProgramTile&, ExpectedTile)>;

/// Computes stages of a program for some indices of its axes, block by block where they go over one.
class TileRun {
 public:
    /// `outer`: the indices of each axis. All of these must outlive it.
    TileRun(const ProgramCall& call, const ProgramOptions& options, const AxisRanges& outer,
            const ObserveTile& observe);

    /// A stage that is known, and not computed.
    void know(int stage, const StoredStage& stored) {
        known_[std::size_t(stage)] = view_[std::size_t(stage)] = &stored;
    }
    /// A state that was stored: it is computed as ever, and what formulas take of it, for whatever indices, is as it was stored.
    void read_stored(int stage, const StoredStage& stored) { view_[std::size_t(stage)] = &stored; }
    /// Shows each operation of what it computes. It must outlive this.
    void watch(OperationWatch& watch) { watch_ = &watch; }
    /// What does not change from run to run is computed once. It must outlive this.
    void remember(const NumbersMemory& memory) { memory_ = memory; }
    /// Nobody asks for what stages hold when it has run. States are then let go as soon as no formula reads them.
    void forget_what_is_over() { forgets_ = true; }
    /// These stages, which rise, and take from others only what is known.
    void run(std::span<const int> stages);

    /// What it has computed, or knows, of a stage.
    const StoredStage& stored(int stage) const { return *view_[std::size_t(stage)]; }
    const std::vector<const StoredStage*>& view() const { return view_; }
    /// How sums of a stage round.
    SumModel model_of(int number) const;

 private:
    void prepare(int number);
    void run_loop(std::span<const int> together, const ProgramLoop& loop, bool carries);
    void run_nearby(std::span<const int> together, const ProgramLoop& loop);
    bool run_in_parts(std::span<const int> together, const ProgramLoop& loop);
    void run_part(std::span<const int> together, const ProgramLoop& loop, const AxisRanges& ranges);
    void forget(int number, std::int64_t state);
    void store(int number, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) const;
    void run_stage(int number, int loop_axis, std::int64_t block);
    bool take_stored(const ProgramTile& tile, Numbers& got) const;
    void show_stored(int number, const AxisRanges& ranges, std::int64_t block, Numbers& state) const;
    void settle(int number, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) const;
    AxisRange block_range(int axis, std::int64_t block) const;

    const ProgramCall& call_;
    const Program& program_;
    const ProgramOptions& options_;
    const AxisRanges& outer_;
    const ObserveTile& observe_;
    OperationWatch* watch_ = nullptr;
    NumbersMemory memory_{};
    bool forgets_ = false;
    std::vector<StoredStage> own_;
    std::vector<const StoredStage*> known_;
    std::vector<const StoredStage*> view_;
};

/// Whether a formula reads a state after another block than the one that it is in, or the last one.
bool keeps_states(const Program& program, int state);

/// What a state is before its first block, by the program as it is now.
void start_anew(const ProgramCall& call, int number, StoredStage& stage);

/// What a kernel stored of these stages, wholly, as the formulas of later ones read it. What it did not store is what the program
/// makes of the rest.
std::map<int, StoredStage> stored_stages(const ProgramCall& call, const ProgramOptions& options,
                                         std::span<const int> stages);

}  // namespace tilescope
