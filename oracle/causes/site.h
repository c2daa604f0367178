#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/recording.h"
#include "oracle/causes/attempts.h"
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
    /// `check` may throw to end what works on it. `attempts`: of the search; null where nothing is searched.
    CauseSearch(const Recording& recording, const CompareOptions& compare, double confidence,
                std::function<void()> check = {}, Attempts* attempts = nullptr);
    /// The same, where replays compute the `hidden` stages, as if they had not been dumped.
    CauseSearch(const CauseSearch& world, std::span<const Stage> hidden);

    const Recording& recording() const { return recording_; }
    const CompareOptions& compare() const { return compare_; }
    bool has(Stage stage) const {
        return recording_.has_stage(stage) && !hidden_[static_cast<std::size_t>(stage)];
    }
    /// Causes of the table that are not searched for.
    void leave_out(std::vector<std::string> causes) { left_out_ = std::move(causes); }
    bool leaves_out(std::string_view cause) const {
        return std::ranges::find(left_out_, cause) != left_out_.end();
    }
    void check() const {
        if (check_) check_();
    }
    Attempts& attempts() const { return *attempts_; }
    /// A formula may be there that was not come to: that counts where nothing else explains what is wrong.
    void leave_formulas_open() const { leaves_formulas_open_ = true; }
    bool leaves_formulas_open() const { return leaves_formulas_open_; }
    std::shared_ptr<const HeadCall> call(std::int64_t batch, std::int64_t head) const;
    /// Rows of q, k, v or dout, exactly, without descales; zeros where there is no such row, or no such head.
    Matrix input_rows(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
                      std::int64_t count) const;

    /// What is computed of the whole recording once; `name` says what, of which type and how. A change that needs it asks
    /// for it by its site, so that the change can be replayed in another recording. It counts as the work of each who asks:
    /// who comes first is a matter of luck.
    template <class T>
    std::shared_ptr<const T> once(const std::string& name, const std::function<T()>& make) const {
        std::unique_lock lock(computed_mutex_);
        Computed& known = computed_[name];
        if (!known.value) {
            Effort effort;
            const Spending spending(&effort);
            known.value = std::make_shared<const T>(make());
            known.effort = effort.spent();
        }
        const Computed found = known;
        lock.unlock();
        spend(found.effort);
        return std::static_pointer_cast<const T>(found.value);
    }

 private:
    struct Computed {
        std::shared_ptr<const void> value;
        std::int64_t effort = 0;
    };

    const Recording& recording_;
    CompareOptions compare_;
    RoundingModel rounding_;
    std::function<void()> check_;
    Attempts* attempts_;
    std::bitset<stage_count> hidden_;
    std::vector<std::string> left_out_;
    mutable std::atomic<bool> leaves_formulas_open_ = false;
    mutable std::mutex mutex_;
    mutable std::map<std::pair<std::int64_t, std::int64_t>, std::shared_ptr<const HeadCall>> calls_;
    mutable std::recursive_mutex computed_mutex_;  ///< what is computed may be made of what was
    mutable std::map<std::string, Computed> computed_;
};

/// What one pair of a query block and a KV tile adds to dq, dk or dv: a b.
struct GradientPart {
    TileId id;
    Estimate a;       ///< ds, ds^T or P^T as the product takes it: rows of the gradient x terms
    Matrix scores;    ///< of `a`: what is hidden adds nothing
    Estimate uncast;  ///< `a` before its cast; empty where that is not known
    Operand b;        ///< k, q or dout: terms x columns of the gradient
};
using GradientParts = std::vector<GradientPart>;

/// What goes into the formulas of one KV tile of a query block, in natural units. A cause changes some of it. In the
/// backward pass lse is in the place of m, before the tile as well as after it.
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
    Estimate scaled;      ///< sm_scale q k, where it is not that of the operands; otherwise empty
    Estimate dumped_s;    ///< the scores as far as the dump has them: capped, biased, masked as its units say
    RunningState before;  ///< after the KV tile before, or where the split begins
    Estimate m;
    Estimate factor;  ///< that l and acc are rescaled by
    Estimate p;       ///< before its cast
    Estimate operand_p;
    Estimate l_before;  ///< of the whole row, as l; empty where acc is not divided by it after each tile
    Estimate l;
    Estimate p_of_tile_before;
    std::vector<RunningState> splits;  ///< after the last tile
    Operand dout;
    Operand o;       ///< the output that delta is computed from
    Estimate delta;  ///< R x 1
    Estimate dp;
    std::shared_ptr<const GradientParts> parts;  ///< of dq, dk or dv, in the order of the kernel

    /// Its own copy of the call, to change.
    HeadCall& own_call();
    std::int64_t keys() const;
    std::int64_t rows() const;
};

/// dq, dk or dv: sums over the tiles of the other sequence.
bool is_gradient(Stage stage);
/// dk or dv: computed by KV tile, over all query blocks.
bool is_of_all_queries(Stage stage);
/// q or dout: rows of the query block.
bool is_of_queries(Stage operand);

/// Units of work that one tile of the stage takes: its products, and what is done for each of its elements.
std::int64_t effort_of(Stage stage, const Problem& problem);

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
