#pragma once

#include <string>

#include "oracle/program/attention_text.h"

namespace tilescope {

/// Where the running state of attention goes on, and where it begins anew: with each split, and, where a number stands for
/// hidden scores, with the first score that the row sees.
class StateText {
 public:
    explicit StateText(const AttentionText& of);

    /// "over j", "over j backwards"
    std::string over() const { return backwards_ ? "over j backwards" : "over j"; }
    /// A state before the block, or `start` where it begins anew.
    std::string carried(const std::string& state, const std::string& start) const;
    /// What it begins with: with the sink that comes first, in the first split, or without.
    struct Start {
        std::string first;  ///< where the loop begins
        std::string anew;   ///< where it begins anew
    };
    Start start(const std::string& with_sink, const std::string& without) const;

    /// ".after(...)" of the block that split z ends with; nothing without splits.
    std::string ended() const;
    /// A state at its end, of rows that have seen a score, or `start`.
    std::string at_end(const std::string& state, const std::string& start) const;
    /// Whether a number stands for hidden scores, so that it is known of each row what it has seen.
    bool has_seen() const { return has_seen_; }
    /// Of the splits alone.
    std::string carried_in_split(const std::string& state, const std::string& start) const;

 private:
    std::string goes_on_in_split() const;
    std::string first_key() const;
    std::string next_key() const;

    const Problem& p_;
    bool backwards_;
    bool has_seen_;
};

/// The stages m, rescale, p, l and acc, and what is behind them.
void write_outputs(AttentionText& to, const StateText& state);

}  // namespace tilescope
