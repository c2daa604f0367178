#pragma once

#include <cstdint>
#include <vector>

namespace tilescope {

/// An array with an index from values to addresses. NaN is found nowhere.
class ValueIndex {
 public:
    explicit ValueIndex(std::vector<double> values);

    /// Values repeat in narrow types.
    static constexpr std::int64_t most_sources = 48;

    /// Addresses of values within `tolerance`, relative to `from`, ascending: the nearest, where there are more than `most`.
    std::vector<std::int64_t> sources(double value, double tolerance, std::int64_t from,
                                      std::int64_t most = most_sources) const;

    bool has(std::int64_t address) const { return address >= 0 && address < std::ssize(values_); }
    double at(std::int64_t address) const { return values_[std::size_t(address)]; }

 private:
    std::vector<double> values_;
    std::vector<std::int32_t> order_;
};

}  // namespace tilescope
