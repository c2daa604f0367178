#pragma once

#include <optional>
#include <vector>

#include "dump/recording.h"
#include "oracle/formula/estimate.h"
#include "oracle/ranks/merge_formula.h"

namespace tilescope {

/// Where a recording keeps o and lse of rows.
struct RowStages {
    Stage o = Stage::o;
    Stage lse = Stage::lse;
};
/// Of what was merged; nullopt where one of the two was not recorded.
std::optional<RowStages> merged_stages(const Recording& recording);
/// Of the outputs; nullopt likewise.
std::optional<RowStages> output_stages(const Recording& recording);

/// Rows of a recording, a query block at a time.
class PartRows {
 public:
    PartRows(const Recording& recording, const RowStages& stages) : recording_(recording), stages_(stages) {}

    const Recording& recording() const { return recording_; }
    /// In natural units, without errors; nullopt where it was not recorded, or some of it was not written. A row that sees
    /// no key is empty, whatever it holds.
    std::optional<PartialRow> row(std::int64_t batch, std::int64_t head, std::int64_t row);
    /// As recorded, the whole query block; false where it was not recorded.
    bool read(std::int64_t batch, std::int64_t head, std::int64_t q_block);
    const MatrixF& o() const { return o_; }
    const MatrixF& lse() const { return lse_; }

 private:
    const Recording& recording_;
    RowStages stages_;
    std::optional<TileId> at_;
    bool is_there_ = false;
    MatrixF o_;
    MatrixF lse_;
};

}  // namespace tilescope
