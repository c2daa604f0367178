#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dump/recording.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/scores.h"

namespace tilescope {

/// Whether the kernel cannot do without the tile: some row sees something of it (tile_is_seen()). `entry` is the problem
/// with the batch entry's own lengths.
bool is_needed(const Recording& recording, const Problem& entry, Stage stage, const TileId& tile);

/// Whether a replay takes the tile into account: some row sees something of it, or the recording holds one of
/// its `stages`. Hidden tiles of which nothing was captured change nothing.
bool takes_part(const Recording& recording, const Problem& entry, std::span<const Stage> stages,
                const TileId& tile);

/// A recorded tile without its padding, of a problem with the batch entry's own lengths; nullopt where it was
/// not captured, where nobody wrote it and no row can see it, or where it lies beyond those lengths.
std::optional<MatrixF> load_tile(const Recording& recording, const Problem& entry, Stage stage,
                                 const TileId& tile);

/// Rows [row, row + count) of an input, exactly, without descales.
Matrix load_input(const Recording& recording, Input input, std::int64_t batch, std::int64_t head,
                  std::int64_t row, std::int64_t count);

/// K and V of one KV head, without descales. They are read in parts, each when it is first asked for: whoever
/// judges one tile of a long context does not read the rest. Thread-safe.
class HeadInputs {
 public:
    HeadInputs(const Recording& recording, std::int64_t batch, std::int64_t head_kv);

    /// Rows [first, first + count).
    Matrix k(std::int64_t first, std::int64_t count) const { return rows(k_, first, count); }
    Matrix v(std::int64_t first, std::int64_t count) const { return rows(v_, first, count); }

 private:
    struct Part {
        std::once_flag is_read;
        MatrixF rows;
    };
    struct Parts {
        Parts(Input of, std::int64_t keys, std::int64_t cols);

        Input input;
        std::int64_t part_rows;
        std::vector<Part> parts;
    };

    Matrix rows(Parts& of, std::int64_t first, std::int64_t count) const;

    const Recording& recording_;
    std::int64_t batch_;
    std::int64_t head_kv_;
    std::int64_t keys_;
    mutable Parts k_;
    mutable Parts v_;
};

/// Hands out the K and V of heads; those in use are shared, the others are forgotten. Thread-safe.
class HeadInputCache {
 public:
    explicit HeadInputCache(const Recording& recording) : recording_(recording) {}
    std::shared_ptr<const HeadInputs> get(std::int64_t batch, std::int64_t head_kv);

 private:
    const Recording& recording_;
    std::mutex mutex_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::weak_ptr<const HeadInputs>> heads_;
};

/// Rows of q, k, v or dout: what the kernel should hold of them, and what the formulas take.
struct StagedOperand {
    Estimate expected;  ///< in the dump's units: dequantised or not, scaled or not
    Operand natural;    ///< from the inputs
};

/// Of `raw` rows of an input, from row `first` of the head. `expected` stays empty where the caller does not
/// ask for it.
StagedOperand staged_operand(const HeadCall& call, Stage stage, std::int64_t first, Matrix raw,
                             bool with_expected = true);

/// What an element of `expected`, from row `first` of the head on, may be off by, part by part.
BudgetTerms operand_terms(const HeadCall& call, Stage stage, std::int64_t first, const Estimate& expected,
                          Eigen::Index row, Eigen::Index col);

/// What dq and dk multiply of k and q, given what s does: kernels take the operand as it is staged, scaled and
/// rounded, or as it was before.
Operand gradient_operand(const HeadCall& call, Stage stage, const Operand& staged);

/// What the formulas take where the dump holds the operand.
Operand dumped_operand(const HeadCall& call, Stage stage, std::int64_t first, const StagedOperand& staged,
                       const MatrixF& dumped);

}  // namespace tilescope
