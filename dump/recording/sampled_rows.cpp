#include "dump/recording/sampled_rows.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "dump/schema/semantics.h"

namespace tilescope {

namespace {

/// Query blocks of a call with lengths of its own for each batch entry, numbered.
class NumberedBlocks {
 public:
    NumberedBlocks(const Problem& problem, const SideInputs& inputs) : heads_(problem.heads) {
        ends_.reserve(std::size_t(problem.batch));
        for (std::int64_t batch = 0; batch < problem.batch; ++batch)
            ends_.push_back(count() + heads_ * problem_of(problem, inputs, batch).q_blocks());
    }

    std::int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
    /// By batch entry, head and query block.
    TileId at(std::int64_t number) const {
        const auto end = std::ranges::upper_bound(ends_, number);
        const std::int64_t begin = end == ends_.begin() ? 0 : *std::prev(end);
        const std::int64_t q_blocks = (*end - begin) / heads_;
        const std::int64_t in_entry = number - begin;
        return {end - ends_.begin(), in_entry / q_blocks, in_entry % q_blocks, 0};
    }

 private:
    std::int64_t heads_;
    std::vector<std::int64_t> ends_;
};

/// The query block of head 0 whose rows see the most keys together; the last of those that see as many.
TileId longest_block(const Problem& problem, const SideInputs& inputs) {
    TileId longest;
    std::int64_t most = -1;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        const Problem entry = problem_of(problem, inputs, batch);
        for (std::int64_t q_block = 0; q_block < entry.q_blocks(); ++q_block) {
            std::int64_t seen = 0;
            const std::int64_t end = std::min(entry.seqlen_q, (q_block + 1) * entry.block_m);
            for (std::int64_t row = q_block * entry.block_m; row < end; ++row) {
                const KeyRange keys = visible_keys(entry, row);
                if (!keys.empty()) seen += keys.last - keys.first;
            }
            if (seen < most) continue;
            most = seen;
            longest = {batch, 0, q_block, 0};
        }
    }
    return longest;
}

}  // namespace

Selection sample_rows(const Problem& problem, const SideInputs& inputs, std::int64_t rows, std::uint64_t seed,
                      const std::vector<QueryRow>& also) {
    const NumberedBlocks blocks(problem, inputs);
    const std::int64_t wanted = (rows + problem.block_m - 1) / problem.block_m;
    if (wanted >= blocks.count()) return {};
    std::set<TileId> drawn = {blocks.at(0), blocks.at(blocks.count() - 1), longest_block(problem, inputs)};
    for (const QueryRow& row : also) drawn.insert({row.batch, row.head, row.row / problem.block_m, 0});
    // One of each of as many stretches as there are blocks left to draw.
    std::mt19937_64 random(seed);
    const std::int64_t left = std::max<std::int64_t>(0, wanted - std::int64_t(drawn.size()));
    for (std::int64_t i = 0; i < left; ++i) {
        const std::int64_t begin = blocks.count() * i / left;
        const std::int64_t end = blocks.count() * (i + 1) / left;
        const auto length = std::max<std::uint64_t>(1, std::uint64_t(end - begin));
        drawn.insert(blocks.at(begin + std::int64_t(random() % length)));
    }
    Selection selection;
    for (const TileId& block : drawn)
        selection.blocks.push_back({block.batch, block.head, {block.q_block, block.q_block}});
    return selection;
}

}  // namespace tilescope
