#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/run/again.h"

namespace tilescope {

/// What memory is filled with before a run.
struct Poison {
    std::string_view name;  ///< of what shared memory holds
    MemoryFill fill;
};

/// The runs of a poisoned request, in this order. Each is compared with the first; the third, filled as the
/// first one, tells a race from a dependence on what memory held. The patterns are 0, 0.0078 to 1 and NaN as
/// float16, as bfloat16 and as float32. Outputs are filled in two ways, so that a kernel which stores such
/// bits itself is not taken for one that stores nothing.
inline constexpr std::array<Poison, 4> poisons = {{
    {"zeros", {0x00000000u, std::byte(0xff)}},
    {"finite", {0x3c003c00u, std::byte(0x5a)}},
    {"zeros again", {0x00000000u, std::byte(0xff)}},
    {"NaN", {0xffffffffu, std::byte(0xff)}},
}};

/// A run against the first one.
struct PoisonedRun {
    const Poison* poison = nullptr;
    std::vector<StageDifference> stages;
};

/// Elements of an output that the kernel never stored: they hold whatever was there before.
struct UnwrittenOutput {
    struct Place {
        std::int64_t batch = 0;
        std::int64_t head = 0;
        std::int64_t row = 0;
        std::int64_t col = 0;
    };
    Stage stage = Stage::o;
    std::int64_t elements = 0;
    std::int64_t unwritten = 0;
    std::optional<Place> first;
};

enum class PoisonVerdict : std::uint8_t {
    independent,    ///< nothing depends on what memory held
    dependent,      ///< a result does, or is what memory held
    not_repeatable  ///< two runs with the same contents differ; whether more depends on them cannot be told
};

struct PoisonReport {
    std::string device;
    std::vector<PoisonedRun> runs;         ///< all but the first of `poisons`
    std::vector<UnwrittenOutput> outputs;  ///< o and lse

    /// The run after which `stage` changed first; null when no run differs from the first one.
    const PoisonedRun* first_changed_run() const;
};

PoisonVerdict verdict_of(const PoisonReport& report);

struct PoisonResult {
    PoisonReport report;
    CapturedRun nan_run;  ///< the recording of the last run
};

/// Runs the request once for each of `poisons`. Shared memory and outputs are filled, registers cannot be:
/// see poison_shared_memory. Errors: those of run_to_compare.
PoisonResult run_poisoned(const RunRequest& request);

}  // namespace tilescope
