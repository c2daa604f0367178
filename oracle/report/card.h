#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/judge/report.h"

namespace tilescope {

/// A report at a glance: what a kernel author reads in five seconds. Each is one line; "" where there is nothing to say.
struct Card {
    std::string headline;  ///< what is wrong, where and why; or what agrees
    std::string evidence;  ///< how much the cause explains; or how close to the budget it came
    std::string look_at;   ///< in the code, and where its stage is hooked
    std::string threads;   ///< that own what is wrong: "every wrong element belongs to lane 5 of every warp"
    std::string
        also;  ///< what explains it alike, and which stages are wrong by themselves; or what was not recorded
};

/// What is known of the causes.
enum class CausesKnown : std::uint8_t {
    yes,
    not_yet,  ///< they are being searched
    no        ///< nobody searches them
};

/// Of the report's own numbers; `diagnosis` in place of the report's.
Card card_of(const Report& report, const Diagnosis& diagnosis, CausesKnown known);

/// A stage among those that an attention call goes through.
struct ChainLink {
    Stage stage = Stage::q;
    std::string word;  ///< "right", "guilty", "wrong too", "from acc" where inherited, "-" where not recorded
    std::string says;  ///< the same as a sentence
    std::vector<Stage> inherits;  ///< wrong stages that it is computed from; of an inherited one
};

/// In order of computation.
std::vector<ChainLink> chain_of(const Report& report);

/// "every row", "rows 0-63 of head 1" or "72 rows of 3 heads": the rows, or keys, with a wrong element.
std::string bad_rows_text(const Report& report, Stage stage);

}  // namespace tilescope
