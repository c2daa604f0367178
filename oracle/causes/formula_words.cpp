#include "oracle/causes/formula_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numbers>
#include <ranges>

#include "oracle/program/build.h"
#include "oracle/program/formula_parts.h"

namespace tilescope {

std::string_view next_word(std::string_view& words) {
    const std::size_t begin = std::min(words.find_first_not_of(' '), words.size());
    words.remove_prefix(begin);
    const std::string_view word = words.substr(0, std::min(words.find(' '), words.size()));
    words.remove_prefix(word.size());
    return word;
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    // An index of a read is one word: "[h block]".
    while (!text.empty()) {
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        if (text.starts_with('[')) {
            words.push_back(text.substr(0, text.find(']') + 1));
            text.remove_prefix(words.back().size());
        } else if (const std::string_view word = next_word(text); !word.empty()) {
            words.push_back(word);
        }
    }
    return words;
}

bool has_word(std::string_view words, std::string_view word) {
    while (!words.empty())
        if (next_word(words) == word) return true;
    return false;
}

bool is_operand_input(std::string_view name) {
    return name == "Q" || name == "K" || name == "V" || name == "dO";
}

namespace {

bool is_named(std::string_view name, std::string_view word) {
    if (is_operand_input(name) && name.size() == 1)
        return word.size() == 1 && std::toupper(word[0]) == name[0];
    return word.ends_with('*') ? name.starts_with(word.substr(0, word.size() - 1)) : name == word;
}

/// The rest of an axis by its own block.
bool is_within_block(const Program& program, const ProgramNode& rest) {
    const int of = program.axis_of(rest.of[0]);
    return of >= 0 && program.axes[std::size_t(of)].block >= 0 &&
           are_alike(program, program.axes[std::size_t(of)].block, rest.of[1]);
}

/// Of the bits of a float: all but the last ones, as many as a narrower type lacks.
bool cuts_digits_off(const ProgramNode& kept) {
    constexpr std::uint32_t fewest = 1U << 8;
    const std::uint32_t lost = ~std::uint32_t(kept.number);
    return kept.op == ProgramOp::number && lost + 1 >= fewest && (lost & (lost + 1)) == 0 && lost < 1U << 23;
}

bool is_comparison_word(const Program& program, const ProgramNode& node, std::string_view word) {
    const auto either = [&](const auto& holds) { return holds(node.of[0]) || holds(node.of[1]); };
    const auto takes = [&](std::string_view part) {
        return either([&](int of) { return takes_word(program, of, part); });
    };
    const bool is_of_places = either([&](int of) { return takes_axis(program, of); });
    if (word == "<v") return !is_of_places;
    if (word == "<j") return is_of_places;
    if (word == "<#") return takes("#");
    if (word == "<i") return takes("i") && !takes("#");
    if (word == "<length") return takes("length_kv") || takes("length_q");
    if (word == "<end") return is_of_places && !takes("i");
    return word == "<";
}

}  // namespace

/// Whether an element of an input is read by its number in memory.
static bool takes_by_number(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read) return node.is_flat;
    return std::ranges::any_of(node.of, [&](int of) { return of >= 0 && takes_by_number(program, of); });
}

bool is_word(const Program& program, const ProgramNode& node, std::string_view word) {
    if (word == "?") return true;
    if (word.ends_with('~')) {
        const std::string_view part = word.substr(0, word.size() - 1);
        const auto takes = [&](int of) { return of >= 0 && takes_word(program, of, part); };
        return is_word(program, node, part) || std::ranges::any_of(node.of, takes) ||
               (node.op == ProgramOp::read && std::ranges::any_of(node.list, takes));
    }
    switch (node.op) {
        case ProgramOp::negative:
            return is_word(program, program.node(node.of[0]), word);
        case ProgramOp::times:
        case ProgramOp::quotient:
            // A number beside it is none.
            if (program.node(node.of[1]).op == ProgramOp::number && !node.is_whole)
                return is_word(program, program.node(node.of[0]), word);
            return word == (node.is_whole && node.op == ProgramOp::quotient ? ":" : "product");
        case ProgramOp::number:
            return word == "#" || word == "+#" || word == "constant" || word == "bound" ||
                   (word == "0" && node.number == 0) || (word == "one" && node.number == 1) ||
                   (word == "2" && node.number == 2) || (word == "inf" && std::isinf(node.number));
        case ProgramOp::read:
            if (word == "operand") return is_operand_input(program.array(node.what).name);
            return is_named(program.array(node.what).name, word);
        case ProgramOp::axis:
            return program.axes[std::size_t(node.what)].name == word;
        case ProgramOp::size:
            return program.sizes[std::size_t(node.what)] == word;
        case ProgramOp::call:
            return program_function_name(ProgramFunction(node.what)) == word;
        case ProgramOp::cast:
            return word == "cast";
        case ProgramOp::most:
        case ProgramOp::larger:
            return word == "max";
        case ProgramOp::sum:
            return word == "sum" || (word == "narrow" && (node.accumulation == Accumulation::fma_f16 ||
                                                          node.accumulation == Accumulation::fma_bf16));
        case ProgramOp::minus:
            // From the other end.
            if (node.is_whole) return word == "^" && program.node(node.of[1]).op == ProgramOp::axis;
            return word == "minus";
        case ProgramOp::rest:
            return word == "%" || (word == "%block" && is_within_block(program, node));
        case ProgramOp::masked:
            return word == "cut_off" && cuts_digits_off(program.node(node.of[1]));
        case ProgramOp::exclusive:
            return word == "^";
        case ProgramOp::chosen:
            return word == "+next" && takes_by_number(program, node.of[0]);
        default:
            return is_comparison(node.op) && is_comparison_word(program, node, word);
    }
}

