#include "viewer/window/input.h"

#include <GLFW/glfw3.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "viewer/state/commands.h"

namespace tilescope::viewer {
namespace {

TEST(KeyNames, AreReadAsGlfwNumbersThem) {
    EXPECT_EQ(chord_from_name("N"), (KeyChord{GLFW_KEY_N, false, false}));
    EXPECT_EQ(chord_from_name("n"), (KeyChord{GLFW_KEY_N, false, false}));
    EXPECT_EQ(chord_from_name("Shift+N"), (KeyChord{GLFW_KEY_N, true, false}));
    EXPECT_EQ(chord_from_name("Ctrl+C"), (KeyChord{GLFW_KEY_C, false, true}));
    EXPECT_EQ(chord_from_name("Ctrl+Shift+Left"), (KeyChord{GLFW_KEY_LEFT, true, true}));
}

TEST(KeyNames, OfDigitsAndPunctuationAreCharacters) {
    for (const char* name : {"?", "+", "=", "-", "/", ",", ".", "[", "]", "7"}) {
        EXPECT_EQ(chord_from_name(name), (KeyChord{name[0], false, false}));
        EXPECT_TRUE(chord_from_name(name)->is_character()) << name;
    }
    for (const char* name : {"N", "Space", "Left", "F1"}) EXPECT_FALSE(chord_from_name(name)->is_character());
}

TEST(Keys, AreThoseThatTypeTheLetter) {
    // German: z is at the place of Y, and sharp s beside 0. Dvorak: an apostrophe at the place of Q.
    EXPECT_EQ(key_of({GLFW_KEY_Y, "z"}), GLFW_KEY_Z);
    EXPECT_EQ(key_of({GLFW_KEY_SEMICOLON, "s"}), GLFW_KEY_S);
    EXPECT_EQ(key_of({GLFW_KEY_Q, "'"}), std::nullopt);
    EXPECT_EQ(key_of({GLFW_KEY_I, "\u0131"}), std::nullopt);
    EXPECT_EQ(key_of({GLFW_KEY_MINUS, "\u00df"}), GLFW_KEY_MINUS);
    EXPECT_EQ(character_of({GLFW_KEY_MINUS, "\u00df"}, true), std::nullopt);
    EXPECT_EQ(key_of({GLFW_KEY_LEFT, ""}), GLFW_KEY_LEFT);
}

TEST(Keys, KeypadStandsForWhatIsWrittenOnIt) {
    EXPECT_EQ(key_of({.place = GLFW_KEY_KP_ENTER, .types = ""}), GLFW_KEY_ENTER);
    EXPECT_EQ(key_of({.place = GLFW_KEY_KP_4, .types = "", .latin_layout = true, .num_lock = false}),
              GLFW_KEY_LEFT);
    EXPECT_EQ(key_of({.place = GLFW_KEY_KP_9, .types = "", .latin_layout = true, .num_lock = false}),
              GLFW_KEY_PAGE_UP);
    // Its digits are typed, and commands go by them.
    EXPECT_EQ(key_of({.place = GLFW_KEY_KP_4, .types = ""}), GLFW_KEY_KP_4);
}

TEST(Keys, AreThoseOfAUsKeyboardWhereNoLatinLettersAreTyped) {
    EXPECT_EQ(key_of({GLFW_KEY_Z, "\u044f", false}), GLFW_KEY_Z);
    EXPECT_EQ(character_of({GLFW_KEY_Z, "\u044f", false}, false), std::nullopt);
    EXPECT_EQ(character_of({GLFW_KEY_LEFT_BRACKET, "\u0445", false}, false), '[');
    EXPECT_EQ(character_of({GLFW_KEY_LEFT_BRACKET, "\u0445", false}, true), std::nullopt);
    // Arabic: the key of the slash types one of its own question mark.
    EXPECT_EQ(character_of({GLFW_KEY_SLASH, "\u0638", false}, true), '?');
    // What the layout types comes as a character.
    EXPECT_EQ(character_of({GLFW_KEY_SLASH, ".", false}, false), std::nullopt);
}

TEST(KeyNames, RefuseOtherTexts) {
    for (const char* text : {"", "Shift+", "NN", "F99", "Ctrl", "%"})
        EXPECT_FALSE(chord_from_name(text)) << text;
}

TEST(Commands, HaveKeysThatAreReadAndDiffer) {
    // Never on screen together.
    constexpr std::array levels = {Needs::recording, Needs::declared, Needs::run_of_ranks};
    for (const Needs shown : levels) {
        std::map<std::string, std::string> seen;
        for (const Command& command : all_commands()) {
            const bool is_of_another =
                command.needs != shown && std::ranges::count(levels, command.needs) > 0;
            const bool has_elements = shown != Needs::run_of_ranks;
            if (is_of_another || (command.needs == Needs::elements && !has_elements)) continue;
            const auto chord = chord_from_name(command.key);
            ASSERT_TRUE(chord) << command.key;
            EXPECT_EQ(chord_from_name(name_of(*chord)), chord) << command.key;
            EXPECT_TRUE(seen.emplace(name_of(*chord), command.help).second)
                << command.key << " does two things";
        }
    }
}

}  // namespace
}  // namespace tilescope::viewer
