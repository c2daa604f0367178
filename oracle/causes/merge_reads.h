#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "oracle/causes/walk.h"

namespace tilescope {

/// What the merge of lanes and splits is at: a term of the sum over splits, and over lanes or of a head element.
struct MergePlace {
    std::int64_t split = 0;
    std::int64_t row = 0;  ///< of the query block
    std::int64_t element = 0;
    std::int64_t head = 0;
    std::int64_t query = 0;
};
using MergeNumber = std::function<std::int64_t(const MergePlace&)>;

/// Terms from `first` up to, but without, `last`; empty: all of them.
struct MergeRange {
    MergeNumber first = {};
    MergeNumber last = {};
};

/// How o is merged of the splits: sum w acc / sum w l, w = exp(m - top). Addresses are in arrays [split][row][element] of
/// block_m rows, of weights [split][row]; empty: those of a healthy kernel.
struct MergeReads {
    MergeNumber acc = {};
    MergeNumber l = {};
    MergeNumber weight_of_acc = {};
    MergeNumber weight_of_l = {};
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
    std::optional<MergedSum> acc(const MergeReads& reads, MergePlace at) const;
    /// The sum of w l.
    std::optional<MergedSum> l(const MergeReads& reads, MergePlace at) const;
    MergePlace place(const SearchedTile& site, Eigen::Index row, Eigen::Index col) const;
    /// By how much weights are larger for that they are told from the maximum of some splits; infinite beyond a float.
    double weights_grow(const MergeReads& reads, MergePlace at) const;

 private:
    double weight(const MergeReads& reads, const MergeNumber& address, MergePlace at) const;

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
