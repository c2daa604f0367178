#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L
#include <span>
#endif

namespace tilescope {

/// Neighbouring elements in memory of somebody else: what std::span is to C++20, and converts to and from it. The
/// public headers are read as C++17 too, and have to name the same type in both.
template <class T>
class Span {
 public:
    constexpr Span() = default;
    constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
    template <std::size_t size>
    constexpr Span(T (&array)[size]) : data_(array), size_(size) {}
    /// Of whatever has data() and size(): a vector, an array, a span.
    template <class Range, class Element = std::remove_pointer_t<decltype(std::declval<Range&>().data())>,
              class = std::enable_if_t<std::is_convertible_v<Element (*)[], T (*)[]>>,
              class = decltype(std::declval<Range&>().size())>
    constexpr Span(Range&& range) : data_(range.data()), size_(range.size()) {}

    constexpr T* data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr T* begin() const { return data_; }
    constexpr T* end() const { return data_ + size_; }
    constexpr T& operator[](std::size_t i) const { return data_[i]; }
    constexpr T& front() const { return data_[0]; }
    constexpr T& back() const { return data_[size_ - 1]; }
    constexpr Span first(std::size_t count) const { return {data_, count}; }
    constexpr Span subspan(std::size_t offset) const { return {data_ + offset, size_ - offset}; }
    constexpr Span subspan(std::size_t offset, std::size_t count) const { return {data_ + offset, count}; }

 private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace tilescope

#if __cplusplus >= 202002L
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<tilescope::Span<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_view<tilescope::Span<T>> = true;
#endif
