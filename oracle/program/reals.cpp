#include "oracle/program/reals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <vector>

namespace tilescope {

namespace {

/// Pieces of as many elements as a power of two, in lists by that power; small ones come and go as ever.
constexpr std::size_t least_kept = 512;
constexpr std::size_t most_kept = std::size_t(1) << 24;  ///< elements of a thread: 128 MiB

struct KeptMemory {
    std::array<std::vector<double*>, 64> pieces{};
    std::size_t elements = 0;

    ~KeptMemory() { release(); }
    void release() {
        for (std::vector<double*>& same : pieces) {
            for (double* const piece : same) ::operator delete(piece);
            same = {};
        }
        elements = 0;
    }
};

KeptMemory& kept_memory() {
    thread_local KeptMemory memory;
    return memory;
}

double* take(std::size_t capacity) {
    KeptMemory& memory = kept_memory();
    std::vector<double*>& same = memory.pieces[std::size_t(std::countr_zero(capacity))];
    if (same.empty()) return static_cast<double*>(::operator new(capacity * sizeof(double)));
    double* const piece = same.back();
    same.pop_back();
    memory.elements -= capacity;
    return piece;
}

void give(double* piece, std::size_t capacity) {
    KeptMemory& memory = kept_memory();
    if (capacity < least_kept || memory.elements + capacity > most_kept) return ::operator delete(piece);
    memory.pieces[std::size_t(std::countr_zero(capacity))].push_back(piece);
    memory.elements += capacity;
}

}  // namespace

Reals::~Reals() {
    if (first_ != nullptr) give(first_, capacity_);
}

void Reals::make_room(std::size_t size) {
    if (size > capacity_) {
        Reals larger;
        larger.capacity_ = std::bit_ceil(size);
        larger.first_ = take(larger.capacity_);
        if (size_ > 0) std::memcpy(larger.first_, first_, size_ * sizeof(double));
        larger.size_ = size_;
        swap(larger);
    }
    size_ = size;
}

void Reals::resize(std::size_t size, double number) {
    const std::size_t before = size_;
    make_room(size);
    if (size > before) std::fill(first_ + before, first_ + size, number);
}

void Reals::assign(std::size_t size, double number) {
    clear();
    resize(size, number);
}

void Reals::assign(const double* first, const double* end) {
    clear();
    const auto size = std::size_t(end - first);
    make_room(size);
    if (size > 0) std::memcpy(first_, first, size * sizeof(double));
}

bool operator==(const Reals& x, const Reals& y) {
    return std::ranges::equal(x, y);
}

void release_kept_memory() {
    kept_memory().release();
}

}  // namespace tilescope
