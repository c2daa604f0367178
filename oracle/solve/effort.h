#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tilescope {

/// Thrown by what has used up its Effort.
struct EffortUsedUp {};

/// What a part of a search does, in units that its loops count: a unit is one product, or a comparison of two numbers. So it
/// is the same on any machine, with any number of threads and under any load.
class Effort {
 public:
    static constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max() / 4;

    explicit Effort(std::int64_t most = unbounded) : most_(most) {}

    /// Errors: EffortUsedUp beyond what it may do.
    void add(std::int64_t units);
    /// The same of what is done already.
    void note(std::int64_t units) { spent_ += units; }
    void use_up() { spent_ = most_; }
    std::int64_t spent() const { return spent_; }
    std::int64_t left() const { return most_ > spent_ ? most_ - spent_ : 0; }

    /// It is one of an array that begins at `first`, and ends as well once those up to it have done more than `together`.
    void comes_after(const Effort* first, std::int64_t most, std::int64_t together);

 private:
    std::atomic<std::int64_t> spent_ = 0;
    std::int64_t most_;
    const Effort* first_ = nullptr;
    std::int64_t together_ = unbounded;
};

/// What this thread does counts as a part of this until the end of the scope.
class Spending {
 public:
    explicit Spending(Effort* on);
    ~Spending();
    Spending(const Spending&) = delete;
    Spending& operator=(const Spending&) = delete;

 private:
    Effort* before_;
};

/// What this thread's work counts as a part of; null: nothing.
Effort* spending_on();

/// Counts them for what this thread works on. Errors: EffortUsedUp.
void spend(std::int64_t units);

}  // namespace tilescope
