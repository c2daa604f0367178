#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "tests/oracle/honest_points.h"

namespace tilescope::test {

/// Causes of which each is a right answer to a mistake.
using Causes = std::array<std::string_view, 4>;

/// What a mistake is.
struct MistakeInfo {
    Mistake mistake = Mistake::none;
    std::string_view name;
    Causes causes;                   ///< as the oracle names them
    Stage stage = Stage::q;          ///< the first that shows it
    void (*needs)(Call&) = nullptr;  ///< sets up what the mistake takes, but for the inputs' values
    Points points = {};
};

// The mistakes by the stage that they are made in.
std::span<const MistakeInfo> operand_mistakes();
std::span<const MistakeInfo> score_mistakes();
std::span<const MistakeInfo> mask_mistakes();
std::span<const MistakeInfo> softmax_mistakes();
std::span<const MistakeInfo> accumulator_mistakes();
std::span<const MistakeInfo> output_mistakes();
std::span<const MistakeInfo> fragment_mistakes();
/// Wrong elements in a pattern, of which no formula makes the wrong values.
std::span<const MistakeInfo> pattern_mistakes();

/// Those of forward kernels.
std::span<const std::span<const MistakeInfo>> all_mistakes();
const MistakeInfo& mistake_info(Mistake mistake);

// What several mistakes need.
void need_nothing(Call& call);
/// Scores that are held and dumped scaled.
void need_scaled_scores(Call& call);
/// The same, without a cap and without a bias.
void need_plain_scores(Call& call);
void need_natural_softmax(Call& call);
void need_causal(Call& call);
/// Rows that see nothing, and their tiles computed all the same.
void need_hidden_rows(Call& call);
void need_no_mask(Call& call);
void need_groups(Call& call);
void need_fp8(Call& call);
/// fp8 operands that keep their codes: the descales join the scores and acc.
void need_raw_fp8(Call& call);
void need_p_scale(Call& call);
/// Tiles of 32 x 32.
void need_wide_tiles(Call& call);
/// Two batch entries, without lengths.
void need_batches(Call& call);
/// K tiles of as many keys as columns.
void need_square_k(Call& call);

// What several mistakes do.
/// Each head has the descale of the next one.
void rotate_heads(Descale& descale);
/// A tile read with another index: 0 beyond it.
template <class Index>
Tile read_with(const Tile& tile, const Index& index) {
    Tile read(tile.rows, tile.cols);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        for (std::int64_t j = 0; j < tile.cols; ++j) {
            const std::int64_t from = index(i, j);
            if (from < std::ssize(tile.values)) read.at(i, j) = tile.values[std::size_t(from)];
        }
    }
    return read;
}

}  // namespace tilescope::test
