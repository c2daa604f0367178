#pragma once

// What flight recorders on the GPU and on the CPU have in common: when a launch stops the recording, and what
// is noted then. See dump/flight_recorder.h and dump/recording/host_flight_recorder.h.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dump/hook/stage.h"
#include "dump/recording/captured_run.h"

#ifdef __CUDACC__
#define TILESCOPE_FLIGHT __host__ __device__ inline
#else
#define TILESCOPE_FLIGHT inline
#endif

namespace tilescope {

inline constexpr float no_flight_limit = std::numeric_limits<float>::infinity();

/// The largest magnitude that the elements of each stage may have; infinite: any but NaN.
using FlightLimits = std::array<float, stage_count>;
FlightLimits no_flight_limits();

struct FlightOptions {
    int launches = 8;  ///< that are kept
    /// Of all launches together, inputs aside.
    std::size_t max_bytes = std::size_t(4) << 30;
    Selection selection;
    FlightLimits limits = no_flight_limits();
    /// Keeps a copy of the inputs of each launch, so that the oracle can judge it.
    bool keep_inputs = true;
    Units units;
    ThreadLayouts threads;
    SideInputs side_inputs;  ///< the same in every launch, but for descales that are given with each
    Bias bias;
    Provenance provenance;
};

/// Why the recording stopped.
struct FlightFreeze {
    std::int64_t launch = 0;  ///< counted from 0
    Stage stage = Stage::q;   ///< the first one, in order of stages, that has such an element
    TileId tile;
    std::int64_t row = 0;  ///< in the tile
    std::int64_t col = 0;
    float value = 0;
};

/// "launch 17: nan in acc of batch 0, head 1, q block 2, KV tile 3, row 4 and column 5 of the tile".
std::string to_string(const Problem& problem, const FlightFreeze& freeze);

/// What a recorder notes where the kernels run, in device memory or on the host. A place is the number of a
/// word behind the plan's head.
struct FlightState {
    unsigned long long launches = 0;   ///< begun before the recording stopped
    unsigned long long place = ~0ull;  ///< of the first element that stopped it
    unsigned long long frozen_launch = 0;
    std::uint32_t frozen_entry = 0;
    std::uint32_t value_bits = 0;  ///< of that element
    std::uint32_t frozen = 0;      ///< written last
};

/// Whether an element stops the recording: NaN that a thread wrote, or a magnitude above the limit, whose
/// bits are given. Where -inf marks what is hidden (s, m, lse) it is no magnitude.
TILESCOPE_FLIGHT bool stops_flight(std::uint32_t bits, std::uint32_t limit_bits, bool hides) {
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return bits != unwritten_bits;
    return magnitude > limit_bits && !(hides && bits == 0xff800000u);
}

constexpr bool hides_with_infinity(Stage stage) {
    return stage == Stage::s || stage == Stage::m || stage == Stage::lse;
}

/// The words of one stage behind the plan's head, and their limit.
struct FlightStage {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint32_t limit_bits = 0x7f800000u;
    bool hides = false;
};

struct FlightStages {
    FlightStage stages[stage_count];
};

/// The plan of each launch of a recorder, and how what it left becomes a recording.
class FlightPlan {
 public:
    /// Errors: Error when no launch is kept, and those of CapturePlan; also where a launch's share of
    /// max_bytes has no room for every tile.
    FlightPlan(const Problem& problem, FlightOptions options);

    const CapturePlan& plan() const { return plan_; }
    const FlightOptions& options() const { return options_; }
    const FlightStages& stages() const { return stages_; }
    std::size_t words() const { return (plan_.bytes() - plan_.head_bytes()) / sizeof(std::uint32_t); }

    FlightFreeze freeze_of(const FlightState& state) const;
    /// The launch whose memory it is. Tables that a freeze has filled are no obstacle.
    CapturedRun recording(std::vector<std::byte> memory, InputArrays inputs, SideInputs side,
                          std::int64_t launch) const;

 private:
    FlightOptions options_;
    CapturePlan plan_;
    FlightStages stages_;
};

}  // namespace tilescope
