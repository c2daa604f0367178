#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording/recording_view.h"
#include "oracle/formula/estimate.h"
#include "oracle/judge/report.h"

namespace tilescope {

class WorkSharing;

// Conventions that healthy kernels have and that no attribute of the file declares.

/// q or k with a scale folded in, as a kernel stages it: the operand times `factor`, rounded to `dtype`.
struct FoldedScale {
    Stage stage = Stage::q;
    double factor = 1;
    Dtype dtype = Dtype::f32;
};

/// The folded scale that explains every recorded tile of `stage`, q or k; nullopt where none does.
std::optional<FoldedScale> folded_scale(const Recording& recording, Stage stage);

/// The recording as it would be if the kernel did only what is declared: with the folded scales declared, and -inf
/// in masked scores where the kernel holds a number so low that p is exactly 0.
class DeclaredView final : public RecordingView {
 public:
    DeclaredView(const Recording& of, const std::vector<FoldedScale>& folded);

    const Units& units() const override { return units_; }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;

    /// Whether masked cells of the tiles read so far held such a number more often than -inf.
    bool masks_with_numbers() const { return masked_numbers_ > masked_infinities_; }
    float masked_value() const { return masked_value_; }  ///< the lowest of those numbers
    /// Collective: of the tiles that all processes have read.
    void fold_what_it_read(WorkSharing& sharing);

 private:
    const std::vector<float>& visible_maxima(const TileId& q_block) const;
    void restore_mask(const TileId& tile, std::span<float> s) const;

    Units units_;
    mutable std::atomic<std::int64_t> masked_numbers_ = 0;
    mutable std::atomic<std::int64_t> masked_infinities_ = 0;
    mutable std::atomic<float> masked_value_ = std::numeric_limits<float>::infinity();
    mutable std::mutex mutex_;
    /// Of query blocks that threads are at: the largest visible score of each row, as recorded.
    mutable std::map<TileId, std::vector<float>> maxima_;
};

/// Finds out whether all scores are those of a healthy kernel that rounds them to 16 bits, before the last
/// multiplication or after it. Thread-safe.
class CastOfScores {
 public:
    explicit CastOfScores(const Recording& recording);

    void look_at(const MatrixF& got, const Estimate& expected);
    /// Collective: of what all processes have looked at.
    void fold_what_it_saw(WorkSharing& sharing);
    /// How they are rounded, and what would declare it; nullopt where that is not what they are.
    struct Found {
        std::string what;
        const char* declaration;
    };
    std::optional<Found> found() const;

 private:
    struct Candidate {
        Dtype dtype = Dtype::f16;
        double scale = 1;  ///< that is multiplied after the cast
        bool fits = true;
    };
    mutable std::mutex mutex_;
    std::vector<Candidate> candidates_;
};

/// Whether a kernel with one of these conventions could leave the first divergence of q, k or s: only then is it
/// worth looking further.
bool may_be_undeclared(const Recording& recording, const Report& report);

}  // namespace tilescope
