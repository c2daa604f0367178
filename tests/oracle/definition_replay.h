#pragma once

#include <cstdint>
#include <memory>

#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"
#include "tests/oracle/definition_attention.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// The call's inputs and declarations as a recording in which no stage was captured.
std::unique_ptr<MemoryRecording> recording_of(const AttentionCall& call);

/// How the replay goes about it; the values are the same.
struct ReplayManner {
    bool skip_hidden = false;  ///< without the tiles that the mask hides, as a kernel may
    bool bounds = true;        ///< false: values alone
};

/// The oracle's end-to-end replay of one query block, from the inputs alone.
class ReplayFromInputs {
 public:
    ReplayFromInputs(const Recording& recording, std::int64_t batch, std::int64_t head, std::int64_t q_block,
                     bool bounds = true);

    /// Of what is dumped the replay takes m alone, where it may be stale.
    TileEstimates step(std::int64_t kv_tile, const DumpedTile& dumped = {});
    Estimate output() const { return replay_.output(); }
    Estimate log_sum_exp() const { return replay_.log_sum_exp(); }

    const HeadCall& call() const { return call_; }
    /// What the stage holds of the rows of q, or of k and v of the tile that was stepped through last.
    const StagedOperand& staged(Stage stage) const {
        return stage == Stage::q ? q_ : stage == Stage::k ? k_ : v_;
    }

 private:
    const Recording& recording_;
    std::int64_t batch_;
    std::int64_t head_;
    std::int64_t q_block_;
    HeadCall call_;
    Replay replay_;
    StagedOperand q_;
    StagedOperand k_;
    StagedOperand v_;
};

/// How much a comparison compared.
struct Coverage {
    std::int64_t elements = 0;
    std::int64_t rows_that_see_something = 0;
    std::int64_t rows_that_see_nothing = 0;
};

/// Fails the test where an element of any stage is further from the definition than 1e-12 of its magnitude,
/// or where a bound is not a number.
void expect_replay_equals_definition(const AttentionCall& call, const ReplayManner& manner,
                                     Coverage& coverage);

}  // namespace tilescope::test
