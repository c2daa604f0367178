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

inline bool one_in(Random& random, int n) {
    return random() % std::uint64_t(n) == 0;
}

}  // namespace tilescope::test
