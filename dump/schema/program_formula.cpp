#include "dump/schema/program_formula.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dump/schema/declarations.h"
#include "dump/schema/program_hints.h"

namespace tilescope {

namespace {

struct FunctionName {
    ProgramFunction function;
    std::string_view name;
};
constexpr std::array<FunctionName, 15> functions = {{{ProgramFunction::exp, "exp"},
                                                     {ProgramFunction::exp2, "exp2"},
                                                     {ProgramFunction::log, "log"},
                                                     {ProgramFunction::log2, "log2"},
                                                     {ProgramFunction::sqrt, "sqrt"},
                                                     {ProgramFunction::rsqrt, "rsqrt"},
                                                     {ProgramFunction::tanh, "tanh"},
                                                     {ProgramFunction::sigmoid, "sigmoid"},
                                                     {ProgramFunction::silu, "silu"},
                                                     {ProgramFunction::gelu, "gelu"},
                                                     {ProgramFunction::relu, "relu"},
                                                     {ProgramFunction::softplus, "softplus"},
                                                     {ProgramFunction::abs, "abs"},
                                                     {ProgramFunction::round, "round"},
                                                     {ProgramFunction::trunc, "trunc"}}};

constexpr std::array<std::string_view, 18> words = {"axes", "sizes", "input", "stage", "output", "where",
                                                    "else", "and",   "or",    "not",   "inf",    "from",
                                                    "over", "by",    "sum",   "max",   "min",    "between"};

struct Sign {
    std::string_view text;
    ProgramOp op;
};
constexpr std::array<Sign, 6> comparisons = {{{"<", ProgramOp::less},
                                              {"<=", ProgramOp::at_most},
                                              {">", ProgramOp::more},
                                              {">=", ProgramOp::at_least},
                                              {"==", ProgramOp::equal},
                                              {"!=", ProgramOp::unequal}}};

template <class Table>
int number_of(const Table& table, std::string_view name) {
    const auto found =
        std::ranges::find(table, name, [](const auto& entry) { return std::string_view(entry.name); });
    return found == table.end() ? -1 : int(found - table.begin());
}

const ProgramNode* whole_quotient(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (!node.is_whole) return nullptr;
    if (node.op == ProgramOp::quotient) return &node;
    for (const int operand : node.of) {
        if (operand < 0) continue;
        if (const ProgramNode* const found = whole_quotient(program, operand)) return found;
    }
    return nullptr;
}

/// 1 / head_dim is 0 where whole numbers are divided: nobody means that in a formula of reals.
void check_real(const Program& program, int number) {
    const ProgramNode* const quotient = whole_quotient(program, number);
    if (quotient == nullptr) return;
    throw program_error(quotient->place,
                        "whole numbers are divided, and what is left is lost, in a formula of reals",
                        "write 1.0 * in front of the dividend, or divide in an index");
}

bool is_condition(ProgramOp op) {
    return op >= ProgramOp::less && op <= ProgramOp::opposite;
}

void check_kind(const Program& program, int number, bool condition) {
    const ProgramNode& node = program.node(number);
    if (is_condition(node.op) == condition) return;
    throw program_error(node.place,
                        condition ? "a number stands where a condition should" : "a condition is no number",
                        condition ? "compare it with another" : "write `1 where CONDITION else 0`");
}

}  // namespace

std::string_view program_function_name(ProgramFunction function) {
    return functions[std::size_t(function)].name;
}

std::string_view taken_program_name(std::string_view name) {
    if (std::ranges::find(words, name) != words.end()) return "a word of the language";
    if (number_of(functions, name) >= 0) return "a function";
    if (dtype_from_name(name)) return "a dtype";
    return "";
}

bool ProgramFormulaReader::passes(std::string_view sign_or_word) {
    if (!token().is(sign_or_word)) return false;
    ++at_;
    return true;
}

void ProgramFormulaReader::expect(std::string_view sign_or_word, std::string_view where) {
    if (passes(sign_or_word)) return;
    throw program_error(token().place,
                        token().kind == ProgramToken::Kind::end
                            ? "the program ends"
                            : "'" + shortened(token().text) + "' stands here",
                        "write '" + std::string(sign_or_word) + "' " + std::string(where));
}

ProgramToken ProgramFormulaReader::name(std::string_view of_what) {
    const ProgramToken& word = token();
    if (word.kind != ProgramToken::Kind::word)
        throw program_error(word.place, "no name stands here", "write the name of " + std::string(of_what));
    ++at_;
    return word;
}

int ProgramFormulaReader::add(ProgramNode node) {
    int depth = 0;
    for (const int operand : node.of) {
        if (operand >= 0) depth = std::max(depth, depths_[std::size_t(operand)] + 1);
    }
    // Who walks through a formula goes as deep.
    if (depth > ProgramLimits::formula_depth)
        throw program_error(node.place, "the formula is too long", "put a part of it in a stage of its own");
    depths_.push_back(depth);
    program_.nodes.push_back(std::move(node));
    return int(program_.nodes.size()) - 1;
}

int ProgramFormulaReader::of_two(ProgramOp op, int left, int right, const ProgramToken& sign) {
    const bool takes_conditions = op == ProgramOp::both || op == ProgramOp::either;
    check_kind(program_, left, takes_conditions);
    check_kind(program_, right, takes_conditions);
    const bool is_whole = program_.node(left).is_whole && program_.node(right).is_whole;
    if (!is_whole && !takes_conditions) {
        check_real(program_, left);
        check_real(program_, right);
    }
    const ProgramNode& by = program_.node(right);
    const bool takes_bits = op == ProgramOp::exclusive || op == ProgramOp::masked;
    // `x ^ 2` means a square to most.
    const bool are_bits = by.op == ProgramOp::number && by.is_whole && by.number < 0x1p32 &&
                          tokens_[at_ - 1].text.starts_with("0x");
    if (!is_whole && (op == ProgramOp::rest || (takes_bits && !are_bits)))
        throw program_error(sign.place, sign.text + " of numbers that are not whole",
                            takes_bits ? "write the 32 bits on its right, as x " + sign.text +
                                             " 0x00400000; a square is x * x"
                                       : "use it in an index or a bound");
    return add(
        {.op = op, .of = {left, right, -1}, .is_whole = is_whole && !is_condition(op), .place = sign.place});
}

int ProgramFormulaReader::formula() {
    if (++depth_ > ProgramLimits::depth)
        throw program_error(token().place, "formulas are nested too deeply",
                            "put a part of it in a stage of its own");
    int value = either();
    const ProgramToken sign = token();
    if (passes("where")) {
        const int condition = either();
        check_kind(program_, condition, true);
        check_kind(program_, value, false);
        expect("else", "and what it is where the condition does not hold");
        const int otherwise = formula();
        check_kind(program_, otherwise, false);
        const bool is_whole = program_.node(value).is_whole && program_.node(otherwise).is_whole;
        value = add({.op = ProgramOp::chosen,
                     .of = {value, condition, otherwise},
                     .is_whole = is_whole,
                     .place = sign.place});
    }
    --depth_;
    return value;
}

int ProgramFormulaReader::either() {
    int left = both();
    for (ProgramToken sign = token(); passes("or"); sign = token())
        left = of_two(ProgramOp::either, left, both(), sign);
    return left;
}

int ProgramFormulaReader::both() {
    int left = opposite();
    for (ProgramToken sign = token(); passes("and"); sign = token())
        left = of_two(ProgramOp::both, left, opposite(), sign);
    return left;
}

int ProgramFormulaReader::opposite() {
    const ProgramToken sign = token();
    if (!passes("not")) return comparison();
    if (++depth_ > ProgramLimits::depth)
        throw program_error(sign.place, "formulas are nested too deeply",
                            "put a part of it in a stage of its own");
    const int of = opposite();
    --depth_;
    check_kind(program_, of, true);
    return add({.op = ProgramOp::opposite, .of = {of, -1, -1}, .place = sign.place});
}

int ProgramFormulaReader::comparison() {
    const int left = exclusive();
    const auto* const found =
        std::ranges::find_if(comparisons, [&](const Sign& s) { return token().is(s.text); });
    if (found == comparisons.end()) return left;
    const ProgramToken sign = token();
    ++at_;
    const int both_sides = of_two(found->op, left, exclusive(), sign);
    if (std::ranges::any_of(comparisons, [&](const Sign& s) { return token().is(s.text); }))
        throw program_error(token().place, "a comparison of three", "write two of them with `and` between");
    return both_sides;
}

int ProgramFormulaReader::exclusive() {
    int left = masked();
    for (ProgramToken sign = token(); passes("^"); sign = token())
        left = of_two(ProgramOp::exclusive, left, masked(), sign);
    return left;
}

int ProgramFormulaReader::masked() {
    int left = sum();
    for (ProgramToken sign = token(); passes("&"); sign = token())
        left = of_two(ProgramOp::masked, left, sum(), sign);
    return left;
}

int ProgramFormulaReader::sum() {
    int left = product();
    while (token().is("+") || token().is("-")) {
        const ProgramToken sign = token();
        ++at_;
        left = of_two(sign.is("+") ? ProgramOp::plus : ProgramOp::minus, left, product(), sign);
    }
    return left;
}

int ProgramFormulaReader::product() {
    int left = factor();
    while (token().is("*") || token().is("/") || token().is("%")) {
        const ProgramToken sign = token();
        ++at_;
        const ProgramOp op = sign.is("*")   ? ProgramOp::times
                             : sign.is("/") ? ProgramOp::quotient
                                            : ProgramOp::rest;
        left = of_two(op, left, factor(), sign);
    }
    return left;
}

int ProgramFormulaReader::factor() {
    const ProgramToken sign = token();
    if (!passes("-")) return primary();
    if (++depth_ > ProgramLimits::depth)
        throw program_error(sign.place, "formulas are nested too deeply",
                            "put a part of it in a stage of its own");
    const int of = factor();
    --depth_;
    check_kind(program_, of, false);
    return add({.op = ProgramOp::negative,
                .of = {of, -1, -1},
                .is_whole = program_.node(of).is_whole,
                .place = sign.place});
}

int ProgramFormulaReader::primary() {
    const ProgramToken first = token();
    if (passes("(")) {
        const int inside = formula();
        expect(")", "behind what stands in parentheses");
        return inside;
    }
    if (first.kind == ProgramToken::Kind::number) {
        ++at_;
        return add({.op = ProgramOp::number,
                    .number = first.number,
                    .is_whole = first.is_whole,
                    .place = first.place});
    }
    if (first.kind != ProgramToken::Kind::word) {
        const std::string both = at_ > 0 ? tokens_[at_ - 1].text + first.text : first.text;
        throw program_error(first.place,
                            first.kind == ProgramToken::Kind::end ? "the program ends within a formula"
                                                                  : "'" + first.text + "' begins no formula",
                            program_hint(both, "write a number, a name, or a formula in parentheses"));
    }
    ++at_;
    return named(first);
}

int ProgramFormulaReader::named(const ProgramToken& word) {
    if (word.is("inf"))
        return add({.op = ProgramOp::number,
                    .number = std::numeric_limits<double>::infinity(),
                    .place = word.place});
    if (word.is("sum")) return reduction(ProgramOp::sum, word);
    if (word.is("max") || word.is("min")) {
        const bool is_max = word.is("max");
        if (begins_reduction()) return reduction(is_max ? ProgramOp::most : ProgramOp::least, word);
        return two_numbers(is_max ? ProgramOp::larger : ProgramOp::smaller, word,
                           "; " + word.text + "(AXIS: ...) is that along an axis");
    }
    if (word.is("between")) return two_numbers(ProgramOp::between, word, "");
    const int function = number_of(functions, word.text);
    const std::optional<Dtype> dtype = dtype_from_name(word.text);
    if (function >= 0 || dtype) {
        expect("(", "in front of what " + word.text + " is taken of");
        const int of = real_formula();
        expect(")", "behind what " + word.text + " is taken of");
        return add({.op = dtype ? ProgramOp::cast : ProgramOp::call,
                    .of = {of, -1, -1},
                    .what = dtype ? int(*dtype) : function,
                    .place = word.place});
    }
    if (const int axis = number_of(program_.axes, word.text); axis >= 0)
        return add({.op = ProgramOp::axis, .what = axis, .is_whole = true, .place = word.place});
    const auto size = std::ranges::find(program_.sizes, word.text);
    if (size != program_.sizes.end())
        return add({.op = ProgramOp::size,
                    .what = int(size - program_.sizes.begin()),
                    .is_whole = true,
                    .place = word.place});
    if (const int array = program_.array_named(word.text); array >= 0) return element(array, word);
    if (token().is("(")) {
        std::vector<std::string> names;
        names.reserve(functions.size());
        for (const FunctionName& known : functions) names.emplace_back(known.name);
        throw program_error(word.place, "'" + shortened(word.text) + "' is no function",
                            program_hint(word.text, "there are sum, max, min, " + joined(names, ", ") +
                                                        ", and casts as bf16(x)"));
    }
    throw program_error(word.place, "'" + shortened(word.text) + "' is not declared",
                        taken_program_name(word.text).empty()
                            ? "declare it as an axis, a size, an input or a stage"
                            : "it is a word of the language and stands elsewhere");
}

bool ProgramFormulaReader::begins_reduction() const {
    std::size_t at = at_;
    if (!tokens_[at].is("(")) return false;
    while (tokens_[at + 1].kind == ProgramToken::Kind::word) {
        at += 2;
        if (tokens_[at].is(":")) return true;
        if (!tokens_[at].is(",")) return false;
    }
    return false;
}

int ProgramFormulaReader::two_numbers(ProgramOp op, const ProgramToken& word, const std::string& hint) {
    expect("(", "in front of what " + word.text + " is taken of");
    const int left = formula();
    expect(",", "between the two numbers of " + word.text + hint);
    const int right = formula();
    expect(")", "behind the second number of " + word.text);
    const int number = of_two(op, left, right, word);
    // Whole numbers are known, and chosen by nobody.
    if (op == ProgramOp::between) program_.nodes[std::size_t(number)].is_whole = false;
    return number;
}

int ProgramFormulaReader::reduction(ProgramOp op, const ProgramToken& word) {
    ProgramNode node{.op = op, .place = word.place};
    expect("(", "in front of the axes that " + word.text + " goes along");
    do {
        const ProgramToken axis = name("an axis, as in " + word.text + "(k: a * b)");
        const int number = number_of(program_.axes, axis.text);
        if (number < 0)
            throw program_error(axis.place, "'" + shortened(axis.text) + "' is no axis",
                                token().is(":") || token().is(",")
                                    ? "declare it among the axes"
                                    : "write the axis in front, as in " + word.text + "(k: a * b)");
        if (std::ranges::find(node.list, number) != node.list.end())
            throw program_error(axis.place, axis.text + " stands here twice", "leave one out");
        node.list.push_back(number);
    } while (passes(","));
    expect(":", "between the axes and what is taken of all along them");
    node.of[0] = real_formula();
    expect(")", "behind what " + word.text + " is taken of");
    if (op == ProgramOp::sum && passes("in")) {
        const ProgramToken type = name("how it is added up, as tensor_core_f32");
        const std::optional<Accumulation> accumulation = declarations::value_of<Accumulation>(type.text);
        if (!accumulation)
            throw program_error(type.place, "'" + shortened(type.text) + "' is no way to add up",
                                "write fma_f32, fma_f16, fma_bf16, tensor_core_f32, tensor_core_f16, "
                                "tensor_core_tf32 or tensor_core_fp8");
        node.accumulation = *accumulation;
    }
    return add(std::move(node));
}

int ProgramFormulaReader::element(int array, const ProgramToken& word) {
    ProgramNode node{.op = ProgramOp::read, .what = array, .place = word.place};
    const std::size_t count = program_.array(array).indices.size();
    if (passes("[")) {
        node.list = index_list();
        if (node.list.size() != count)
            throw program_error(word.place,
                                word.text + " has " + std::to_string(count) + " indices, and " +
                                    std::to_string(node.list.size()) + " stand here",
                                "write each of them, or none for those that it is declared with");
    } else {
        node.list = program_.array(array).indices;
    }
    const bool is_input = !program_.array(array).is_stage;
    if (passes(".")) {
        if (is_input && passes("flat")) {
            expect("[", "behind flat");
            node.list = index_list();
            node.is_flat = true;
            if (node.list.size() != 1)
                throw program_error(word.place, word.text + ".flat has one index",
                                    "write the number of the element");
            return add(std::move(node));
        }
        const ProgramToken state = name("a state: before or after the block, or the last one");
        node.state = state.is("before")  ? ProgramState::before
                     : state.is("after") ? ProgramState::after
                     : state.is("last")  ? ProgramState::last
                                         : ProgramState::unsaid;
        if (node.state == ProgramState::unsaid)
            throw program_error(state.place, "'" + shortened(state.text) + "' is no state",
                                "write before, after or last");
        node.says_state = true;
        if (token().is("["))
            throw program_error(token().place, "indices stand behind the state",
                                "write " + word.text + "[...]." + state.text);
        if (passes("(")) {
            if (node.state == ProgramState::last)
                throw program_error(state.place, "the last state is of no block", "leave the index out");
            node.of[0] = whole_formula("an index");
            expect(")", "behind the index in whose block the state is");
        }
    }
    return add(std::move(node));
}

int ProgramFormulaReader::real_formula() {
    const int number = formula();
    check_kind(program_, number, false);
    check_real(program_, number);
    return number;
}

int ProgramFormulaReader::whole_formula(std::string_view of_what) {
    const ProgramToken first = token();
    const int number = formula();
    const ProgramNode& node = program_.node(number);
    if (!node.is_whole)
        throw program_error(
            first.place, std::string(of_what) + " is no whole number",
            node.op == ProgramOp::read
                ? "indices are no data; write sum(v: x where v == target else 0.0), with an axis v"
                : "make it of axes, sizes and whole numbers");
    return number;
}

std::vector<int> ProgramFormulaReader::index_list() {
    std::vector<int> indices;
    do indices.push_back(whole_formula("an index"));
    while (passes(","));
    expect("]", "behind the last index");
    return indices;
}

}  // namespace tilescope
