#include "oracle/causes/merge_reads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/causes/element_places.h"
#include "oracle/formula/estimate.h"

namespace tilescope {

namespace {

double at_address(const std::vector<double>& array, std::int64_t address) {
    return address >= 0 && address < std::ssize(array) ? array[std::size_t(address)] : quiet_nan;
}

struct Terms {
    std::int64_t first;
    std::int64_t last;
};

Terms terms_of(const MergeRange& range, const Place& at, std::int64_t count) {
    return {range.first ? range.first->at(at) : 0, range.last ? range.last->at(at) : count};
}

void add(double term, MergedSum& sum) {
    sum.value += term;
    sum.magnitude += std::abs(term);
}

}  // namespace

MergeStates::MergeStates(const SearchedTile& site)
    : splits_(std::ssize(site.splits)),
      block_rows_(site.call->problem.block_m),
      lanes_(site.splits.front().l.value.cols()),
      head_dim_(site.splits.front().acc.value.cols()) {
    const auto states = std::size_t(splits_ * block_rows_);
    weight_.assign(states, quiet_nan);
    sum_ = weight_;
    l_.assign(states * std::size_t(lanes_), quiet_nan);
    acc_.assign(states * std::size_t(head_dim_), quiet_nan);
    const RunningState whole = whole_state(site);
    for (std::int64_t z = 0; z < splits_; ++z) {
        const RunningState& split = site.splits[std::size_t(z)];
        for (Eigen::Index row = 0; row < split.m.value.rows(); ++row) {
            const std::int64_t at = address(z, row);
            const double m = split.m.value(row, 0);
            weight_[std::size_t(at)] = m == -infinity ? 0 : std::exp(m - whole.m.value(row, 0));
            sum_[std::size_t(at)] = sum_of_row(split.l.value, row);
            for (std::int64_t lane = 0; lane < lanes_; ++lane)
                l_[std::size_t(at * lanes_ + lane)] = split.l.value(row, lane);
            for (std::int64_t d = 0; d < head_dim_; ++d)
                acc_[std::size_t(at * head_dim_ + d)] = split.acc.value(row, d);
        }
    }
}

Place MergeStates::place(const SearchedTile& site, Eigen::Index row, Eigen::Index col) const {
    Place place = element_place(Stage::acc, site, row, col);
    place[Coordinate::split] = 0;
    return place;
}

double MergeStates::weights_grow(const MergeReads& reads, const Place& at) const {
    if (!reads.splits_of_max.first && !reads.splits_of_max.last) return 1;
    const Terms terms = terms_of(reads.splits_of_max, at, splits_);
    double largest = 0;
    double of_all = 0;
    for (std::int64_t split = 0; split < splits_; ++split) {
        const double weight = at_address(weight_, address(split, at[Coordinate::row]));
        of_all = std::max(of_all, weight);
        if (split >= terms.first && split < terms.last) largest = std::max(largest, weight);
    }
    const double grow = of_all > 0 ? of_all / largest : 1;
    return grow > std::numeric_limits<float>::max() ? infinity : grow;
}

double MergeStates::weight(const MergeReads& reads, const std::optional<Expr>& address_of,
                           const Place& at) const {
    const std::int64_t address =
        address_of ? address_of->at(at) : this->address(at[Coordinate::split], at[Coordinate::row]);
    double weight = at_address(weight_, address);
    if (weight != 0) weight *= weights_grow(reads, at);
    return reads.of_outputs && weight != 0 ? weight * at_address(sum_, address) : weight;
}

std::optional<MergedSum> MergeStates::acc(const MergeReads& reads, Place at) const {
    const Terms terms = terms_of(reads.splits_of_acc, at, splits_);
    MergedSum sum;
    for (at[Coordinate::split] = terms.first; at[Coordinate::split] < terms.last; ++at[Coordinate::split]) {
        const double w = weight(reads, reads.weight_of_acc, at) + reads.added_to_weight_of_acc;
        const std::int64_t own =
            address(at[Coordinate::split], at[Coordinate::row]) * head_dim_ + at[Coordinate::d];
        const std::int64_t from = reads.acc ? reads.acc->at(at) : own;
        double term = at_address(acc_, from);
        if (w == 0 && (!reads.may_be_nan || from == own || !std::isnan(term))) continue;
        if (reads.of_outputs) term = term == 0 ? 0 : term / at_address(sum_, from / head_dim_);
        if (std::isnan(term) || std::isnan(w)) return std::nullopt;
        add(w * term, sum);
    }
    return sum;
}

std::optional<MergedSum> MergeStates::l(const MergeReads& reads, Place at) const {
    const Terms terms = terms_of(reads.splits_of_l, at, splits_);
    MergedSum sum;
    for (at[Coordinate::split] = terms.first; at[Coordinate::split] < terms.last; ++at[Coordinate::split]) {
        const double w = weight(reads, reads.weight_of_l, at) + reads.added_to_weight_of_l;
        if (std::isnan(w)) return std::nullopt;
        if (w == 0) continue;
        if (reads.of_outputs) {
            add(w, sum);
            continue;
        }
        const Terms lanes = terms_of(reads.lanes, at, lanes_);
        for (at[Coordinate::lane] = lanes.first; at[Coordinate::lane] < lanes.last; ++at[Coordinate::lane]) {
            const std::int64_t own =
                address(at[Coordinate::split], at[Coordinate::row]) * lanes_ + at[Coordinate::lane];
            const double term = at_address(l_, reads.l ? reads.l->at(at) : own);
            if (std::isnan(term)) return std::nullopt;
            add(w * term, sum);
        }
    }
    return sum;
}

namespace {

void merge_row(const MergeStates& states, const MergeReads& reads, const SearchedTile& site, Eigen::Index row,
               RunningState& whole) {
    double& l = whole.l.value(row, 0);
    const double relative = (l > 0 ? whole.l.error(row, 0) / l : 0) + 8 * u_f32;
    Place at = states.place(site, row, 0);
    const auto l_sum = states.l(reads, at);
    // A kernel has no o where its sum is nothing.
    const bool is_nothing = l_sum && l_sum->value <= 0;
    for (Eigen::Index j = 0; j < whole.acc.value.cols(); ++j) {
        at[Coordinate::d] = j;
        const auto sum = states.acc(reads, at);
        double& acc = whole.acc.value(row, j);
        double& error = whole.acc.error(row, j);
        error = sum ? error + relative * sum->magnitude : infinity;
        if (sum) acc = sum->value;
        if (is_nothing) acc = error = 0;
    }
    if (is_nothing) return;
    whole.l.error(row, 0) = l_sum ? relative * l_sum->magnitude : infinity;
    if (l_sum) l = std::isinf(l_sum->value) ? quiet_nan : l_sum->value;
}

}  // namespace

Change merges_by(const MergeReads& reads) {
    return {.inputs = [=](SearchedTile& site) {
        const MergeStates states(site);
        RunningState whole = whole_state(site);
        for (Eigen::Index i = 0; i < whole.l.value.rows(); ++i) merge_row(states, reads, site, i, whole);
        HeadCall& call = site.own_call();
        call.problem.kv_tiles_per_split = 0;
        call.problem.split_starts.clear();
        call.problem.l_lanes = 1;
        site.splits = {std::move(whole)};
    }};
}

}  // namespace tilescope
