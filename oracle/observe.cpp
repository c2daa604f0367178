#include "oracle/observe.h"

#include <atomic>

#include "dump/error.h"

namespace tilescope {

TileObserver observer_of(const Recording& recording, bool against_other, const CompareOptions& options,
                         const ObservedTileFunction& observe) {
    return [&, against_other](Stage stage, const TileId& tile, const MatrixF& got, const Estimate& expected) {
        const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        observe({entry, observed_context(entry, stage, tile, against_other), got, &expected, options});
    };
}

void observe_tiles(const Recording& recording, const Recording* other, JudgeOptions options,
                   std::int64_t batch, std::int64_t head, std::optional<std::int64_t> q_block,
                   const ObservedTileFunction& observe) {
    const Problem entry = problem_of(recording.problem(), recording.side_inputs(), batch);
    const std::int64_t blocks = q_block ? (*q_block < entry.q_blocks() ? 1 : 0) : entry.q_blocks();
    if (blocks == 0) return;
    std::atomic<bool> done = false;
    const CompareOptions compare = options.compare;
    options.only_head = std::pair{batch, head};
    options.only_q_block = q_block;
    options.observe = observer_of(recording, other != nullptr, compare, observe);
    options.progress = [&, progress = options.progress](std::int64_t now, std::int64_t total) {
        if (progress) progress(now, total);
        if (now == total) done = true;
    };
    try {
        if (other != nullptr) {
            judge_pair(recording, *other, options);
        } else {
            judge(recording, options);
        }
    } catch (const Error&) {
        // Every tile was shown: it is the report that could not be made.
        if (!done) throw;
    }
}

}  // namespace tilescope
