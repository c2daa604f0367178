#pragma once

#include <cstdint>
#include <vector>

namespace tilescope {

/// An array with an index from values to addresses. NaN is found nowhere.
class ValueIndex {
 public:
    explicit ValueIndex(std::vector<double> values);

    /// Addresses of values within `tolerance`, relative to `from`, ascending: the nearest, where the value is often.
    std::vector<std::int64_t> sources(double value, double tolerance, std::int64_t from) const;

    bool has(std::int64_t address) const { return address >= 0 && address < std::ssize(values_); }
    double at(std::int64_t address) const { return values_[std::size_t(address)]; }

 private:
    std::vector<double> values_;
    std::vector<std::int32_t> order_;
};

}  // namespace tilescope
