#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tilescope::viewer {

struct App;

/// How far the evidence was shown.
struct ShowMe {
    std::optional<std::size_t> step;  ///< of those that a recording has
    std::uint64_t generation = 0;     ///< of the document that it is of
};

/// The next step of the evidence: where it diverges first, what the chosen cause would leave there and what not, since when, and the
/// command that says the same. After the last the first again.
void show_next_step(App& app);

}  // namespace tilescope::viewer
