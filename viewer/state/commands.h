#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "viewer/window/input.h"

namespace tilescope::viewer {

struct App;

/// What has to be on screen for a command.
enum class Needs : std::uint8_t {
    nothing,
    recording,  ///< of attention
    declared,   ///< a recording of a declared kernel
    elements,   ///< either of these
    run_of_ranks,
    something
};

/// What a key does. The help overlay shows the table, viewer/README.md has it as well; scripts press the
/// keys.
struct Command {
    std::string_view group;
    std::string_view key;   ///< as chord_from_name() reads it
    std::string_view help;  ///< empty: another key of the command before
    Needs needs;
    bool repeats;  ///< while the key is held
    void (*run)(App& app);
};

std::span<const Command> all_commands();
/// Those whose words hold everything that was typed, in the order of the table.
std::vector<const Command*> commands_with(std::string_view typed);
/// So that its numbers can be read.
void zoom_to_element(App& app);

/// Runs the command whose key went down in this frame, or whose character was typed, unless a field takes
/// text.
void run_commands(App& app, std::span<const TypedCharacter> typed);

}  // namespace tilescope::viewer
