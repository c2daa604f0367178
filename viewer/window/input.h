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
    int code = 0;       ///< number of the key, as key_of() has it, or of the button; character: code point
    bool down = false;  ///< of a key or button
    bool repeated = false;  ///< of a character whose key is held
    bool is_text = true;    ///< of a character; false: only commands see it
    double x = 0;           ///< cursor, in the window's units; scroll
    double y = 0;
    std::string path;  ///< of a dropped file
};

/// A key of a keyboard, and what the user's layout types with it alone.
struct PhysicalKey {
    int place = 0;             ///< GLFW's number: where the key is on a US keyboard
    std::string_view types;    ///< UTF-8; "" for nothing, as of a dead key
    bool latin_layout = true;  ///< the layout types Latin letters
    bool num_lock = true;      ///< the keypad types digits
};
/// The key that is meant, as GLFW numbers it: a letter is the key that types it, wherever it is. Where a
/// layout types no Latin letters, keys are those of a US keyboard. The keypad's are those that they stand for. nullopt for a letter that no command has.
std::optional<int> key_of(const PhysicalKey& key);
/// The character of a US keyboard that stands for one which a layout without Latin letters does not type.
std::optional<char> character_of(const PhysicalKey& key, bool shift);

/// A character that was typed, for commands.
struct TypedCharacter {
    int code = 0;
    bool repeated = false;  ///< its key is held
};

/// What runs a command. Letters and keys without a character: the key, and the modifiers that are held with
/// it. Digits and punctuation: the character, whatever is held to type it.
struct KeyChord {
    int key = 0;  ///< GLFW's number of the key; its character
    bool shift = false;
    bool control = false;
    bool operator==(const KeyChord&) const = default;

    bool is_character() const;
};

/// Of "N", "Shift+N", "Ctrl+C", "Left", "F1", "?"; nullopt for another text.
std::optional<KeyChord> chord_from_name(std::string_view name);

/// The shortest name that chord_from_name() reads back.
std::string name_of(const KeyChord& chord);

/// With the letters of ASCII in lower case, to find what is typed whatever its case.
std::string lower_case(std::string_view text);

}  // namespace tilescope::viewer
