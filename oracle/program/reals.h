#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>

namespace tilescope {

/// A vector of float64 whose memory the thread uses again: what one tile needs the next one needs, too, and pages that are given
/// back come anew, full of zeros.
class Reals {
 public:
    using value_type = double;

    Reals() = default;
    explicit Reals(std::size_t size, double number = 0) { resize(size, number); }
    Reals(std::initializer_list<double> numbers) { assign(numbers.begin(), numbers.end()); }
    Reals(const Reals& other) { assign(other.begin(), other.end()); }
    Reals(Reals&& other) noexcept { swap(other); }
    Reals& operator=(const Reals& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    Reals& operator=(Reals&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Reals();

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    double* data() { return first_; }
    const double* data() const { return first_; }
    double* begin() { return first_; }
    double* end() { return first_ + size_; }
    const double* begin() const { return first_; }
    const double* end() const { return first_ + size_; }
    double& operator[](std::size_t i) { return first_[i]; }
    const double& operator[](std::size_t i) const { return first_[i]; }
    double& front() { return *first_; }
    const double& front() const { return *first_; }
    double& back() { return first_[size_ - 1]; }
    const double& back() const { return first_[size_ - 1]; }

    void resize(std::size_t size, double number = 0);
    /// Of any numbers.
    void make_room(std::size_t size);
    void assign(std::size_t size, double number);
    void assign(const double* first, const double* end);
    void push_back(double number) {
        make_room(size_ + 1);
        back() = number;
    }
    void clear() { size_ = 0; }
    /// Gives the memory back.
    void forget() { Reals().swap(*this); }
    void swap(Reals& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    friend bool operator==(const Reals& x, const Reals& y);

 private:
    double* first_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// Gives back what this thread keeps to use it again.
void release_kept_memory();

}  // namespace tilescope
