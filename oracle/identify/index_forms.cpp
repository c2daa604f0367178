#include "oracle/identify/index_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

namespace tilescope {

namespace {

using Form = IndexPart::Form;

/// Formulas of a number that change one of those below `extent`.
class ChangingForms {
 public:
    ChangingForms(std::string_view name, std::int64_t extent) : name_(name), extent_(extent) {}

    void add(Form form, std::int64_t n = 0, std::int64_t k = 0) { add(formula_of(form, name_, n, k)); }
    void add(IndexFormula formula) {
        for (std::int64_t i = 0; i < extent_; ++i) {
            if (formula.apply(i) == i) continue;
            formulas_.push_back(std::move(formula));
            return;
        }
    }

    std::vector<IndexFormula> take() { return std::move(formulas_); }

 private:
    std::string_view name_;
    std::int64_t extent_;
    std::vector<IndexFormula> formulas_;
};

void add_parts_of(std::int64_t n, ChangingForms& forms) {
    for (const Form form : {Form::rest, Form::multiple, Form::quotient}) forms.add(form, n);
    if (n <= 8) forms.add(Form::times, n);
    if (std::has_single_bit(std::uint64_t(n))) forms.add(Form::reversed, n);
}

void add_orders(std::int64_t extent, ChangingForms& forms) {
    for (const std::int64_t n : std::array<std::int64_t, 4>{4, 8, 16, 32})
        for (std::int64_t a = 3; n <= extent && a < n; a += 2) forms.add(Form::permuted, n, a);
    for (int low = 0; 1LL << low < extent; ++low)
        for (int high = low + 1; 1LL << high < extent; ++high) forms.add(Form::exchanged_bits, low, high);
}

}  // namespace

IndexFormula formula_of(Form form, std::string_view name, std::int64_t n, std::int64_t k) {
    const IndexPart part{form, 0, 0, n, k};
    return {[=](std::int64_t x) { return part.of(std::array{x}); }, part.text(std::array{name}),
            part.parameters(), form == Form::exclusive};
}

std::vector<IndexFormula> index_forms(std::string_view name, std::int64_t extent) {
    ChangingForms forms(name, extent);
    forms.add(Form::zero);
    forms.add({[=](std::int64_t i) { return extent - 1 - i; }, fmt::format("{} - {}", extent - 1, name), 1});
    // A move may lead beyond the last one.
    constexpr std::int64_t least_moves = 16;
    for (std::int64_t n = 1; n < std::max(extent, least_moves + 1); ++n) {
        forms.add(Form::exclusive, n);
        for (const std::int64_t by : {n, -n}) forms.add(Form::plus, by);
        forms.add(Form::at_most, n);
    }
    for (std::int64_t n = 2; n <= extent; ++n) add_parts_of(n, forms);
    add_orders(extent, forms);
    return forms.take();
}

void for_each_index_form(std::int64_t most, std::string_view name,
                         const std::function<bool(const IndexFormula&)>& visit) {
    for (std::int64_t n = 1; n <= most; ++n) {
        for (const Form form : {Form::exclusive, Form::at_most, Form::at_least, Form::rest, Form::multiple,
                                Form::reversed, Form::quotient}) {
            const bool is_of_parts =
                form != Form::exclusive && form != Form::at_most && form != Form::at_least;
            if (n == 1 && is_of_parts) continue;
            if (!visit(formula_of(form, name, n))) return;
        }
    }
}

}  // namespace tilescope
