#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

thread_local Effort* of_this_thread = nullptr;
thread_local std::int64_t not_yet_added = 0;

/// What a thread adds at once: other threads work beside it, in the same memory.
constexpr std::int64_t least_added = 1 << 12;
/// How often those before it are added up.
constexpr std::int64_t grain = 1 << 20;

/// Adds the rest to what this thread works on.
void add_rest() {
    if (of_this_thread != nullptr) of_this_thread->note(not_yet_added);
    not_yet_added = 0;
}

}  // namespace

void Effort::add(std::int64_t units) {
    const std::int64_t before = spent_.fetch_add(units, std::memory_order_relaxed);
    if (before + units > most_) throw EffortUsedUp();
    if (first_ == nullptr || before / grain == (before + units) / grain) return;
    std::int64_t together = 0;
    for (const Effort* one = first_; one <= this; ++one) together += one->spent();
    if (together > together_) throw EffortUsedUp();
}

void Effort::comes_after(const Effort* first, std::int64_t most, std::int64_t together) {
    first_ = first;
    most_ = most;
    together_ = together;
}

Spending::Spending(Effort* on) : before_(of_this_thread) {
    add_rest();
    of_this_thread = on;
}

Spending::~Spending() {
    add_rest();
    of_this_thread = before_;
}

Effort* spending_on() {
    return of_this_thread;
}

void spend(std::int64_t units) {
    not_yet_added += units;
    if (not_yet_added < least_added) return;
    const std::int64_t added = not_yet_added;
    not_yet_added = 0;
    if (of_this_thread != nullptr) of_this_thread->add(added);
}

}  // namespace tilescope
