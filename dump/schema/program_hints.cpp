#include "dump/schema/program_hints.h"

#include <algorithm>
#include <array>

namespace tilescope {

namespace {

struct Hint {
    std::string_view word;
    std::string_view said;
};

constexpr std::string_view chosen = "x where CONDITION else y";
constexpr std::string_view square = "x * x";
constexpr std::string_view whole_numbers = "f32, and round or trunc with max(min(...)) in the formula";

constexpr std::array<Hint, 54> hints = {
    {{"amax", "max(k: x)"},
     {"amin", "min(k: x)"},
     {"any", "max(k: 1.0 where CONDITION else 0.0) > 0.0"},
     {"argmax", "max(k: x); indices are no data"},
     {"argmin", "min(k: x); indices are no data"},
     {"cast", "bf16(x)"},
     {"cdiv", "(a + b - 1) / b in an index"},
     {"ceil", "trunc(x) + (1.0 where x > trunc(x) else 0.0)"},
     {"clamp", "max(min(x, high), low)"},
     {"clip", "max(min(x, high), low)"},
     {"cos", "an input that holds it"},
     {"dot", "sum(k: a * b) in tensor_core_f32"},
     {"expm1", "exp(x) - 1.0"},
     {"fabs", "abs(x)"},
     {"floor", "trunc(x) - (1.0 where x < trunc(x) else 0.0)"},
     {"fma", "a * b + c"},
     {"fmax", "max(x, y)"},
     {"fmin", "min(x, y)"},
     {"gather", "sum(k: x where k == target else 0.0)"},
     {"int", "trunc(x)"},
     {"llrint", "round(x)"},
     {"log1p", "log(1.0 + x)"},
     {"logsumexp", "a stage of the maximum, and m + log(sum(k: exp(x - m)))"},
     {"matmul", "sum(k: a * b) in tensor_core_f32"},
     {"maximum", "max(x, y)"},
     {"mean", "sum(k: x) / SIZE, with the name of its extent"},
     {"minimum", "min(x, y)"},
     {"pow", square},
     {"reciprocal", "1.0 / x"},
     {"rint", "round(x)"},
     {"rsqrtf", "rsqrt(x)"},
     {"sign", "1.0 where x > 0.0 else (-1.0 where x < 0.0 else 0.0)"},
     {"sin", "an input that holds it"},
     {"softmax", "stages of the maximum, of exp(x - m) and of their sum"},
     {"sqr", square},
     {"square", square},
     {"swish", "silu(x)"},
     {"where", chosen},
     {"?", chosen},
     {"if", chosen},
     {"**", square},
     {"//", "/, which divides whole numbers as C does"},
     {"&&", "and"},
     {"|", "or"},
     {"!", "not"},
     {"@", "sum(k: a * b) in tensor_core_f32"},
     {"float", "f32"},
     {"float32", "f32"},
     {"half", "f16"},
     {"float16", "f16"},
     {"bfloat16", "bf16"},
     {"int8", whole_numbers},
     {"i8", whole_numbers},
     {"uint8", whole_numbers}}};

}  // namespace

std::string_view said_in_a_program(std::string_view word) {
    const auto* const found = std::ranges::find(hints, word, &Hint::word);
    return found == hints.end() ? std::string_view{} : found->said;
}

std::string program_hint(std::string_view word, const std::string& otherwise) {
    const std::string_view said = said_in_a_program(word);
    return said.empty() ? otherwise : "write " + std::string(said);
}

}  // namespace tilescope
