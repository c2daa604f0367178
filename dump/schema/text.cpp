#include "dump/schema/text.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tilescope {

namespace {

struct CodePoints {
    char32_t first;
    char32_t last;
};

/// Code points that no terminal shows. Source: Unicode 15.0, general categories Cc, Cf, Zl and Zp; those of
/// Cf that stand in front of what is seen, as in Arabic numbers, are left out.
constexpr std::array<CodePoints, 11> unseen = {{{0x00, 0x1f},          // C0
                                                {0x7f, 0x9f},          // delete and C1
                                                {0xad, 0xad},          // soft hyphen
                                                {0x61c, 0x61c},        // Arabic letter mark
                                                {0x180e, 0x180e},      // Mongolian vowel separator
                                                {0x200b, 0x200f},      // zero width, direction marks
                                                {0x2028, 0x202e},      // line ends, direction
                                                {0x2060, 0x206f},      // joiners, direction isolates
                                                {0xfeff, 0xfeff},      // byte order mark
                                                {0xfff9, 0xfffb},      // annotations
                                                {0xe0000, 0xe0fff}}};  // tags

/// Well-formed sequences by their first byte. Source: Unicode 15.0, table 3-7.
struct Sequence {
    unsigned char first;
    unsigned char last;
    std::size_t bytes;
    unsigned char least;  ///< of the second byte
    unsigned char most;
};
constexpr std::array<Sequence, 9> sequences = {{{0x00, 0x7f, 1, 0, 0},
                                                {0xc2, 0xdf, 2, 0x80, 0xbf},
                                                {0xe0, 0xe0, 3, 0xa0, 0xbf},
                                                {0xe1, 0xec, 3, 0x80, 0xbf},
                                                {0xed, 0xed, 3, 0x80, 0x9f},
                                                {0xee, 0xef, 3, 0x80, 0xbf},
                                                {0xf0, 0xf0, 4, 0x90, 0xbf},
                                                {0xf1, 0xf3, 4, 0x80, 0xbf},
                                                {0xf4, 0xf4, 4, 0x80, 0x8f}}};

/// Bytes of the code point that the text begins with; 0 where it is not UTF-8.
std::size_t length_of_first(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto sequence = std::ranges::find_if(
        sequences, [&](const Sequence& known) { return byte(0) >= known.first && byte(0) <= known.last; });
    if (sequence == sequences.end() || text.size() < sequence->bytes) return 0;
    for (std::size_t i = 1; i < sequence->bytes; ++i) {
        const unsigned char least = i == 1 ? sequence->least : 0x80;
        const unsigned char most = i == 1 ? sequence->most : 0xbf;
        if (byte(i) < least || byte(i) > most) return 0;
    }
    return sequence->bytes;
}

/// Of a well-formed sequence.
char32_t code_point(std::string_view bytes) {
    constexpr std::array<unsigned, 5> first_bits = {0, 0x7f, 0x1f, 0x0f, 0x07};
    char32_t value = static_cast<unsigned char>(bytes[0]) & first_bits[bytes.size()];
    for (const char byte : bytes.substr(1)) value = value << 6 | (static_cast<unsigned char>(byte) & 0x3f);
    return value;
}

bool is_seen(char32_t value) {
    return std::ranges::none_of(
        unseen, [&](const CodePoints& range) { return value >= range.first && value <= range.last; });
}

std::string shown(std::string_view text, std::size_t longest, bool keep_lines) {
    std::string result;
    while (!text.empty()) {
        const std::size_t length = length_of_first(text);
        const std::string_view first = text.substr(0, std::max<std::size_t>(length, 1));
        if (result.size() + first.size() > longest) return result + "...";
        const bool keep = (keep_lines && first == "\n") || (length > 0 && is_seen(code_point(first)));
        result += keep ? first : "?";
        text.remove_prefix(first.size());
    }
    return result;
}

}  // namespace

std::string readable(std::string_view text, std::size_t longest) {
    return shown(text, longest, true);
}

std::string one_line(std::string_view text) {
    return shown(text, std::string::npos, false);
}

std::string shortened(std::string_view text, std::size_t longest) {
    return shown(text, longest, false);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> pieces;
    for (;;) {
        const std::size_t end = text.find(separator);
        pieces.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return pieces;
        text.remove_prefix(end + 1);
    }
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += between;
        text += words[i];
    }
    return text;
}

}  // namespace tilescope
