// What the merge of lanes and splits reads in place of what it should: another row, split or lane, or some of them alone.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "oracle/causes/curves.h"
#include "oracle/causes/merge_addresses.h"
#include "oracle/causes/merge_reads.h"
#include "oracle/causes/signature.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

/// A wrong element of o, with the states that it is merged of.
struct MergedElement {
    const MergeStates* states = nullptr;
    Place at;
    double got = 0;
    double expected = 0;
    double error = 0;
};

/// Some of the wrong elements: that a formula is right for these is worth a replay.
class MergedSample {
 public:
    explicit MergedSample(const Evidence& evidence) {
        for (const Observation& seen : evidence.seen) {
            if (!seen.is_bad()) continue;
            states_.push_back(std::make_unique<MergeStates>(seen.site));
            const std::int64_t step = seen.wrong_elements / of_tile + 1;
            std::int64_t next = 0;
            for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
                if (!seen.wrong[std::size_t(i)] || !std::isfinite(seen.got.data()[i]) || next++ % step != 0)
                    continue;
                const Eigen::Index row = i / seen.got.cols();
                const Eigen::Index col = i % seen.got.cols();
                const double unit = seen.factor.at(row, col);
                elements_.push_back({states_.back().get(), states_.back()->place(seen.site, row, col),
                                     seen.natural(row, col), seen.expected.value(row, col) / unit,
                                     seen.expected.error(row, col) / std::abs(unit)});
            }
        }
        // Neighbours say the same: those that come first are from everywhere.
        std::ranges::shuffle(elements_, std::minstd_rand(1));
    }

    const std::vector<MergedElement>& elements() const { return elements_; }
    const MergeStates& any() const { return *states_.front(); }

    /// Whether nearly all elements are what this makes of them, as far as that is known.
    bool may_be(const MergeReads& reads) const {
        std::int64_t known = 0;
        std::int64_t right = 0;
        for (const MergedElement& element : elements_) {
            if (known >= 4 && right * 2 < known) return false;
            if (known >= 16 && right * 10 < known * 8) return false;
            const auto acc = element.states->acc(reads, element.at);
            const auto l = acc ? element.states->l(reads, element.at) : std::nullopt;
            if (!l) continue;
            const double o = l->value > 0 ? acc->value / l->value : 0;
            // That nothing is left says nothing.
            if (o == 0 && element.got == 0) continue;
            ++known;
            const double larger = std::max(1.0, std::abs(o) / std::max(std::abs(element.expected), 1e-6));
            right += std::abs(o - element.got) <= 2 * element.error * larger + 1e-6 * std::abs(o);
        }
        return known >= 6 && right * 10 >= known * 9;
    }

 private:
    static constexpr std::int64_t of_tile = 24;

    std::vector<std::unique_ptr<MergeStates>> states_;
    std::vector<MergedElement> elements_;
};

bool can_be_solved(const Evidence& evidence) {
    return can_be_read(evidence) && evidence.problem().sink == AttentionSink::none &&
           evidence.seen.front().is_bad();
}

/// Adds what may be; of what the sample does not tell apart the first few.
class MergeCandidates {
 public:
    explicit MergeCandidates(const MergedSample& sample) : sample_(sample) {}

    /// `other`: an address or a bound, which says what it is.
    template <class Other>
    void add(const char* parameter, std::string_view of, const Other& other, MergeReads reads) {
        constexpr std::size_t most = 12;
        if (tried_ == most || !sample_.may_be(reads)) return;
        ++tried_;
        for (const bool may_be_nan : {false, true}) {
            reads.may_be_nan = may_be_nan;
            found_.push_back({{{parameter, fmt::format("{} {}", of, other.text())}},
                              merges_by(reads),
                              1 + other.choices()});
        }
    }
    std::vector<Candidate> take() { return std::move(found_); }

 private:
    const MergedSample& sample_;
    std::size_t tried_ = 0;
    std::vector<Candidate> found_;
};

// ---- addresses

/// What is read elsewhere, and which read of the merge that is.
struct MergedRead {
    std::string name;
    MergedArray array;
    std::function<void(const Expr&, MergeReads&)> set;
};

