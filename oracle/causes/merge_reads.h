#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/causes/walk.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// Terms from `first` up to, but without, `last`; empty: all of them.
struct MergeRange {
    std::optional<Expr> first{};
    std::optional<Expr> last{};
};

/// How o is merged of the splits: sum w acc / sum w l, w = exp(m - top). Addresses are in arrays [split][row][element] of
/// block_m rows, of weights [split][row]; empty: those of a healthy kernel. The last number is d of acc, and lane of l.
struct MergeReads {
    std::optional<Expr> acc{};
    std::optional<Expr> l{};
    std::optional<Expr> weight_of_acc{};
    std::optional<Expr> weight_of_l{};
    MergeRange lanes = {};
    MergeRange splits_of_acc = {};
    MergeRange splits_of_l = {};
    /// Of the maximum that the weights are told from: what they are multiplied with leaves o as it is, unless it is infinite.
    MergeRange splits_of_max = {};
    double added_to_weight_of_acc = 0;
    double added_to_weight_of_l = 0;
    /// Splits hold acc / l and are weighted by w l, as where each of them stores its output and lse.
    bool of_outputs = false;
    /// Whether what lies beyond the states may be NaN: then it is not known what a weight of 0 leaves of it.
    bool may_be_nan = false;
};

struct MergedSum {
    double value = 0;
    double magnitude = 0;  ///< of its terms
};

/// The states of all splits of a query block, in natural units. What lies beyond the rows that were dumped is not known.
class MergeStates {
 public:
    explicit MergeStates(const SearchedTile& site);

    std::int64_t splits() const { return splits_; }
    std::int64_t lanes() const { return lanes_; }
    std::int64_t block_rows() const { return block_rows_; }
    std::int64_t head_dim() const { return head_dim_; }
    std::int64_t address(std::int64_t split, std::int64_t row) const { return split * block_rows_ + row; }

    /// The sum of w acc; nullopt where something that it reads is not known.
    std::optional<MergedSum> acc(const MergeReads& reads, Place at) const;
    /// The sum of w l.
    std::optional<MergedSum> l(const MergeReads& reads, Place at) const;
    Place place(const SearchedTile& site, Eigen::Index row, Eigen::Index col) const;
    /// By how much weights are larger for that they are told from the maximum of some splits; infinite beyond a float.
    double weights_grow(const MergeReads& reads, const Place& at) const;

 private:
    double weight(const MergeReads& reads, const std::optional<Expr>& address, const Place& at) const;

    std::int64_t splits_;
    std::int64_t block_rows_;
    std::int64_t lanes_;
    std::int64_t head_dim_;
    std::vector<double> weight_;  ///< NaN: not known
    std::vector<double> sum_;     ///< of the lanes
    std::vector<double> l_;
    std::vector<double> acc_;
};

/// o merged so.
Change merges_by(const MergeReads& reads);

}  // namespace tilescope
