#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "dump/recording.h"
#include "oracle/estimate.h"
#include "oracle/reference.h"
#include "oracle/tally.h"

namespace tilescope {

/// A recorded tile without its padding; nullopt where it was not captured.
std::optional<MatrixF> load_tile(const Recording& recording, Stage stage, const TileId& tile);

/// Rows [row, row + count) of an input, exactly.
Matrix load_input(const Recording& recording, Input input, std::int64_t batch, std::int64_t head,
                  std::int64_t row, std::int64_t count);

/// K and V of one KV head, whole.
struct HeadInputs {
    Operand k;
    Matrix v;
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

/// Where the tile stands in its tensor and how its values were rounded.
TileContext tile_context(const Problem& problem, Stage stage, const TileId& tile);

}  // namespace tilescope
