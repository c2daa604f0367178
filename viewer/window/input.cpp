#include "viewer/window/input.h"

#include <GLFW/glfw3.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace tilescope::viewer {

namespace {

struct NamedKey {
    std::string_view name;
    int key;
};

/// Names of keys that type no character. The first name of a key is the one that is shown.
constexpr std::array named_keys = {
    NamedKey{"Space", GLFW_KEY_SPACE},
    NamedKey{"Tab", GLFW_KEY_TAB},
    NamedKey{"Enter", GLFW_KEY_ENTER},
    NamedKey{"Escape", GLFW_KEY_ESCAPE},
    NamedKey{"Left", GLFW_KEY_LEFT},
    NamedKey{"Right", GLFW_KEY_RIGHT},
    NamedKey{"Up", GLFW_KEY_UP},
    NamedKey{"Down", GLFW_KEY_DOWN},
    NamedKey{"Home", GLFW_KEY_HOME},
    NamedKey{"End", GLFW_KEY_END},
    NamedKey{"PageUp", GLFW_KEY_PAGE_UP},
    NamedKey{"PageDown", GLFW_KEY_PAGE_DOWN},
    NamedKey{"F1", GLFW_KEY_F1},
    NamedKey{"F5", GLFW_KEY_F5},
    NamedKey{"Backspace", GLFW_KEY_BACKSPACE},
};

struct KeypadKey {
    int place;
    int key;
};
/// Without NumLock.
constexpr std::array keypad_keys = {
    KeypadKey{GLFW_KEY_KP_2, GLFW_KEY_DOWN},    KeypadKey{GLFW_KEY_KP_4, GLFW_KEY_LEFT},
    KeypadKey{GLFW_KEY_KP_6, GLFW_KEY_RIGHT},   KeypadKey{GLFW_KEY_KP_8, GLFW_KEY_UP},
    KeypadKey{GLFW_KEY_KP_7, GLFW_KEY_HOME},    KeypadKey{GLFW_KEY_KP_1, GLFW_KEY_END},
    KeypadKey{GLFW_KEY_KP_9, GLFW_KEY_PAGE_UP}, KeypadKey{GLFW_KEY_KP_3, GLFW_KEY_PAGE_DOWN},
};

constexpr std::string_view punctuation = "?+=-/,.[]";

struct ShiftedCharacter {
    int place;
    char character;
};
/// Of a US keyboard, those that commands have.
constexpr std::array shifted_characters = {
    ShiftedCharacter{GLFW_KEY_SLASH, '?'},
    ShiftedCharacter{GLFW_KEY_EQUAL, '+'},
};

bool is_letter(int code) {
    return (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
}
bool is_digit(int code) {
    return code >= '0' && code <= '9';
}
bool is_ascii(std::string_view text) {
    return text.size() == 1 && static_cast<unsigned char>(text[0]) < 128;
}
/// GLFW numbers the keys of characters as ASCII does.
bool is_place_of_character(int place) {
    return place > GLFW_KEY_SPACE && place < 128;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
    text.remove_prefix(prefix.size());
    return true;
}

}  // namespace

std::optional<int> key_of(const PhysicalKey& key) {
    if (key.place == GLFW_KEY_KP_ENTER) return GLFW_KEY_ENTER;
    const auto* keypad = std::ranges::find(keypad_keys, key.place, &KeypadKey::place);
    if (!key.num_lock && keypad != keypad_keys.end()) return keypad->key;
    if (!is_place_of_character(key.place)) return key.place;
    if (is_ascii(key.types) && is_letter(key.types[0]))
        return std::toupper(static_cast<unsigned char>(key.types[0]));
    if (is_letter(key.place) && key.latin_layout) return std::nullopt;
    return key.place;
}

std::optional<char> character_of(const PhysicalKey& key, bool shift) {
    const bool foreign = !key.latin_layout && !is_ascii(key.types);
    if (!foreign || !is_place_of_character(key.place) || is_letter(key.place)) return std::nullopt;
    if (!shift) return static_cast<char>(key.place);
    const auto* shifted = std::ranges::find(shifted_characters, key.place, &ShiftedCharacter::place);
    return shifted == shifted_characters.end() ? std::nullopt : std::optional(shifted->character);
}

bool KeyChord::is_character() const {
    return is_digit(key) || (key < 128 && punctuation.find(static_cast<char>(key)) != std::string_view::npos);
}

std::optional<KeyChord> chord_from_name(std::string_view name) {
    KeyChord chord;
    for (bool more = true; more;) {
        more = false;
        if (take_prefix(name, "Shift+")) more = chord.shift = true;
        if (take_prefix(name, "Ctrl+")) more = chord.control = true;
    }
    const auto* named = std::ranges::find(named_keys, name, &NamedKey::name);
    if (named != named_keys.end()) {
        chord.key = named->key;
        return chord;
    }
    if (name.size() != 1) return std::nullopt;
    chord.key = std::toupper(static_cast<unsigned char>(name[0]));
    return is_letter(chord.key) || chord.is_character() ? std::optional(chord) : std::nullopt;
}

std::string name_of(const KeyChord& chord) {
    const std::string modifiers =
        std::string(chord.control ? "Ctrl+" : "") + std::string(chord.shift ? "Shift+" : "");
    const auto* named = std::ranges::find(named_keys, chord.key, &NamedKey::key);
    return modifiers + (named != named_keys.end() ? std::string(named->name)
                                                  : std::string(1, static_cast<char>(chord.key)));
}

std::string lower_case(std::string_view text) {
    std::string small(text);
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return small;
}

}  // namespace tilescope::viewer
