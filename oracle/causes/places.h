#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/cause.h"

namespace tilescope {

/// Which elements diverge, where no replay knows what they hold: the simplest pattern that holds nearly all
/// of them and nearly nothing else. `threads` are those of wrong_threads(). Empty where there is none.
std::vector<FoundCause> found_places(const World& world, const Report& report, const Evidence& evidence,
                                     const std::optional<WrongThreads>& threads);

/// "KV tiles 2-3 of head 1", of what diverges in `report`; "everywhere".
std::string where_of(const Evidence& evidence, const Report& report, bool rows_alone);

}  // namespace tilescope
