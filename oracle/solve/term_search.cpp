#include "oracle/solve/term_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A maximum that may stay behind.
double risen(const TermResult& result, double most) {
    return most > result.carried + result.threshold ? most : result.carried;
}

/// Whether it holds of each term.
using TermMask = std::vector<char>;

struct TermCondition {
    std::optional<PlaceCondition> only;
    TermMask mask;
};

constexpr std::int64_t most_period = 32;

/// All terms, those from one on, those up to one, and parts of a power of two of periods of one: of lanes and registers.
std::vector<TermCondition> term_conditions(std::int64_t terms) {
    std::vector<TermCondition> conditions = {{std::nullopt, TermMask(std::size_t(terms), 1)}};
    const auto add = [&](const PlaceCondition& only) {
        TermCondition next{only, TermMask(std::size_t(terms), 0)};
        for (std::int64_t t = 0; t < terms; ++t) next.mask[std::size_t(t)] = only.holds(t);
        conditions.push_back(std::move(next));
    };
    for (std::int64_t n = 1; n < terms; ++n) {
        add({0, 0, n, std::numeric_limits<std::int32_t>::max()});
        add({0, 0, -std::numeric_limits<std::int32_t>::max(), n});
    }
    for (std::int64_t period = 2; period <= std::min(most_period, terms); period *= 2)
        for (std::int64_t size = 1; size < period; size *= 2)
            for (std::int64_t first = 0; first < period; first += size) add({0, period, first, first + size});
    return conditions;
}

/// Makes `sums` those of `changes` over the terms of every condition, in the order of term_conditions().
void add_conditions(std::span<const double> changes, std::vector<double>& sums) {
    const std::size_t terms = changes.size();
    sums.assign(2 * terms - 1, 0);
    double behind = 0;
    for (std::size_t n = terms - 1; n > 0; --n) sums[2 * n - 1] = behind += changes[n];
    sums[0] = behind + changes[0];
    double before = 0;
    for (std::size_t n = 1; n < terms; ++n) sums[2 * n] = before += changes[n - 1];
    for (std::size_t period = 2; period <= std::min(std::size_t(most_period), terms); period *= 2) {
        std::array<double, most_period> blocks{};
        for (std::size_t t = 0; t < terms; ++t) blocks[t & (period - 1)] += changes[t];
        for (std::size_t size = period; size > 1; size /= 2) {
            sums.insert(sums.end(), blocks.begin(), blocks.begin() + std::ptrdiff_t(size));
            for (std::size_t i = 0; i < size / 2; ++i) blocks[i] = blocks[2 * i] + blocks[2 * i + 1];
        }
    }
}

/// Makes `at` the address of each term, and `read` its number, or with its factor what it adds to the sum, of all parts together.
void read_terms(const TermQuestion& question, const std::vector<TileMemory>& memories,
                const TermResult& result, const TermAddress& address, std::vector<std::int64_t>& at,
                std::vector<double>& read) {
    const std::size_t terms = question.terms();
    at.resize(terms);
    address.along(question.term, result.place, memories.front().cols - address.padding, at);
    read.assign(terms, question.is_maximum ? -infinity : 0);
    for (std::size_t first = 0; first < result.factors.size(); first += terms) {
        const TileMemory& memory = memories[result.memory + first / terms];
        for (std::size_t t = 0; t < terms; ++t) {
            const double factor = result.factors[first + t];
            if (factor == 0) continue;
            const double number = memory.at(at[t]);
            read[t] = question.is_maximum ? number : read[t] + number * factor;
        }
    }
}

/// The terms of a result at an address beside those at the right one.
class ReadTerms {
 public:
    explicit ReadTerms(const TermQuestion& question) : question_(question) {}

    void read(const std::vector<TileMemory>& memories, const TermResult& result,
              std::span<const double> right, const TermAddress& address) {
        right_ = right;
        read_terms(question_, memories, result, address, at_, changed_);
        if (question_.is_maximum) return;
        total_ = std::accumulate(right_.begin(), right_.end(), result.carried);
        for (std::size_t t = 0; t < right_.size(); ++t) changed_[t] -= right_[t];
        add_conditions(changed_, sums_);
    }

