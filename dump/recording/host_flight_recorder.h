#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dump/recording/flight.h"

namespace tilescope {

/// A FlightRecorder of kernels that run on the CPU: see dump/flight_recorder.h.
class HostFlightRecorder {
 public:
    /// Errors: those of FlightPlan.
    HostFlightRecorder(const Problem& problem, FlightOptions options);

    /// The sink of the next launch, in place of the oldest one that is kept. Once the recording stopped it
    /// keeps nothing.
    Sink next();
    /// Keeps the inputs of the launch that next() was called for.
    void inputs(std::span<const std::byte> q, std::span<const std::byte> k, std::span<const std::byte> v);
    /// Takes the place of options.side_inputs for that launch.
    void side_inputs(SideInputs side);
    /// Looks at what the launch wrote, and stops the recording at an element that stops_flight().
    void check();

    std::optional<FlightFreeze> frozen() const;
    std::int64_t launches() const { return std::int64_t(state_.launches); }
    /// The last launches, the oldest first; the last of them is the one that stopped the recording.
    std::vector<CapturedRun> recordings() const;
    /// The last of these. Errors: Error when there was no launch.
    CapturedRun recording() const;

 private:
    struct Entry {
        std::vector<std::byte> memory;
        InputArrays inputs;
        SideInputs side;
    };
    std::size_t entry_of(std::uint64_t launch) const { return std::size_t(launch) % entries_.size(); }
    const std::uint32_t* words_of(const Entry& entry) const;
    CapturedRun recording_of(std::uint64_t launch) const;

    FlightPlan plan_;
    std::vector<Entry> entries_;
    FlightState state_;
};

}  // namespace tilescope
