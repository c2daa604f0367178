#include "viewer/input.h"

#include <GLFW/glfw3.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "viewer/commands.h"

namespace tilescope::viewer {
namespace {

TEST(KeyNames, AreReadAsGlfwNumbersThem) {
    EXPECT_EQ(chord_from_name("N"), (KeyChord{GLFW_KEY_N, false, false}));
    EXPECT_EQ(chord_from_name("n"), (KeyChord{GLFW_KEY_N, false, false}));
    EXPECT_EQ(chord_from_name("Shift+N"), (KeyChord{GLFW_KEY_N, true, false}));
    EXPECT_EQ(chord_from_name("Ctrl+C"), (KeyChord{GLFW_KEY_C, false, true}));
    EXPECT_EQ(chord_from_name("Ctrl+Shift+Left"), (KeyChord{GLFW_KEY_LEFT, true, true}));
    EXPECT_EQ(chord_from_name("?"), (KeyChord{GLFW_KEY_SLASH, true, false}));
    EXPECT_EQ(chord_from_name("+"), (KeyChord{GLFW_KEY_EQUAL, true, false}));
    EXPECT_EQ(chord_from_name("7"), (KeyChord{GLFW_KEY_7, false, false}));
}

TEST(KeyNames, RefuseOtherTexts) {
    for (const char* text : {"", "Shift+", "NN", "F99", "Ctrl", "%"})
        EXPECT_FALSE(chord_from_name(text)) << text;
}

TEST(Commands, HaveKeysThatAreReadAndDiffer) {
    std::map<std::string, std::string> seen;
    for (const Command& command : all_commands()) {
        const auto chord = chord_from_name(command.key);
        ASSERT_TRUE(chord) << command.key;
        EXPECT_EQ(chord_from_name(name_of(*chord)), chord) << command.key;
        EXPECT_TRUE(seen.emplace(name_of(*chord), command.help).second) << command.key << " does two things";
    }
}

}  // namespace
}  // namespace tilescope::viewer
