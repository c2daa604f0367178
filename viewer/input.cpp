#include "viewer/input.h"

#include <GLFW/glfw3.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace tilescope::viewer {

namespace {

struct NamedKey {
    std::string_view name;
    KeyChord chord;
};

/// Names of keys other than letters and digits. The first name of a chord is the one that is shown.
constexpr std::array named_keys = {
    NamedKey{"?", {GLFW_KEY_SLASH, true}},   NamedKey{"+", {GLFW_KEY_EQUAL, true}},
    NamedKey{"=", {GLFW_KEY_EQUAL}},         NamedKey{"-", {GLFW_KEY_MINUS}},
    NamedKey{"/", {GLFW_KEY_SLASH}},         NamedKey{",", {GLFW_KEY_COMMA}},
    NamedKey{".", {GLFW_KEY_PERIOD}},        NamedKey{"[", {GLFW_KEY_LEFT_BRACKET}},
    NamedKey{"]", {GLFW_KEY_RIGHT_BRACKET}}, NamedKey{"Space", {GLFW_KEY_SPACE}},
    NamedKey{"Tab", {GLFW_KEY_TAB}},         NamedKey{"Enter", {GLFW_KEY_ENTER}},
    NamedKey{"Escape", {GLFW_KEY_ESCAPE}},   NamedKey{"Backspace", {GLFW_KEY_BACKSPACE}},
    NamedKey{"Left", {GLFW_KEY_LEFT}},       NamedKey{"Right", {GLFW_KEY_RIGHT}},
    NamedKey{"Up", {GLFW_KEY_UP}},           NamedKey{"Down", {GLFW_KEY_DOWN}},
    NamedKey{"Home", {GLFW_KEY_HOME}},       NamedKey{"End", {GLFW_KEY_END}},
    NamedKey{"PageUp", {GLFW_KEY_PAGE_UP}},  NamedKey{"PageDown", {GLFW_KEY_PAGE_DOWN}},
    NamedKey{"F1", {GLFW_KEY_F1}},           NamedKey{"F5", {GLFW_KEY_F5}},
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
    text.remove_prefix(prefix.size());
    return true;
}

}  // namespace

std::optional<KeyChord> chord_from_name(std::string_view name) {
    KeyChord chord;
    for (bool more = true; more;) {
        more = false;
        if (take_prefix(name, "Shift+")) more = chord.shift = true;
        if (take_prefix(name, "Ctrl+")) more = chord.control = true;
    }
    const auto* named = std::ranges::find(named_keys, name, &NamedKey::name);
    if (named != named_keys.end()) {
        chord.key = named->chord.key;
        chord.shift |= named->chord.shift;
        return chord;
    }
    if (name.size() != 1 || std::isalnum(static_cast<unsigned char>(name[0])) == 0) return std::nullopt;
    // GLFW numbers letters and digits as ASCII does.
    chord.key = std::toupper(static_cast<unsigned char>(name[0]));
    return chord;
}

std::string name_of(const KeyChord& chord) {
    const auto key_is = [&](const NamedKey& named) { return named.chord.key == chord.key; };
    const auto exact = [&](const NamedKey& named) {
        return key_is(named) && named.chord.shift == chord.shift && chord.shift;
    };
    std::string text = chord.control ? "Ctrl+" : "";
    const auto* shifted = std::ranges::find_if(named_keys, exact);
    if (shifted != named_keys.end()) return text + std::string(shifted->name);
    if (chord.shift) text += "Shift+";
    const auto plain = [&](const NamedKey& named) { return key_is(named) && !named.chord.shift; };
    const auto* named = std::ranges::find_if(named_keys, plain);
    return named != named_keys.end() ? text + std::string(named->name) : text + static_cast<char>(chord.key);
}

}  // namespace tilescope::viewer