bool takes_word(const Program& program, int number, std::string_view word) {
    const ProgramNode& node = program.node(number);
    const auto takes = [&](int operand) { return operand >= 0 && takes_word(program, operand, word); };
    if (is_word(program, node, word) || std::ranges::any_of(node.of, takes)) return true;
    return node.op == ProgramOp::read && std::ranges::any_of(node.list, takes);
}

bool is_block_away(const Program& program, int number, std::int64_t block_n) {
    const ProgramNode& node = program.node(number);
    const bool is_bounded =
        node.op == ProgramOp::larger || node.op == ProgramOp::smaller || node.op == ProgramOp::rest;
    if (is_bounded) return is_block_away(program, node.of[0], block_n);
    const bool is_moved = node.op == ProgramOp::plus || node.op == ProgramOp::minus;
    if (!is_moved || !node.is_whole) return false;
    const ProgramNode& by = program.node(node.of[1]);
    if (block_n > 0 && by.op == ProgramOp::number && std::fmod(by.number, double(block_n)) == 0) return true;
    return std::ranges::any_of(program.axes, [&](const ProgramAxis& axis) {
        return axis.block >= 0 && are_alike(program, axis.block, node.of[1]);
    });
}

namespace {

/// Indices of an element by its number, ((b R + i) H + h) D + d, the last one first.
std::vector<int> indices_in_number(const Program& program, int number) {
    std::vector<int> indices;
    while (program.node(number).op == ProgramOp::plus &&
           program.node(program.node(number).of[0]).op == ProgramOp::times) {
        indices.push_back(program.node(number).of[1]);
        number = program.node(program.node(number).of[0]).of[0];
    }
    indices.push_back(number);
    return indices;
}

/// Whether the dimensions lie in that order, the innermost first.
bool is_in_order(const Program& program, const ProgramNode& was, const ProgramNode& is,
                 const std::array<std::size_t, 4>& order) {
    const std::vector<int> indices = indices_in_number(program, is.list[0]);
    if (was.list.size() != order.size() || indices.size() != order.size()) return false;
    for (std::size_t i = 0; i < order.size(); ++i)
        if (!are_alike(program, was.list[order[i]], indices[i])) return false;
    return true;
}

/// Whether it is the element's own number but for one that is added, around the end of the array or not, and the
/// innermost index that this moves takes the axis.
bool is_own_number_moved(const Program& program, const ProgramNode& was, const ProgramNode& is,
                         std::string_view axis) {
    int number = is.list[0];
    if (program.node(number).op == ProgramOp::rest) number = program.node(number).of[0];
    const ProgramNode& sum = program.node(number);
    const bool is_moved = (sum.op == ProgramOp::plus || sum.op == ProgramOp::minus) &&
                          program.node(sum.of[1]).op == ProgramOp::number;
    const std::vector<int> indices = indices_in_number(program, is_moved ? sum.of[0] : number);
    return is_moved && takes_word(program, was.list.back(), axis) &&
           std::ranges::equal(was.list | std::views::reverse, indices,
                              [&](int one, int other) { return are_alike(program, one, other); });
}

}  // namespace

bool is_upper(ProgramOp op) {
    return op == ProgramOp::less || op == ProgramOp::at_most;
}

namespace {

/// Whether a formula is that of a stage, in which others may be written out, without its cast.
bool are_uncast(const Program& program, int stage, int formula) {
    const ProgramNode& node = program.node(stage);
    if (are_alike(program, stage, formula)) return true;
    if (node.op == ProgramOp::cast) return are_uncast(program, node.of[0], formula);
    return node.op == ProgramOp::read && program.array(node.what).is_stage &&
           program.array(node.what).over < 0 && are_uncast(program, program.array(node.what).value, formula);
}

}  // namespace