/// One array of a kernel that keeps acc, l and weights, then what one that keeps the outputs and lse of splits reads.
std::vector<MergedRead> merged_reads(const MergeStates& states) {
    const MergedArray acc{states.splits(), states.block_rows(), states.head_dim(), Coordinate::d};
    const MergedArray l{states.splits(), states.block_rows(), states.lanes(), Coordinate::lane};
    const MergedArray one{states.splits(), states.block_rows()};
    const auto state = [dim = acc.elements](const Expr& address) { return address * dim + Coordinate::d; };
    const auto lanes = [count = l.elements](const Expr& address) {
        return address * count + Coordinate::lane;
    };
    std::vector<MergedRead> reads = {
        {"acc", acc, [](const Expr& address, MergeReads& to) { to.acc = address; }},
        {"l", l, [](const Expr& address, MergeReads& to) { to.l = address; }},
        {"acc and l", one, [=](const Expr& address, MergeReads& to) {
             to.acc = state(address);
             to.l = lanes(address);
         }}};
    if (states.splits() == 1) return reads;
    const auto weigh_both = [](const Expr& address, MergeReads& to) {
        to.weight_of_acc = to.weight_of_l = address;
    };
    const std::vector<MergedRead> of_splits = {
        {"weights of acc", one, [](const Expr& address, MergeReads& to) { to.weight_of_acc = address; }},
        {"weights of l", one, [](const Expr& address, MergeReads& to) { to.weight_of_l = address; }},
        {"weights", one, weigh_both},
        {"outputs of splits", one,
         [=](const Expr& address, MergeReads& to) {
             to.of_outputs = true;
             to.acc = state(address);
         }},
        {"lse of splits", one,
         [=](const Expr& address, MergeReads& to) {
             to.of_outputs = true;
             weigh_both(address, to);
         }},
        {"lse of splits, but for their sum,", one,
         [](const Expr& address, MergeReads& to) {
             to.of_outputs = true;
             to.weight_of_acc = address;
         }},
    };
    reads.insert(reads.end(), of_splits.begin(), of_splits.end());
    return reads;
}

std::vector<Candidate> merge_reads_elsewhere(const Evidence& evidence) {
    if (!can_be_solved(evidence)) return {};
    const MergedSample sample(evidence);
    MergeCandidates candidates(sample);
    // Most read the same array.
    std::map<Coordinate, std::vector<MergeAddress>> addresses;
    for (const MergedRead& read : merged_reads(sample.any())) {
        std::vector<MergeAddress>& others = addresses[read.array.element];
        if (others.empty()) others = merge_addresses(evidence.problem(), read.array);
        for (const MergeAddress& other : others) {
            MergeReads reads;
            read.set(other.address, reads);
            candidates.add("reads", read.name, other, reads);
        }
    }
    return candidates.take();
}

// ---- ranges

/// Where a loop may begin or end in place of its own bounds.
struct MergeBound {
    Expr at;
    bool is_first = false;

    int choices() const { return at.is_number() ? 1 : 2; }
    /// "from 2", "before 4 - row % 2"
    std::string text() const { return (is_first ? "from " : "before ") + at.text(); }
};

std::vector<MergeBound> merge_bounds(std::int64_t count) {
    constexpr std::int64_t beyond = 16;
    std::vector<MergeBound> bounds;
    for (std::int64_t n = 1; n < count + beyond; ++n) {
        if (n < count) bounds.push_back({n, true});
        if (n <= beyond) bounds.push_back({-n, true});
        if (n != count) bounds.push_back({n});
    }
    for (const Coordinate of : {Coordinate::row, Coordinate::query, Coordinate::head, Coordinate::split}) {
        for (const std::int64_t n : {2, 3, 4, 8, 16}) {
            const Expr rest = Expr(of) % n;
            bounds.push_back({rest, true});
            bounds.push_back({Expr(-1) * rest, true});
            bounds.push_back({rest});
            bounds.push_back({Expr(count) - rest});
        }
    }
    return bounds;
}

void set_bound(const MergeBound& bound, MergeRange& range) {
    (bound.is_first ? range.first : range.last) = bound.at;
}

/// Rows of o that are NaN, or are not.
struct JudgedRow {
    std::shared_ptr<const MergeStates> states;
    Place at;
    bool is_nan = false;
};

/// None where anything but NaN is wrong.
std::vector<JudgedRow> rows_by_nan(const Evidence& evidence) {
    std::vector<JudgedRow> rows;
    for (const Observation& seen : evidence.seen) {
        const auto states = std::make_shared<const MergeStates>(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            const bool is_nan = std::isnan(seen.got(i, 0));
            if (seen.bad_rows[std::size_t(i)] != is_nan) return {};
            rows.push_back({states, states->place(seen.site, i, 0), is_nan});
        }
    }
    return rows;
}

/// The maximum of some splits is nothing where they saw no key: weights are infinite there, and o is NaN.
std::vector<Candidate> maximum_of_some_splits(const Evidence& evidence) {
    const std::vector<JudgedRow> rows = rows_by_nan(evidence);
    std::vector<Candidate> candidates;
    if (rows.empty()) return candidates;
    const std::int64_t splits = rows.front().states->splits();
    for (const MergeBound& bound : merge_bounds(splits)) {
        MergeReads reads;
        set_bound(bound, reads.splits_of_max);
        const auto is_right = [&](const JudgedRow& row) {
            return std::isinf(row.states->weights_grow(reads, row.at)) == row.is_nan;
        };
        if (std::ranges::all_of(rows, is_right))
            candidates.push_back(
                {{{"takes", "maximum of splits " + bound.text()}}, merges_by(reads), 1 + bound.choices()});
    }
    return candidates;
}