    /// The result where the terms of the condition alone are read there.
    double value(const TermResult& result, std::size_t condition, const TermMask& mask) const {
        if (!question_.is_maximum) return total_ + sums_[condition];
        double most = -infinity;
        for (std::size_t t = 0; t < mask.size(); ++t) {
            const double next = mask[t] ? changed_[t] : right_[t];
            if (std::isnan(next)) return next;
            most = std::max(most, next);
        }
        return risen(result, most);
    }

 private:
    const TermQuestion& question_;
    std::vector<std::int64_t> at_;
    std::vector<double> changed_;
    std::span<const double> right_;
    double total_ = 0;          ///< the right sum
    std::vector<double> sums_;  ///< what each condition adds to it
};

/// Whether the terms of the mask that are read elsewhere are more than what the result may be off by; of a maximum whether any is
/// not hidden.
bool reads_something(const TermQuestion& question, const std::vector<TileMemory>& memories,
                     const TermResult& result, const TermAddress& address, const TermMask& mask) {
    spend(std::int64_t(24 * result.factors.size()));
    const std::int64_t cols = memories.front().cols - address.padding;
    std::vector<std::int64_t> at(mask.size());
    std::vector<std::int64_t> right(mask.size());
    address.along(question.term, result.place, cols, at);
    question.right(address.padding).along(question.term, result.place, cols, right);
    double magnitude = 0;
    for (std::size_t i = 0; i < result.factors.size(); ++i) {
        const std::size_t t = i % mask.size();
        if (result.factors[i] == 0 || !mask[t] || at[t] == right[t]) continue;
        const double number = memories[result.memory + i / mask.size()].at(at[t]);
        if (question.is_maximum && std::isfinite(number)) return true;
        if (!std::isnan(number)) magnitude += std::abs(number * result.factors[i]);
    }
    return magnitude > 4 * result.error;
}

/// How many results a condition was held against, and how many are otherwise.
struct Agreement {
    std::size_t condition = 0;
    std::size_t tried = 0;
    std::size_t off = 0;
};

/// At most an eighth may be otherwise, at any time: most conditions are out of the running after one result.
bool agrees(const Agreement& with) {
    return with.off * 8 <= with.tried;
}

class TermSearch {
 public:
    explicit TermSearch(const TermQuestion& question)
        : question_(question),
          conditions_(term_conditions(std::int64_t(question.terms()))),
          terms_(question) {
        // The first results are of tiles far apart.
        constexpr std::size_t step = 8;
        for (std::size_t first = 0; first < step; ++first)
            for (std::size_t i = first; i < question.results.size(); i += step) order_.push_back(i);
        std::vector<std::int64_t> at;
        for (const TermResult& result : question.results)
            read_terms(question, question.memories, result, question.right(), at, right_.emplace_back());
    }

    void try_address(const TermAddress& address, std::vector<TermRead>& found) {
        std::vector<Agreement>& left = left_;
        hold_against_the_first(address);
        for (std::size_t n = 1; n < order_.size() && !left.empty(); ++n) {
            const TermResult& result = read(n, left.size(), address);
            for (Agreement& one : left) {
                const double value = terms_.value(result, one.condition, conditions_[one.condition].mask);
                if (std::isnan(value)) continue;
                ++one.tried;
                one.off += !result.fits(value);
            }
            // What most results read beyond the tile for is not worth asking the others.
            constexpr std::size_t enough = 12;
            std::erase_if(left, [=](const Agreement& one) {
                return !agrees(one) || (n >= enough && one.tried * 4 < n);
            });
        }
        const std::size_t least =
            std::min<std::size_t>(6, std::max<std::size_t>(question_.results.size() / 3, 3));
        std::erase_if(left, [&](const Agreement& one) { return one.tried < least; });
        std::erase_if(left, [&](const Agreement& one) { return !tells(address, one); });
        if (left.empty()) return;
        // Conditions that say the same of what was looked at: the simplest, and of these the one that was tried most.
        const auto cost = [&](const Agreement& one) {
            return std::pair(TermRead{address, conditions_[one.condition].only}.choices(),
                             question_.results.size() - one.tried);
        };
        found.push_back({address, conditions_[std::ranges::min_element(left, {}, cost)->condition].only});
    }

