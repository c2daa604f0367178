#pragma once

// Structs as bytes, from one process of a program to another. each_field(io, value) names the fields of a struct once, for
// both ways.

#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tilescope {

class ToBytes {
 public:
    template <class... Fields>
    void operator()(const Fields&... fields) {
        (put(fields), ...);
    }
    std::string take() { return std::move(bytes_); }

 private:
    template <class T>
    void put(const T& value) {
        if constexpr (std::is_trivially_copyable_v<T>) {
            bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        } else {
            each_field(*this, value);
        }
    }
    template <class T>
    void put(const std::optional<T>& value) {
        put(value.has_value());
        if (value) put(*value);
    }
    template <class T>
    void put(const std::vector<T>& values) {
        put(values.size());
        if constexpr (std::is_trivially_copyable_v<T>) {
            bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
        } else {
            for (const T& value : values) put(value);
        }
    }
    template <class T, std::size_t size>
    void put(const std::array<T, size>& values) {
        for (const T& value : values) put(value);
    }
    template <class A, class B>
    void put(const std::pair<A, B>& values) {
        put(values.first);
        put(values.second);
    }
    void put(const std::vector<bool>& values) {
        put(values.size());
        for (const bool value : values) put(value);
    }
    void put(const std::string& text) { put(std::string_view(text)); }
    void put(std::string_view text) {
        put(text.size());
        bytes_ += text;
    }

    std::string bytes_;
};

class FromBytes {
 public:
    explicit FromBytes(std::string_view bytes) : rest_(bytes) {}

    template <class... Fields>
    void operator()(Fields&... fields) {
        (get(fields), ...);
    }
    bool at_end() const { return rest_.empty(); }

 private:
    std::string_view next(std::size_t size) {
        if (size > rest_.size()) throw std::length_error("bytes of another process end early");
        const std::string_view bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return bytes;
    }
    template <class T>
    void get(T& value) {
        if constexpr (std::is_trivially_copyable_v<T>) {
            std::memcpy(static_cast<void*>(&value), next(sizeof value).data(), sizeof value);
        } else {
            each_field(*this, value);
        }
    }
    template <class T>
    void get(std::optional<T>& value) {
        bool is_there = false;
        get(is_there);
        value.reset();
        if (is_there) get(value.emplace());
    }
    template <class T>
    void get(std::vector<T>& values) {
        std::size_t size = 0;
        get(size);
        values.clear();
        if constexpr (std::is_trivially_copyable_v<T>) {
            const std::string_view bytes = next(size * sizeof(T));
            values.resize(size);
            if (size > 0) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
        } else {
            for (std::size_t i = 0; i < size; ++i) get(values.emplace_back());
        }
    }
    template <class T, std::size_t size>
    void get(std::array<T, size>& values) {
        for (T& value : values) get(value);
    }
    template <class A, class B>
    void get(std::pair<A, B>& values) {
        get(values.first);
        get(values.second);
    }
    void get(std::vector<bool>& values) {
        std::size_t size = 0;
        get(size);
        values.assign(size, false);
        for (std::size_t i = 0; i < size; ++i) {
            bool value = false;
            get(value);
            values[i] = value;
        }
    }
    /// Of a name that the program knows; kept for as long as it runs, and once.
    void get(std::string_view& name) {
        static std::mutex mutex;
        static std::set<std::string> names;
        std::string text;
        get(text);
        const std::scoped_lock lock(mutex);
        name = *names.insert(std::move(text)).first;
    }
    void get(std::string& text) {
        std::size_t size = 0;
        get(size);
        text = next(size);
    }

    std::string_view rest_;
};

template <class T>
std::string to_bytes(const T& value) {
    ToBytes to;
    to(value);
    return to.take();
}

template <class T>
T from_bytes(std::string_view bytes) {
    T value;
    FromBytes from(bytes);
    from(value);
    if (!from.at_end()) throw std::length_error("bytes of another process go on");
    return value;
}

}  // namespace tilescope
