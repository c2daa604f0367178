#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/solve/place_rule.h"

namespace tilescope {

/// The change where a rule of places says so, and the rule as text: "row % 8 == 4 and kv_tile == 1".
struct RuledChange {
    Change change;
    std::string rule;
    int conditions = 0;  ///< that it is made of
};

/// Of a change that reproduces what is wrong and would make something else wrong that is right: where it has to
/// apply. nullopt where no short rule tells, and where the stage with the mistake was not dumped.
std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change);

/// Elements of a stage, and whether they are those that a rule is looked for.
class LabelledElements {
 public:
    LabelledElements(const Evidence& evidence, Stage stage) : evidence_(evidence), stage_(stage) {}
    void add(const SearchedTile& site, Eigen::Index row, Eigen::Index col, bool inside);
    std::int64_t inside() const;
    std::int64_t outside() const { return std::ssize(places_) - inside(); }

    struct Rule {
        std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)> holds;
        std::string text;
        int conditions = 0;
    };
    /// The shortest rule that is wrong for at most so many. A bound may be counted from the end of a sequence, or from
    /// the last head: "key >= seqlen_kv - 8".
    std::optional<Rule> rule(std::int64_t most_wrong) const;

 private:
    const Evidence& evidence_;
    Stage stage_;
    std::vector<LabelledPlace> places_;
};

}  // namespace tilescope
