#pragma once

#include <span>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// What a known mistake changes in a later stage.
struct Consequence {
    Change change;
    const FoundCause* of;
    bool is_exact = true;  ///< another mistake can be searched for beside it
};

/// What the known mistakes may change in a later stage, by a way that no dumped stage shows:
/// - the maximum and the row sum are of the columns behind seqlen_kv, too, and the sum adds P before its cast;
/// - l and acc are rescaled from the maximum that m went on from;
/// - P of the columns behind seqlen_kv is multiplied with zeros;
/// - a row whose maximum is -inf is taken for one that saw no key, and P that is too large for its type is cut;
/// - lse is the logarithm of the sum that o was divided by.
/// `later` is direct. They refer to `known`.
std::vector<Consequence> consequences_of(std::span<const FoundCause> known, const Evidence& later,
                                         const Report& report);

/// The KV tiles that are skipped, where all that is wrong was left unwritten in tiles that the kernel never came to; null
/// where they are not, or something else is wrong.
const FoundCause* leaving_out(std::span<const FoundCause> known, const Evidence& later);

/// The mistake that each wrong element follows from by one of these, whichever; null where it does not. What is right may
/// be so because the mistake is not made there.
const FoundCause* explaining(const Evidence& later, std::span<const Consequence> consequences);

}  // namespace tilescope
