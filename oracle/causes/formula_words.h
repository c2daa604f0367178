#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/program.h"

namespace tilescope {

// Words of the patterns that name formulas: formula_patterns.h says what each of them is.

/// The word that a text begins with, which is taken off it.
std::string_view next_word(std::string_view& words);
/// All of them; an index of a read is one: "[h block]".
std::vector<std::string_view> words_of(std::string_view text);
bool has_word(std::string_view words, std::string_view word);

/// Of an index that has to be smaller.
bool is_upper(ProgramOp op);
/// Q, K, V and dO, as inputs are called.
bool is_operand_input(std::string_view name);

bool is_word(const Program& program, const ProgramNode& node, std::string_view word);
/// Whether it is one, or anything that it is computed from.
bool takes_word(const Program& program, int number, std::string_view word);
/// A word of what stands in place of what: [index of a read], same<, uncast.
bool is_word_of_both(const Program& program, const Problem& problem, int was_number, int is_number,
                     std::string_view word);
/// A word of all numbers among factors together.
bool is_number_word(const Problem& problem, double p_scale, double number, std::string_view word);

/// Whether an index is whole blocks away: as the program has them, or as many as `block_n`, if that is not 0.
bool is_block_away(const Program& program, int number, std::int64_t block_n);

}  // namespace tilescope
