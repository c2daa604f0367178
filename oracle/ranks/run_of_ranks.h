#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dump/recording.h"

namespace tilescope {

/// The recordings of one call on several ranks, in order of rank, kind and step.
class RunOfRanks {
 public:
    /// Errors: Error for recordings that are no shards of one call: other shapes, another number of ranks, or two of the
    /// same rank and step.
    explicit RunOfRanks(std::vector<std::unique_ptr<Recording>> parts);

    const std::string& id() const { return parts_.front()->provenance().run; }
    std::int64_t ranks() const { return parts_.front()->problem().shard.ranks; }
    /// The call as if one rank had computed it; its tiles are those of the first recording.
    const Problem& whole() const { return whole_; }
    std::span<const std::unique_ptr<Recording>> parts() const { return parts_; }

    /// The recording with what the rank owns of q, k and v: that of kind `owned`, otherwise its first step. Null where
    /// neither has inputs.
    const Recording* owned_by(std::int64_t rank) const { return owners_[std::size_t(rank)]; }
    /// What the rank merges, launches and what it received, in their order.
    std::vector<const Recording*> steps_of(std::int64_t rank) const;
    /// Null where it was not recorded.
    const Recording* final_of(std::int64_t rank) const;

    /// Where a row of q, k or v of the whole call stands.
    struct Owner {
        const Recording* recording = nullptr;  ///< null where no recording has the row
        std::int64_t rank = 0;
        std::int64_t row = 0;
    };
    Owner owner_of(Input input, std::int64_t position) const;

 private:
    const Recording* find_owned(std::int64_t rank) const;

    std::vector<std::unique_ptr<Recording>> parts_;
    std::vector<const Recording*> owners_;  ///< of each rank
    Problem whole_;
};

/// Of q the positions of queries, otherwise those of keys.
const Positions& positions_of(const Problem& problem, Input input);

/// "rank 1, step 3", "rank 1" of what it owns, "rank 1, at the end".
std::string text_of_part(const Shard& shard);

/// The call of all ranks, with the same tiles and without what only a rank has.
Problem whole_call(const Problem& problem);

}  // namespace tilescope
