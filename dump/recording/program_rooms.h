#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/hook/program_sink.h"
#include "dump/recording/program_call.h"

namespace tilescope {

/// The part of a stage of a declared kernel that hooks record: a box.
struct RecordedStage {
    int stage = -1;                     ///< array of the program
    int number = -1;                    ///< among its stages, as hooks count them
    std::vector<std::int64_t> first{};  ///< in each dimension, the blocks of a state before its axes
    std::vector<std::int64_t> count{};

    std::int64_t elements() const;
};

/// Stages that are asked for, in the order of the text, and of each what `selection` leaves. A selection is as
/// "n=0-3:k=2:stage=acc,y": of an axis the blocks that it is cut into, or its indices where it is not cut, from one to another;
/// empty: everything. `stages` are the names that have hooks; nullopt: all.
/// Errors: Error for names that the program does not have, ranges beyond an axis, and where nothing is left.
std::vector<RecordedStage> recorded_stages(const ProgramCall& call, std::string_view selection,
                                           const std::optional<std::vector<std::string>>& stages = {});

/// The rooms of a sink, whose words lie at these addresses, one for each recorded stage; as many rooms as the program has stages.
/// Errors: Error for stages whose extents are beyond what hooks count to.
std::vector<ProgramRoom> program_rooms(const ProgramCall& call, std::span<const RecordedStage> recorded,
                                       std::span<std::uint32_t* const> words);

/// The sink that a kernel gets, whose rooms were copied to `rooms`.
ProgramSink program_sink(std::span<const RecordedStage> recorded, ProgramRoom* rooms);

/// Lines of the hooks that recorded a stage.
std::vector<SourceLine> hooks_of(const ProgramRoom& room);

/// Errors: Error where hooks named a place that the stage does not have; `rooms` as the kernel left them.
void require_inside(const ProgramCall& call, std::span<const ProgramRoom> rooms);

}  // namespace tilescope
