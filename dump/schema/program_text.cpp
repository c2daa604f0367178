#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "dump/schema/declarations.h"
#include "dump/schema/program.h"

namespace tilescope {

namespace {

/// How tightly a text holds together.
enum Binding : std::uint8_t {
    loosest,
    of_or,
    of_and,
    of_not,
    of_comparison,
    of_exclusive,
    of_mask,
    of_sum,
    of_product,
    of_sign,
    of_atom
};

struct Told {
    std::string text;
    Binding binding = of_atom;
};

struct TwoOperands {
    std::string_view sign;
    Binding binding;
    Binding of_right;
};

TwoOperands two_operands(ProgramOp op) {
    switch (op) {
        case ProgramOp::plus:
            return {" + ", of_sum, of_product};
        case ProgramOp::minus:
            return {" - ", of_sum, of_product};
        case ProgramOp::times:
            return {" * ", of_product, of_sign};
        case ProgramOp::quotient:
            return {" / ", of_product, of_sign};
        case ProgramOp::rest:
            return {" % ", of_product, of_sign};
        case ProgramOp::exclusive:
            return {" ^ ", of_exclusive, of_mask};
        case ProgramOp::masked:
            return {" & ", of_mask, of_sum};
        case ProgramOp::less:
            return {" < ", of_comparison, of_exclusive};
        case ProgramOp::at_most:
            return {" <= ", of_comparison, of_exclusive};
        case ProgramOp::more:
            return {" > ", of_comparison, of_exclusive};
        case ProgramOp::at_least:
            return {" >= ", of_comparison, of_exclusive};
        case ProgramOp::equal:
            return {" == ", of_comparison, of_exclusive};
        case ProgramOp::unequal:
            return {" != ", of_comparison, of_exclusive};
        case ProgramOp::both:
            return {" and ", of_and, of_not};
        default:
            return {" or ", of_or, of_and};
    }
}

std::string number_text(const ProgramNode& node) {
    if (!std::isfinite(node.number))
        return std::isnan(node.number) ? "nan" : node.number > 0 ? "inf" : "-inf";
    if (node.is_whole) return std::to_string(std::int64_t(node.number));
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), node.number);
    const std::string text(digits.data(), end.ptr);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// "0x00400000"
std::string bits_text(const ProgramNode& node) {
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   static_cast<std::uint32_t>(node.number), 16);
    const std::string text(digits.data(), end.ptr);
    return "0x" + std::string(8 - text.size(), '0') + text;
}

class Teller {
 public:
    explicit Teller(const Program& program) : program_(program) {}

    Told told(int number) const {
        const ProgramNode& node = program_.node(number);
        switch (node.op) {
            case ProgramOp::number:
                return {number_text(node)};
            case ProgramOp::size:
                return {program_.sizes[std::size_t(node.what)]};
            case ProgramOp::axis:
                return {program_.axes[std::size_t(node.what)].name};
            case ProgramOp::read:
                return {read(node)};
            case ProgramOp::smaller:
            case ProgramOp::larger:
            case ProgramOp::between:
                return {(node.op == ProgramOp::smaller  ? "min("
                         : node.op == ProgramOp::larger ? "max("
                                                        : "between(") +
                        within(node.of[0], loosest) + ", " + within(node.of[1], loosest) + ")"};
            case ProgramOp::opposite:
                return {"not " + within(node.of[0], of_not), of_not};
            case ProgramOp::negative:
                return {"-" + within(node.of[0], of_sign), of_sign};
            case ProgramOp::chosen:
                return {within(node.of[0], of_or) + " where " + within(node.of[1], of_or) + " else " +
                            within(node.of[2], loosest),
                        loosest};
            case ProgramOp::call:
                return {std::string(program_function_name(ProgramFunction(node.what))) + "(" +
                        within(node.of[0], loosest) + ")"};
            case ProgramOp::cast:
                return {std::string(dtype_info(Dtype(node.what)).name) + "(" + within(node.of[0], loosest) +
                        ")"};
            case ProgramOp::sum:
            case ProgramOp::most:
            case ProgramOp::least:
                return {reduction(node)};
            case ProgramOp::exclusive:
            case ProgramOp::masked:
                if (!node.is_whole) return bits(node);
                [[fallthrough]];
            default: {
                const TwoOperands of_two = two_operands(node.op);
                const Binding of_left = of_two.binding == of_comparison ? of_exclusive : of_two.binding;
                return {within(node.of[0], of_left) + std::string(of_two.sign) +
                            within(node.of[1], of_two.of_right),
                        of_two.binding};
            }
        }
    }

 private:
    Told bits(const ProgramNode& node) const {
        const TwoOperands of_two = two_operands(node.op);
        const std::string text = within(node.of[0], of_two.binding) + std::string(of_two.sign);
        return {text + bits_text(program_.node(node.of[1])), of_two.binding};
    }

    std::string within(int number, Binding needed) const {
        const Told part = told(number);
        return part.binding < needed ? "(" + part.text + ")" : part.text;
    }

    std::string read(const ProgramNode& node) const {
        const ProgramArray& array = program_.array(node.what);
        std::string text = array.name;
        if (node.is_flat || node.list != array.indices) {
            text += node.is_flat ? ".flat[" : "[";
            for (const int index : node.list)
                text += (text.back() == '[' ? "" : ", ") + within(index, loosest);
            text += "]";
        }
        if (!node.says_state) return text;
        text += node.state == ProgramState::before  ? ".before"
                : node.state == ProgramState::after ? ".after"
                                                    : ".last";
        return node.of[0] < 0 ? text : text + "(" + within(node.of[0], loosest) + ")";
    }

    std::string reduction(const ProgramNode& node) const {
        std::string text = node.op == ProgramOp::sum ? "sum(" : node.op == ProgramOp::most ? "max(" : "min(";
        for (const int axis : node.list)
            text += (text.back() == '(' ? "" : ", ") + program_.axes[std::size_t(axis)].name;
        text += ": " + within(node.of[0], loosest) + ")";
        if (node.accumulation == Accumulation::fma_f32) return text;
        return text + " in " + std::string(declarations::name_of(node.accumulation));
    }

    const Program& program_;
};

}  // namespace

std::string program_text(const Program& program, int node) {
    return Teller(program).told(node).text;
}

}  // namespace tilescope
