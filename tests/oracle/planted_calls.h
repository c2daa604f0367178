#pragma once

#include <span>
#include <string_view>

#include "tests/oracle/plants.h"

namespace tilescope::test {

/// An input that exposes faults: its values, and what it makes of the problem.
struct PlantedInput {
    std::string_view name;
    InputKind kind = InputKind::normal;
    void (*set)(Call& call) = nullptr;
    float poison = 0;  ///< what q, k and v hold beyond the entries' lengths; 0: values like the others
};
std::span<const PlantedInput> planted_inputs();

/// Sizes with tails: seqlen_kv % block_n of 1, block_n - 1 and 4, and seqlen_q below and above it.
struct PlantedShape {
    std::string_view name;
    std::int64_t seqlen_q;
    std::int64_t seqlen_kv;
    std::int64_t block_m;
    std::int64_t block_n;
    std::int64_t head_dim;
    std::int64_t head_dim_v;
};
std::span<const PlantedShape> planted_shapes();

/// A call that has what the mistake needs, computed by some arithmetic of the seed.
Call planted_call(const MistakeInfo& mistake, const PlantedInput& input, const PlantedShape& shape,
                  std::uint64_t seed);

/// Whether any dumped element of the two runs differs in its bits, and the first stage that has one.
std::optional<Stage> first_difference(const Recording& a, const Recording& b);

/// The stages of which each may be named guilty of the run: where the mistake was first made, and where it
/// first shows.
std::vector<Stage> guilty_stages(const KernelRun& healthy, const KernelRun& planted);

}  // namespace tilescope::test
