#include "dump/schema/program_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "dump/schema/program_hints.h"

namespace tilescope {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// The longer ones first.
constexpr std::array<std::string_view, 22> signs = {"<=", ">=", "==", "!=", "<", ">", "=", "+",
                                                    "-",  "*",  "/",  "%",  "^", "&", "(", ")",
                                                    "[",  "]",  ",",  ":",  ";", "."};

/// Goes through the text and knows where it is.
class Reader {
 public:
    explicit Reader(std::string_view text) : rest_(text) {}

    ProgramToken next() {
        skip();
        ProgramToken token{.place = place_};
        if (rest_.empty()) return token;
        if (is_letter(rest_.front())) {
            const std::size_t size = count([](char c) { return is_letter(c) || is_digit(c); });
            token.kind = ProgramToken::Kind::word;
            token.text = take(size);
        } else if (is_digit(rest_.front()) || (rest_.size() > 1 && rest_[0] == '.' && is_digit(rest_[1]))) {
            number(token);
        } else {
            const auto* const sign =
                std::ranges::find_if(signs, [&](std::string_view s) { return rest_.starts_with(s); });
            if (sign == signs.end())
                throw program_error(place_,
                                    "'" + shortened(rest_.substr(0, 1)) + "' means nothing in a program",
                                    program_hint(rest_.substr(0, 1), "take it out"));
            token.kind = ProgramToken::Kind::sign;
            token.text = take(sign->size());
        }
        return token;
    }

 private:
    template <class Wanted>
    std::size_t count(const Wanted& wanted) const {
        const auto* const end = std::ranges::find_if_not(rest_, wanted);
        return std::size_t(end - rest_.begin());
    }

    std::string take(std::size_t size) {
        std::string taken(rest_.substr(0, size));
        for (const char c : taken) {
            place_ =
                c == '\n' ? ProgramPlace{place_.line + 1, 1} : ProgramPlace{place_.line, place_.column + 1};
        }
        rest_.remove_prefix(size);
        return taken;
    }

    void skip() {
        while (!rest_.empty()) {
            if (rest_.front() == '#') {
                take(count([](char c) { return c != '\n'; }));
            } else if (const std::size_t blanks =
                           count([](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
                       blanks > 0) {
                take(blanks);
            } else {
                return;
            }
        }
    }

    void number(ProgramToken& token) {
        token.kind = ProgramToken::Kind::number;
        const char* const begin = rest_.data();
        const bool is_hex = rest_.size() > 2 && rest_.starts_with("0x");
        std::uint64_t bits = 0;
        const auto [end, error] = is_hex ? std::from_chars(begin + 2, begin + rest_.size(), bits, 16)
                                         : std::from_chars(begin, begin + rest_.size(), token.number);
        if (error != std::errc{})
            throw program_error(place_,
                                is_hex ? "0x begins no number of 64 bits" : "this number is none of float64",
                                is_hex ? "write hexadecimal digits behind it" : "write a smaller one");
        if (is_hex) token.number = double(bits);
        token.text = take(std::size_t(end - begin));
        token.is_whole = is_hex || std::ranges::all_of(token.text, is_digit);
        if (token.is_whole && token.number > 0x1p53)
            throw program_error(token.place, token.text + " is more than 2^53", "write a smaller number");
        if (!rest_.empty() && is_letter(rest_.front()))
            throw program_error(place_, "a number runs into a word", "separate " + token.text + " from it");
    }

    std::string_view rest_;
    ProgramPlace place_;
};

}  // namespace

std::vector<ProgramToken> program_tokens(std::string_view text) {
    Reader reader(text);
    std::vector<ProgramToken> tokens;
    do tokens.push_back(reader.next());
    while (tokens.back().kind != ProgramToken::Kind::end);
    return tokens;
}

bool begins_statement(const ProgramToken& token) {
    return token.is("axes") || token.is("sizes") || token.is("input") || token.is("stage") ||
           token.is("output");
}

Error program_error(ProgramPlace place, const std::string& what, const std::string& what_to_do) {
    return {what, "line " + std::to_string(place.line) + ", column " + std::to_string(place.column),
            what_to_do};
}

}  // namespace tilescope
