#pragma once

// A flight recorder keeps the last launches of a long run on the GPU, and stops where the first one writes a
// NaN or a magnitude that is too large. Nothing waits: launches, looking at them and stopping are work in a
// stream, which a CUDA graph can hold.
//
//     tilescope::FlightRecorder recorder(problem, options);
//     for (int step = 0; step < steps; ++step) {
//         const tilescope::Sink sink = recorder.next(stream);
//         attention<<<grid, block, 0, stream>>>(q, k, v, o TILESCOPE_SINK_ARG(sink));
//         recorder.inputs(q, k, v, stream);
//         recorder.check(stream);
//         if (recorder.frozen()) break;
//     }
//     recorder.save("first_nan.h5");
//
// Without -DDEBUG_DUMP the same code compiles, and every member is empty.

#include <optional>
#include <string>
#include <vector>

#include "dump/hook/switch.h"
#include "dump/recording/flight.h"

#if TILESCOPE_DUMP
#include <memory>
#endif

namespace tilescope {

#if TILESCOPE_DUMP
inline namespace hooks_on {

class FlightRecorder {
 public:
    /// Records on the current device. Launches are in one stream, or in streams that wait for each other.
    /// Allocates everything that it ever needs. Errors: Error when there is no GPU or no such memory, and
    /// those of FlightPlan.
    FlightRecorder(const Problem& problem, FlightOptions options);
    ~FlightRecorder();
    FlightRecorder(FlightRecorder&&) noexcept;

    /// The sink of the next launch, in place of the oldest one that is kept, once `stream`, a cudaStream_t,
    /// comes to it. A launch of a CUDA graph has the same place in every replay. After the recording stopped
    /// its hooks keep nothing.
    Sink next(void* stream = nullptr);
    /// Keeps a copy of what the launch that next() was called for reads: contiguous arrays in device memory,
    /// as those of Capture::inputs(). Before the kernel where it overwrites them. Errors: Error when one is
    /// null, and nothing is copied then.
    void inputs(const void* q, const void* k, const void* v, void* stream = nullptr);
    /// Keeps a copy of that launch's descales, where they are computed on the device: float32 arrays in
    /// device memory, of the shapes that options.side_inputs has; null where it has none. A launch without
    /// them has those of options.side_inputs. Errors: as inputs().
    void descales(const float* q, const float* k, const float* v, void* stream = nullptr);
    /// Looks at what that launch wrote, and stops the recording at an element that stops_flight(): it fills
    /// all slot tables with -1. Errors: Error when CUDA refuses a launch.
    void check(void* stream = nullptr);

    /// What stopped the recording, as far as the device has come; does not wait for it.
    std::optional<FlightFreeze> frozen() const;
    /// The last launches, the oldest first; the last of them is the one that stopped the recording. Waits for
    /// the device. Errors: Error when it failed.
    std::vector<CapturedRun> recordings() const;
    /// Writes the last of these. Errors: Error when there was no launch, and those of save_recording().
    void save(const std::string& path) const;
    /// Writes all of them, as path.0, path.1 and so on, and returns how many.
    int save_all(const std::string& path) const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace hooks_on

#else
inline namespace hooks_off {

class FlightRecorder {
 public:
    FlightRecorder(const Problem&, const FlightOptions&) {}
    Sink next(void* = nullptr) { return {}; }
    void inputs(const void*, const void*, const void*, void* = nullptr) {}
    void descales(const float*, const float*, const float*, void* = nullptr) {}
    void check(void* = nullptr) {}
    std::optional<FlightFreeze> frozen() const { return std::nullopt; }
    std::vector<CapturedRun> recordings() const { return {}; }
    void save(const std::string&) const {}
    int save_all(const std::string&) const { return 0; }
};

}  // namespace hooks_off
#endif

}  // namespace tilescope
