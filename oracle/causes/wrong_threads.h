#pragma once

#include <optional>
#include <vector>

#include "oracle/causes/diagnosis.h"
#include "oracle/causes/pattern.h"

namespace tilescope {

/// The threads that own what is wrong, where that tells right from wrong: nullopt where the stage's threads
/// are not declared, own wrong and right elements alike, or are no regular part of the block.
std::optional<WrongThreads> wrong_threads(const World& world, const Evidence& evidence);

/// The elements in bad tiles that they own.
Holds owned_by(const World& world, const Evidence& evidence, const WrongThreads& threads);

}  // namespace tilescope
