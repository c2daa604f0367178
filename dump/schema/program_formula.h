#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dump/schema/program_tokens.h"

namespace tilescope {

/// Reads formulas: tokens become nodes of the program, whose axes, sizes and arrays have their names by then.
class ProgramFormulaReader {
 public:
    ProgramFormulaReader(Program& program, const std::vector<ProgramToken>& tokens)
        : program_(program), tokens_(tokens) {}

    /// `x where condition else y`, and all that binds more tightly.
    int formula();
    /// Of reals: what a stage holds.
    int real_formula();
    /// Whole numbers: of sizes, axes and numbers.
    int whole_formula(std::string_view of_what);
    /// One or more of them, up to "]".
    std::vector<int> index_list();
    int add(ProgramNode node);

    const ProgramToken& token() const { return tokens_[at_]; }
    std::size_t position() const { return at_; }
    void go_to(std::size_t position) { at_ = position; }
    /// Whether it is this sign or word, which is then passed.
    bool passes(std::string_view sign_or_word);
    void expect(std::string_view sign_or_word, std::string_view where);
    /// A name, which is passed.
    ProgramToken name(std::string_view of_what);

 private:
    int either();
    int both();
    int opposite();
    int comparison();
    int exclusive();
    int masked();
    int sum();
    int product();
    int factor();
    int primary();
    int named(const ProgramToken& word);
    int two_numbers(ProgramOp op, const ProgramToken& word, const std::string& hint);
    int reduction(ProgramOp op, const ProgramToken& word);
    int element(int array, const ProgramToken& word);
    int of_two(ProgramOp op, int left, int right, const ProgramToken& sign);
    bool begins_reduction() const;

    Program& program_;
    const std::vector<ProgramToken>& tokens_;
    std::size_t at_ = 0;
    int depth_ = 0;
    std::vector<int> depths_{};  ///< of the formula that each node ends
};

/// What a name is that the language has for itself: "a function", "a dtype", "a word of the language"; "": none.
std::string_view taken_program_name(std::string_view name);

}  // namespace tilescope
