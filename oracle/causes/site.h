#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dump/recording.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/output.h"
#include "oracle/formula/scores.h"
#include "oracle/judge/tally.h"

namespace tilescope {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// The recording that causes are searched in, with what all replays of its parts share. Thread-safe.
class CauseSearch {
 public:
    /// `check` may throw to end what works on it.
    CauseSearch(const Recording& recording, const CompareOptions& compare, double confidence,
                std::function<void()> check = {});

    const Recording& recording() const { return recording_; }
    const CompareOptions& compare() const { return compare_; }
    bool has(Stage stage) const { return recording_.has_stage(stage) && stage != hidden_; }
    /// Makes replays compute the stage from here on, as if it had not been dumped.
    void hide(Stage stage) { hidden_ = stage; }
    void check() const {
        if (check_) check_();
    }
    std::shared_ptr<const HeadCall> call(std::int64_t batch, std::int64_t head) const;
    /// Rows of q, k or v, exactly, without descales; zeros where the batch entry has no such row.
    Matrix input_rows(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
                      std::int64_t count) const;

 private:
    const Recording& recording_;
    CompareOptions compare_;
    RoundingModel rounding_;
    std::function<void()> check_;
    std::optional<Stage> hidden_;
    mutable std::mutex mutex_;
    mutable std::map<std::pair<std::int64_t, std::int64_t>, std::shared_ptr<const HeadCall>> calls_;
};

/// What goes into the formulas of one KV tile of a query block, in natural units. A cause changes some of it.
struct SearchedTile {
    const CauseSearch* world = nullptr;
    TileId id;
    std::shared_ptr<const HeadCall> call;
    std::int64_t first_row = 0;
    std::int64_t first_key = 0;
    bool begins = false;  ///< no KV tile of its split came before
    Matrix raw;           ///< rows of the input, where the stage is an operand
    Operand q;
    Operand k;
    Operand v;
    Matrix k_before;      ///< K of the KV tiles before, added up element by element
    Estimate dumped_s;    ///< the scores as far as the dump has them: capped, biased, masked as its units say
    RunningState before;  ///< after the KV tile before, or where the split begins
    Estimate m;
    Estimate factor;  ///< that l and acc are rescaled by
    Estimate p;       ///< before its cast
    Estimate operand_p;
    Estimate p_of_tile_before;
    std::vector<RunningState> splits;  ///< after the last tile

    /// Its own copy of the call, to change.
    HeadCall& own_call();
    std::int64_t keys() const;
    std::int64_t rows() const;
};

/// What `stage` should hold: in the dump's units for operands, otherwise in natural units.
Estimate expected_of(Stage stage, const SearchedTile& site);

/// The scores as the softmax sees them.
Estimate finished_scores(const SearchedTile& site);

/// Puts them in the place of what the dump has: its units apply them no more.
void take_finished_scores(SearchedTile& site);

/// An operand's value, to change.
Matrix& q_of(SearchedTile& site);
Matrix& k_of(SearchedTile& site);
Matrix& v_of(SearchedTile& site);

/// The state of all splits as one.
RunningState whole_state(const SearchedTile& site);

/// The input that a staged operand is a copy of.
Input input_of(Stage stage);

}  // namespace tilescope
