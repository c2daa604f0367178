#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace tilescope::test {

using Random = std::mt19937_64;

template <class T>
T pick(Random& random, std::initializer_list<T> choices) {
    return *(choices.begin() + random() % choices.size());
}

inline std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
    return least + std::int64_t(random() % std::uint64_t(most - least + 1));
}

inline double normal(Random& random) {
    return std::normal_distribution<double>()(random);
}

inline bool one_in(Random& random, int n) {
    return random() % std::uint64_t(n) == 0;
}

}  // namespace tilescope::test