bool is_word_of_both(const Program& program, const Problem& problem, int was_number, int is_number,
                     std::string_view word) {
    const ProgramNode& was = program.node(was_number);
    const ProgramNode& is = program.node(is_number);
    if (word == "same<")
        return is_comparison(was.op) && is_comparison(is.op) && is_upper(was.op) == is_upper(is.op);
    if (word == "uncast") {
        if (was.op == ProgramOp::cast) return are_alike(program, was.of[0], is_number);
        return was.op == ProgramOp::read && program.array(was.what).is_stage &&
               are_uncast(program, program.array(was.what).value, is_number);
    }
    if (was.op != ProgramOp::read || is.op != ProgramOp::read || was.what != is.what || was.is_flat)
        return false;
    if (word == "[]") return true;
    std::string_view how = word.substr(1, word.size() - 2);
    const std::string_view axis = next_word(how);
    const std::string_view by = next_word(how);
    if (axis == "before")
        return is.state == ProgramState::before && was.state != is.state && was.list == is.list;
    if (is.is_flat) {
        if (by == "moved") return is_own_number_moved(program, was, is, axis);
        const bool is_bshd = is_in_order(program, was, is, {3, 1, 2, 0});
        const bool is_transposed = is_in_order(program, was, is, {2, 3, 1, 0});
        return axis == (is_bshd ? "bshd" : is_transposed ? "transposed" : "flat");
    }
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < was.list.size(); ++i)
        if (!are_alike(program, was.list[i], is.list[i])) changed.push_back(i);
    const std::size_t rows = was.list.size() - 2;
    if (axis == "transposed" || axis == "pitch") {
        // Rows and columns of a tile, of which the one takes the other.
        const bool is_of_tile = changed == std::vector<std::size_t>{rows, rows + 1};
        if (!is_of_tile) return false;
        const int row_axis = program.axis_of(was.list[rows]);
        if (row_axis < 0 || !takes_word(program, is.list[rows + 1], program.axes[std::size_t(row_axis)].name))
            return false;
        const ProgramNode& col = program.node(is.list[rows + 1]);
        const ProgramNode& element = program.node(col.of[0] < 0 ? is.list[rows + 1] : col.of[0]);
        const bool is_rowwise = col.op == ProgramOp::rest && element.op == ProgramOp::plus &&
                                are_alike(program, element.of[1], was.list[rows + 1]);
        return is_rowwise == (axis == "pitch");
    }
    if (changed.size() != 1 || !takes_word(program, was.list[changed[0]], axis)) return false;
    const int index = is.list[changed[0]];
    const ProgramNode& moved = program.node(index);
    if (by == "bits")
        return moved.op == ProgramOp::exclusive && program.node(moved.of[1]).op != ProgramOp::number;
    if (by == "moved") {
        const bool is_bounded =
            moved.op == ProgramOp::larger || moved.op == ProgramOp::smaller || moved.op == ProgramOp::rest;
        const ProgramNode& sum = is_bounded ? program.node(moved.of[0]) : moved;
        const bool is_sum = sum.op == ProgramOp::plus || sum.op == ProgramOp::minus;
        const ProgramOp by_what = is_sum ? program.node(sum.of[1]).op : ProgramOp::rest;
        return by_what == ProgramOp::number || by_what == ProgramOp::size;
    }
    // Both parts of an index, the one in steps of the other.
    if (by == "exchanged")
        return program.node(index).op == ProgramOp::plus && program.axis_of(program.node(index).of[1]) >= 0;
    if (by == "picked") return moved.op == ProgramOp::chosen;
    if (by == "block") return is_block_away(program, index, problem.block_n);
    if (by == "%" || by == "%block") return is_word(program, moved, by);
    return by.empty() || takes_word(program, index, by);
}

namespace {

bool is_about(double x, double y) {
    return std::abs(x - y) <= 1e-5 * std::abs(y);
}

/// Whether sm_scale times the factor is 1 / sqrt of a head_dim that was filled up.
bool is_padded(double factor, double head_dim) {
    return std::ranges::any_of(std::array{16.0, 32.0, 64.0, 128.0, 256.0}, [&](double multiple) {
        const double padded = std::ceil(head_dim / multiple) * multiple;
        // A half is as good an explanation.
        return padded != head_dim && padded != 4 * head_dim && padded != 16 * head_dim &&
               is_about(factor, std::sqrt(head_dim / padded));
    });
}

}  // namespace

bool is_number_word(const Problem& problem, double p_scale, double number, std::string_view word) {
    const double scale = problem.sm_scale;
    if (word == "#") return number != 1;
    if (p_scale != 1 && word == "p_scale") return is_about(number, p_scale);
    if (p_scale != 1 && word == "/p_scale") return is_about(number, 1 / p_scale);
    if (word == "0") return number == 0;
    if (word == "-1") return number == -1;
    if (word == "scale") return is_about(number, scale);
    if (word == "/scale") return is_about(number, 1 / scale);
    if (word == "/scale^2") return is_about(number, 1 / (scale * scale));
    if (word == "padded") return is_padded(number, double(problem.head_dim));
    if (word == "log2e") return is_about(number, std::numbers::log2e);
    if (word == "/log2e") return is_about(number, std::numbers::ln2);
    return false;
}

}  // namespace tilescope
