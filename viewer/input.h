#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilescope::viewer {

/// What a person does to the window. The window's callbacks and scripts make the same events.
struct InputEvent {
    enum class Type : std::uint8_t { key, character, cursor, button, scroll, drop };
    Type type = Type::cursor;
    int code = 0;       ///< GLFW's number of the key or button, or the character's code point
    bool down = false;  ///< of a key or button
    double x = 0;       ///< cursor, in the window's units; scroll
    double y = 0;
    std::string path;  ///< of a dropped file
};

/// A key and the modifiers that are held with it.
struct KeyChord {
    int key = 0;
    bool shift = false;
    bool control = false;
    bool operator==(const KeyChord&) const = default;
};

/// Of "N", "Shift+N", "Ctrl+C", "Left", "F1", "?"; nullopt for another text.
std::optional<KeyChord> chord_from_name(std::string_view name);

/// The shortest name that chord_from_name() reads back.
std::string name_of(const KeyChord& chord);

}  // namespace tilescope::viewer
