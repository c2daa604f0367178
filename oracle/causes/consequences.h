#pragma once

#include "oracle/causes/evidence.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

/// Whether the later stage is as the first mistake leaves it, by a way that no dumped stage shows: P before its cast and
/// P of the columns behind seqlen_kv, which the row sum adds, and the sum that o was divided by, which lse is the
/// logarithm of.
/// `first` was found in a stage before that of `later`, which is direct.
bool follows_from(const FoundCause& first, const Evidence& later);

}  // namespace tilescope