 private:
    /// The terms of the n-th result at the address, of which so many conditions are asked.
    const TermResult& read(std::size_t n, std::size_t asked, const TermAddress& address) {
        const TermResult& result = question_.results[order_[n]];
        const std::vector<double>& right = right_[order_[n]];
        const std::size_t of_condition = question_.is_maximum ? right.size() : 1;
        spend(std::int64_t(24 * result.factors.size() + 12 * asked * of_condition));
        terms_.read(memories_of(address.padding), result, right, address);
        return result;
    }

    /// Leaves the conditions that it does not contradict: few, of most addresses.
    void hold_against_the_first(const TermAddress& address) {
        const TermResult& result = read(0, conditions_.size(), address);
        left_.clear();
        for (std::size_t i = 0; i < conditions_.size(); ++i) {
            const double value = terms_.value(result, i, conditions_[i].mask);
            if (std::isnan(value) || result.fits(value))
                left_.push_back({i, std::size_t(!std::isnan(value)), 0});
        }
    }

    /// Zeros stand in many places, and say as little as a term that is left out.
    bool tells(const TermAddress& address, const Agreement& one) {
        const auto telling = std::ranges::count_if(question_.results, [&](const TermResult& result) {
            return reads_something(question_, memories_of(address.padding), result, address,
                                   conditions_[one.condition].mask);
        });
        return std::size_t(telling) * 2 >= question_.results.size();
    }

    const std::vector<TileMemory>& memories_of(std::int64_t padding) {
        std::vector<TileMemory>& padded = memories_[padding];
        if (padded.empty())
            for (const TileMemory& memory : question_.memories) padded.push_back(memory.padded(padding));
        return padded;
    }

    const TermQuestion& question_;
    std::vector<TermCondition> conditions_;
    std::vector<std::size_t> order_;
    std::vector<std::vector<double>> right_;  ///< terms of each result where they should be
    std::map<std::int64_t, std::vector<TileMemory>> memories_;
    // Of one address, kept from one to the next for their memory.
    ReadTerms terms_;
    std::vector<Agreement> left_;
};

}  // namespace

TileMemory TileMemory::padded(std::int64_t padding) const {
    if (padding == 0) return *this;
    TileMemory result{{}, cols + padding};
    for (std::size_t first = 0; first < values.size(); first += std::size_t(cols)) {
        const auto row = values.begin() + std::ptrdiff_t(first);
        result.values.insert(result.values.end(), row, row + cols);
        result.values.insert(result.values.end(), std::size_t(padding),
                             std::numeric_limits<double>::quiet_NaN());
    }
    return result;
}

std::size_t TermQuestion::terms() const {
    return std::size_t(std::ranges::find(ranges, term, &CoordinateRange::coordinate)->length);
}

std::vector<TermRead> find_term_reads(const TermQuestion& question, std::size_t most) {
    std::vector<TermRead> found;
    TermSearch search(question);
    for (TermAddress address : other_term_addresses(question.ranges, question.strides)) {
        const bool has_own_rows = address.stays_in_rows(question.ranges);
        for (const std::int64_t padding : question.paddings) {
            address.padding = padding;
            // What is no other stride.
            if (address.stride.at(question.results.front().place) == question.memories.front().cols + padding)
                continue;
            search.try_address(address, found);
            if (has_own_rows) break;
        }
    }
    std::ranges::stable_sort(found, {}, &TermRead::choices);
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace tilescope
