#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording.h"
#include "dump/schema/declarations.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// A query block of a head.
struct Block {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t q_block;

    bool operator==(const Block&) const = default;
};

/// What is declared, and how it came to that.
struct Declared {
    Problem problem;
    Units units;
    std::vector<Assignment> assignments;
};

/// How far the rows of a block see to both sides of their diagonal, by the scores that are no -inf.
struct SeenDiagonals {
    std::int64_t left = -1;
    std::int64_t right = -1;
    std::optional<std::int64_t> most;  ///< the same to the right, where it may be less than nothing
    bool hides = false;                ///< whether any score is -inf
};

/// What a recording may declare instead: every value of a flag or a name, likely numbers, and scales of operands with
/// the cast after them. What would widen budgets has to show in the recorded values, since a wide budget explains much: a type in numbers of that
/// type alone, the type of an operand in its exact values before the cast.
class OtherDeclarations {
 public:
    /// `block` is that of the first divergence.
    OtherDeclarations(const Recording& recording, const Report& report, const Block& block);

    /// All that are one assignment away and may be why the stage `wrong` is. Not thread-safe.
    std::vector<Declared> beside(const Declared& as, Stage wrong) const;

 private:
    bool may_be(const declarations::Declaration& declaration, const std::string& value, const Declared& as,
                Stage wrong) const;

    const Recording& recording_;
    const Report& report_;
    Block block_;
    SeenDiagonals seen_;
    std::string starts_;  ///< of splits, as the running maximum shows them
    mutable bool looked_at_lags_ = false;
    mutable std::optional<double> threshold_;  ///< that the recorded maxima stay behind by
    /// Whether a type shows, by the declaration's name and value.
    mutable std::map<std::pair<std::string, std::string>, bool> shown_;
};

}  // namespace tilescope
