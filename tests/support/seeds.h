#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace tilescope::test {

/// How many of `all` random seeds a test tries, in their order: a fifth, or all where TILESCOPE_ALL_SEEDS=1
/// says so, as in ./dev test --all. A seed does the same in both: what fails there is repeated with that
/// variable.
inline std::uint64_t tried_seeds(std::uint64_t all) {
    const char* asked = std::getenv("TILESCOPE_ALL_SEEDS");
    return asked != nullptr && std::string_view(asked) == "1" ? all : (all + 4) / 5;
}

}  // namespace tilescope::test
