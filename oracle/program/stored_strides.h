#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/program/offered_stores.h"

namespace tilescope {

/// Where in the memory the value of an element stands: in narrow types a value is often.
struct StoreVote {
    AxisIndices at{};
    std::int64_t element = 0;
    std::vector<std::int64_t> addresses{};
};

/// Of some elements that are not at their place, and of some that are.
std::vector<StoreVote> store_votes(const WholeStage& whole);

/// A sum of the indices, each times the distance that neighbours along it have; of axes that are cut the blocks have one of their
/// own. nullopt: it is what the stage should have.
std::optional<OfferedStore> strided_store(Program& program, const ProgramCall& call, const WholeStage& whole,
                                          const std::vector<StoreVote>& votes);

}  // namespace tilescope
