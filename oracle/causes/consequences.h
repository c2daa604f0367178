#pragma once

#include <span>

#include "oracle/causes/evidence.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

/// Whether a later stage is as the known mistakes leave it, by a way that no dumped stage shows:
/// - the row sum adds P before its cast, and P of the columns behind seqlen_kv;
/// - lse is the logarithm of the sum that o was divided by.
/// `later` is direct.
bool follows_from(std::span<const FoundCause> known, const Evidence& later);

}  // namespace tilescope
