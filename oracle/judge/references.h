#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge/tally.h"

namespace tilescope {

class WorkSharing;

inline constexpr std::size_t empty_row_kinds = 4;

/// Differences of elements that are finite on both sides.
struct Deviation {
    std::int64_t elements = 0;
    double squares = 0;
    double largest = 0;

    void add(double difference);
    void add(const Deviation& part);
    /// To float32 precision: what the summation rounds does not show.
    double rms() const;
};

/// One output of a reference, in the reference's units. `to_kernel` and the members below it count only
/// elements whose kernel output was captured and is finite. Rows that see no key are left out of all
/// deviations.
struct ReferenceOutput {
    StageTally tally;       ///< against what any implementation should hold, end to end
    Deviation to_oracle;    ///< of all its elements
    Deviation to_kernel;    ///< from the kernel's output
    std::int64_t lost = 0;  ///< elements that are not finite here, although the kernel's and the oracle's are
    Deviation kernel_to_oracle;
    Deviation shared_to_oracle;  ///< of the reference, over the elements of kernel_to_oracle
    std::array<bool, empty_row_kinds> empty_rows{};  ///< what its rows that see no key hold, by EmptyRow

    bool wrong() const { return tally.outside > 0; }
    /// Whether a match says something.
    bool judged() const { return tally.compared > 0 && !tally.is_constant(); }
    std::int64_t nonfinite() const { return tally.nan + tally.infinite; }
    /// Whether the kernel's output can be compared with it everywhere.
    bool comparable() const { return to_kernel.elements > 0 && lost == 0; }
};

/// Which of the two is closer to the oracle, where they differ by more than 1 %.
enum class Closer : std::uint8_t { neither, kernel, reference };
Closer closer_to_oracle(const ReferenceOutput& output);

struct ReferenceReport {
    ReferenceInfo info;
    ReferenceOutput o;
    ReferenceOutput lse;

    bool wrong() const { return o.wrong() || lse.wrong(); }
    bool right() const {
        const auto fine = [&](Stage stage) { return !info.has(stage) || output(stage).judged(); };
        return !wrong() && fine(Stage::o) && fine(Stage::lse);
    }
    const ReferenceOutput& output(Stage stage) const { return stage == Stage::o ? o : lse; }
};

/// Judges every reference of the recording end to end, as a computation of the problem that rounds P to the
/// type of v where that has 16 bits or fewer, sums in tensor cores, and stores o in its own type.
/// Collective. `confidence` and `threads` as in JudgeOptions. Calls `step`, where given, from any thread after each of
/// the reference_steps().
std::vector<ReferenceReport> judge_references(const Recording& recording, double confidence, int threads,
                                              const std::function<void()>& step, WorkSharing& sharing);
std::int64_t reference_steps(const Recording& recording);

/// The reference whose o has the smallest rms difference to the kernel's, and after it those within 1 % of
/// it; empty where there is no such o.
std::vector<std::size_t> closest_references(const std::vector<ReferenceReport>& references);

}  // namespace tilescope