std::vector<Candidate> merge_of_other_range(const Evidence& evidence) {
    if (!can_be_solved(evidence)) return {};
    if (evidence.seen.front().site.splits.size() > 1)
        if (auto found = maximum_of_some_splits(evidence); !found.empty()) return found;
    const MergedSample sample(evidence);
    MergeCandidates candidates(sample);
    for (const MergeBound& bound : merge_bounds(sample.any().lanes())) {
        MergeReads reads;
        set_bound(bound, reads.lanes);
        candidates.add("adds", "l of lanes", bound, reads);
    }
    const std::int64_t splits = sample.any().splits();
    if (splits == 1) return candidates.take();
    for (const MergeBound& bound : merge_bounds(splits)) {
        MergeReads of_acc;
        MergeReads of_l;
        MergeReads of_both;
        set_bound(bound, of_acc.splits_of_acc);
        set_bound(bound, of_l.splits_of_l);
        set_bound(bound, of_both.splits_of_acc);
        set_bound(bound, of_both.splits_of_l);
        candidates.add("adds", "acc and l of splits", bound, of_both);
        candidates.add("adds", "acc of splits", bound, of_acc);
        candidates.add("adds", "l of splits", bound, of_l);
    }
    return candidates.take();
}

// ---- what is added to weights

/// Which sums a number is added to the weights of.
struct WeightedSums {
    const char* name;
    bool acc;
    bool l;
};

struct AddedNumber {
    double value;

    int choices() const { return 1; }
    /// "+ 0.5"
    std::string text() const { return fmt::format("{} {:.6g}", value < 0 ? '-' : '+', std::abs(value)); }
};

MergeReads with_added(const WeightedSums& sums, double number) {
    MergeReads reads;
    if (sums.acc) reads.added_to_weight_of_acc = number;
    if (sums.l) reads.added_to_weight_of_l = number;
    return reads;
}

/// The number that makes the element what it is.
std::optional<Uncertain> added_number(const WeightedSums& sums, const MergedElement& element) {
    // A kernel has no o where its sum is nothing.
    if (element.got == 0) return std::nullopt;
    const MergeStates& states = *element.states;
    const MergeReads more = with_added(sums, 1);
    const auto acc = states.acc({}, element.at);
    const auto l = states.l({}, element.at);
    const auto more_acc = states.acc(more, element.at);
    const auto more_l = states.l(more, element.at);
    if (!acc || !l || !more_acc || !more_l) return std::nullopt;
    const double slope = more_acc->value - acc->value - element.got * (more_l->value - l->value);
    const double number = (element.got * l->value - acc->value) / slope;
    if (!std::isfinite(number)) return std::nullopt;
    return Uncertain{number, 2 * element.error * (l->value + std::abs(number)) / std::abs(slope)};
}

std::vector<Candidate> split_weight_offset(const Evidence& evidence) {
    if (!can_be_solved(evidence) || evidence.seen.front().site.splits.size() < 2) return {};
    const MergedSample sample(evidence);
    MergeCandidates candidates(sample);
    constexpr WeightedSums all[] = {
        {"weights", true, true}, {"weights of acc", true, false}, {"weights of l", false, true}};
    for (const WeightedSums& sums : all) {
        std::vector<Uncertain> numbers;
        for (const MergedElement& element : sample.elements())
            if (const auto number = added_number(sums, element)) numbers.push_back(*number);
        constexpr std::size_t best = 15;
        if (numbers.size() < best) continue;
        std::ranges::sort(numbers, {}, &Uncertain::error);
        std::vector<double> values;
        for (std::size_t i = 0; i < best; ++i) values.push_back(numbers[i].value);
        const KnownNumber number =
            simplest_number(median_of(values), numbers[best / 2].error, known_numbers(evidence));
        if (number.value == 0) continue;
        candidates.add(sums.name, "exp(m - top)", AddedNumber{number.value}, with_added(sums, number.value));
    }
    return candidates.take();
}

}  // namespace

std::vector<Cause> identified_merge_read_causes() {
    const std::vector<Stage> o = {Stage::o};
    return {
        {"merge_reads_elsewhere", "split / combine", o,
         "the merge of lanes and splits reads other rows, splits or lanes than its own",
         "the indices with which the states of lanes and splits are read", merge_reads_elsewhere},
        {"merge_of_other_range", "split / combine", o,
         "the merge leaves lanes or splits out, or goes on beyond them",
         "the bounds of the loops over lanes and splits", merge_of_other_range},
        {"split_weight_offset", "split / combine", o, "a number is added to the weights of the splits",
         "the weights of the splits", split_weight_offset},
    };
}

}  // namespace tilescope
