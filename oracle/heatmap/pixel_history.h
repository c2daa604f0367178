#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge.h"

namespace tilescope {

/// An element of an output. Its history is what went into it: of o and dq along the KV tiles of a q row, of dk
/// and dv along the query blocks that see a key.
struct HistoryPlace {
    std::int64_t batch = 0;
    std::int64_t head = 0;     ///< query head
    bool of_key = false;       ///< of dk and dv
    std::int64_t line = 0;     ///< q row; key of dk and dv
    std::int64_t feature = 0;  ///< column of the output
    /// A key to be shown of the row's scores; nullopt: in each tile the one that is worst, or weighs most.
    std::optional<std::int64_t> key;
    bool operator==(const HistoryPlace&) const = default;
};

enum class StepState : std::uint8_t {
    not_recorded,
    hidden,      ///< the mask hides the whole tile, and the kernel skipped it
    not_judged,  ///< within a tolerance that tells nothing, nothing can be expected, or not compared
    right,
    inherited,  ///< agrees with the stages before it, which are wrong
    wrong
};
inline constexpr int step_state_count = 6;
std::string_view to_string(StepState state);

/// What one stage has to do with the output in one tile.
struct HistoryStep {
    Stage stage = Stage::q;
    StepState state = StepState::not_recorded;  ///< of the element
    /// The one that stands for all that the step goes over: the one asked for; otherwise the worst; otherwise
    /// that of the key (of dk and dv, the q row) that weighs most. Nullopt: there is none to be shown.
    std::optional<Element> element;
    std::optional<Element> end_to_end;  ///< the element against the inputs alone, where it inherits an error
    std::int64_t wrong = 0;             ///< of the elements that the step goes over
    std::int64_t inherited = 0;
};

/// Steps that belong together.
struct HistoryMoment {
    enum class Kind : std::uint8_t { loaded, tile, result };
    Kind kind = Kind::tile;
    TileId tile;
    std::vector<HistoryStep> steps;  ///< in order of computation
};

struct PixelHistory {
    /// Of a step: its moment, and its place in that.
    struct Index {
        std::size_t moment = 0;
        std::size_t step = 0;
        bool operator==(const Index&) const = default;
    };

    HistoryPlace place;
    /// In order of time: what is loaded once, the tiles in the order in which the kernel takes them, and what
    /// comes out. Empty where the place is beyond the lengths of its batch entry.
    std::vector<HistoryMoment> moments;
    /// The first that goes over a wrong element; nullopt: none does. `undeclared` are stages that do what nothing
    /// declares, so that they are not judged.
    std::optional<Index> first_wrong(std::span<const Stage> undeclared = {}) const;
};

/// The stages of a moment, in order of computation, recorded or not.
std::vector<Stage> history_stages(const Problem& problem, bool of_key, HistoryMoment::Kind kind);

/// Judges what went into the element, stage-local and end to end, as judge() does. `options.progress` may
/// throw to stop. Errors: as judge() for what cannot be read.
PixelHistory pixel_history(const Recording& recording, const Recording* other, JudgeOptions options,
                           const HistoryPlace& place);

}  // namespace tilescope
