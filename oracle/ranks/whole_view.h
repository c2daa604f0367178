#pragma once

#include <cstdint>
#include <string>

#include "dump/recording/recording_view.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// A rank's outputs as those of a call that reads all keys from the ranks that own them.
class WholeView final : public RecordingView {
 public:
    WholeView(const RunOfRanks& run, const Recording& final);

    const Problem& problem() const override { return problem_; }
    /// Whether every row of q, k and v that it reads is owned by a rank that was recorded.
    bool has_input(Input input) const override {
        return input == Input::q ? has_q_ : input <= Input::v && has_kv_;
    }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override;

 private:
    const RunOfRanks& run_;
    Problem problem_;
    bool has_q_ = false;
    bool has_kv_ = false;
};

}  // namespace tilescope
