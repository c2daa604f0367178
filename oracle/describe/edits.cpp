#include "oracle/describe/edits.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace tilescope {

namespace {

/// A move may lead beyond the last one, and others out of a short range, to other heads and batch entries.
constexpr std::int64_t moves_at_least = 32;
constexpr std::int64_t beyond = 8;

/// Those that change something in a range, each otherwise than those before it. Of long ranges the first numbers tell that, and
/// those around powers of two, where bits are exchanged.
class Changing {
 public:
    explicit Changing(const CoordinateRange& own) : own_(own) {
        constexpr std::int64_t first = 256;
        for (std::int64_t x = 0; x < std::min(own.length, first); ++x) asked_.push_back(x);
        for (std::int64_t x = first; x < own.length; x *= 2)
            asked_.insert(asked_.end(), {x, x + x / 2, 2 * x - 1});
        while (!asked_.empty() && asked_.back() >= own.length) asked_.pop_back();
        known_.insert(asked_);
    }

    void add(Expr expr) {
        std::vector<std::int64_t> numbers;
        numbers.reserve(asked_.size());
        for (const std::int64_t x : asked_) numbers.push_back(expr.at(own_.coordinate, x));
        if (known_.insert(std::move(numbers)).second) exprs_.push_back(std::move(expr));
    }
    std::vector<Expr> take() { return std::move(exprs_); }

 private:
    const CoordinateRange& own_;
    std::vector<std::int64_t> asked_;
    std::set<std::vector<std::int64_t>> known_;  ///< what was asked, and what became of it
    std::vector<Expr> exprs_;
};

void add_parts_of(const Expr& x, std::int64_t n, Changing& edits) {
    edits.add(x % n);
    edits.add(Expr::changed(Op::multiple, x, n));
    edits.add(x / n);
    if (!std::has_single_bit(std::uint64_t(n))) return;
    edits.add(Expr::changed(Op::reversed, x, n));
    if (n <= 32)
        for (std::int64_t odd = 3; odd < n; odd += 2) edits.add(Expr::changed(Op::permuted, x, n, odd));
}

void add_exchanged_bits(const Expr& x, std::int64_t length, Changing& edits) {
    constexpr int bits_at_least = 6;
    const int bits = std::max(bits_at_least, int(std::bit_width(std::uint64_t(length - 1))));
    for (int low = 0; low < bits; ++low)
        for (int high = low + 1; high < bits; ++high)
            edits.add(Expr::changed(Op::exchanged_bits, x, low, high));
}

/// The number with bits of another one, as in a swizzle, and with multiples of it.
void add_mixed(const Expr& x, const Expr& other, std::vector<Expr>& edits) {
    for (const std::int64_t n : {2, 4, 8})
        for (const std::int64_t k : {1, 2, 4, 8, 16})
            edits.push_back(x ^ (k == 1 ? other % n : other % n * k));
    for (const std::int64_t n : {2, 4, 8, 15}) edits.push_back(x ^ (other & n));
    for (const std::int64_t k : {1, 2, 4, 8}) {
        const Expr by = k == 1 ? other : other * k;
        edits.push_back(x + by);
        edits.push_back(x - by);
    }
}

}  // namespace

std::vector<Expr> edits_of(const CoordinateRange& own, std::int64_t most) {
    const Expr x = own.coordinate;
    Changing edits(own);
    const std::int64_t numbers = std::min(std::int64_t(std::bit_ceil(std::uint64_t(own.length))), most);
    for (std::int64_t n = 1; n <= std::max(numbers, moves_at_least); ++n)
        for (const std::int64_t by : {n, -n}) edits.add(moved_by(x, by));
    edits.add(0);
    edits.add(Expr(own.length - 1) - x);
    edits.add(Expr(-1) * x);
    for (const std::int64_t n : {2, 3, 4, 5, 8}) edits.add(x * n);
    for (std::int64_t n = 1; n <= std::max(numbers, beyond); ++n) edits.add(x ^ n);
    for (std::int64_t n = 2 * numbers; n < own.length; n *= 2) edits.add(x ^ n);
    for (std::int64_t n = 1; n <= numbers; ++n) {
        edits.add(Expr::of_two(Op::at_most, x, n));
        edits.add(Expr::of_two(Op::at_least, x, n));
    }
    for (std::int64_t n = 2; n <= std::max(numbers, beyond); ++n) add_parts_of(x, n, edits);
    for (std::int64_t n = 1; n < own.length; n *= 2) edits.add((x + n) % own.length);
    add_exchanged_bits(x, own.length, edits);
    return edits.take();
}

std::vector<Expr> edits_with(const CoordinateRange& own, std::span<const CoordinateRange> others,
                             std::int64_t most) {
    std::vector<Expr> edits = edits_of(own, most);
    for (const CoordinateRange& other : others) {
        if (other.coordinate == own.coordinate || other.length < 2) continue;
        edits.emplace_back(other.coordinate);
        add_mixed(own.coordinate, other.coordinate, edits);
    }
    return edits;
}

}  // namespace tilescope
