// What a terminal may show of text from outside. Expected values: Unicode 15.0, tables 3-7 and 3-8, and the
// names of its code points.

#include "dump/schema/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "dump/schema/error.h"

namespace tilescope::test {
namespace {

/// One code point as UTF-8, by the definition in RFC 3629.
std::string utf8(std::uint32_t value) {
    if (value < 0x80) return {char(value)};
    if (value < 0x800) return {char(0xc0 | value >> 6), char(0x80 | (value & 0x3f))};
    if (value < 0x10000)
        return {char(0xe0 | value >> 12), char(0x80 | (value >> 6 & 0x3f)), char(0x80 | (value & 0x3f))};
    return {char(0xf0 | value >> 18), char(0x80 | (value >> 12 & 0x3f)), char(0x80 | (value >> 6 & 0x3f)),
            char(0x80 | (value & 0x3f))};
}

TEST(Text, KeepsWhatIsSeen) {
    for (const char* text : {"", "run.h5", "kernel µ, Größe 3 × 4", "内核", "ядро", "😀", "é"})
        EXPECT_EQ(one_line(text), text);
}

TEST(Text, ShowsNoControlCharacter) {
    for (std::uint32_t value = 0; value < 0x20; ++value) EXPECT_EQ(one_line("a" + utf8(value) + "b"), "a?b");
    for (std::uint32_t value = 0x7f; value < 0xa0; ++value)
        EXPECT_EQ(one_line("a" + utf8(value) + "b"), "a?b");
    EXPECT_EQ(one_line("\x1b[31mred\x1b[0m"), "?[31mred?[0m");
    EXPECT_EQ(one_line("\u009b31mred"), "?31mred");
}

TEST(Text, ChangesNoDirectionAndNoLine) {
    for (const std::uint32_t value :
         {0x61cu, 0x200eu, 0x200fu, 0x2028u, 0x2029u, 0x202au, 0x202bu, 0x202cu, 0x202du, 0x202eu, 0x2066u,
          0x2067u, 0x2068u, 0x2069u, 0x200bu, 0xfeffu, 0xe0041u})
        EXPECT_EQ(one_line("a" + utf8(value) + "b"), "a?b") << value;
}

TEST(Text, ShowsNoByteThatIsNotUtf8) {
    EXPECT_EQ(one_line("a\x9b"
                       "31m"),
              "a?31m");
    EXPECT_EQ(one_line("\xff\xfe"), "??");
    EXPECT_EQ(one_line("\xc0\x8a"), "??");            // a line end in two bytes
    EXPECT_EQ(one_line("\xe0\x80\x9b"), "???");       // ESC in three
    EXPECT_EQ(one_line("\xed\xa0\x80"), "???");       // a surrogate
    EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "????");  // behind the last code point
    EXPECT_EQ(one_line("\xe2\x80"), "??");            // cut
    EXPECT_EQ(one_line("\xe2\x80"
                       "x\xf0\x9f\x98"),
              "??x???");
    // Table 3-8.
    EXPECT_EQ(one_line("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"), "a??????b?c??d");
}

TEST(Text, IsValidWhateverCameIn) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int i = 0; i < 2000; ++i) {
        std::string text;
        for (int byte = 0; byte < 24; ++byte)
            text.push_back(char(random() % 3 == 0 ? random() % 0x80 : random() % 0x100));
        const std::string line = one_line(text);
        EXPECT_EQ(one_line(line), line);
        for (const unsigned char c : line) EXPECT_TRUE(c >= 0x20 && c != 0x7f);
    }
}

TEST(Text, KeepsLinesWhereTheyAreWanted) {
    EXPECT_EQ(readable("a\nb\r\n\tc\u2028"), "a\nb?\n?c?");
    EXPECT_EQ(one_line("a\nb"), "a?b");
}

TEST(Text, IsCutBetweenCharacters) {
    EXPECT_EQ(shortened("abcdef", 6), "abcdef");
    EXPECT_EQ(shortened("abcdefg", 6), "abcdef...");
    EXPECT_EQ(shortened("abcde\u00b5", 6), "abcde...");
}

TEST(Text, OfAnErrorIsOneLine) {
    EXPECT_STREQ(Error("is bad\n\x9b", "a\x1b.h5", "record\u202e it").what(), "a?.h5: is bad??; record? it");
    EXPECT_STREQ(Error(std::string("one\ntwo")).what(), "one?two");
}

TEST(Text, OfAnErrorSaysWhatToDoHoweverMuchItQuotes) {
    const std::string much(60000, 'a');
    const std::string line = Error("is " + much, much, "record it again").what();
    EXPECT_LT(line.size(), std::size_t(4096));
    EXPECT_TRUE(line.ends_with("...; record it again")) << line;
}

}  // namespace
}  // namespace tilescope::test
