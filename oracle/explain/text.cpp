#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "oracle/explain/explain.h"
#include "oracle/judge/report.h"

namespace tilescope {

namespace {

constexpr std::size_t formula_columns = 41;

/// The text in lines of formula_columns; nothing in a formula is longer than that.
std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream words(text);
    std::vector<std::string> lines(1);
    for (std::string word; words >> word;) {
        std::string& line = lines.back();
        if (line.empty()) {
            line = word;
        } else if (line.size() + 1 + word.size() <= formula_columns) {
            line += " " + word;
        } else {
            lines.push_back(word);
        }
    }
    return lines;
}

std::string line(const std::string& value, const std::string& name, const std::string& formula,
                 const std::string& source) {
    std::string text = fmt::format("{:>11}  {:<30} {:<{}} {}", value, name, formula, formula_columns, source);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
}

std::string row_of(const BudgetTerm& term) {
    const std::string value =
        term.used ? fmt::format("{:.3g}", term.value) : fmt::format("({:.3g})", term.value);
    const std::vector<std::string> formula = lines_of(term.formula);
    std::string text = line(value, term.name, formula.front(), term.source);
    for (std::size_t i = 1; i < formula.size(); ++i) text += line("", "", formula[i], "");
    return text;
}

std::string ratio_of(const Explanation& explanation) {
    const Element& element = explanation.element;
    if (!explanation.written) return "not written";
    if (element.got == element.expected) return "0";
    return std::isfinite(element.ratio()) ? fmt::format("{:.3g}", element.ratio()) : "not comparable";
}

bool has_unused(const BudgetTerms& terms) {
    return std::ranges::any_of(terms.rows(), [](const BudgetTerm& term) { return !term.used; });
}

}  // namespace

std::string to_text(const Explanation& explanation) {
    const Element& element = explanation.element;
    std::string text = fmt::format("{} at {}\n", stage_info(explanation.stage).name,
                                   place_of(explanation.problem, {}, explanation.stage, element));
    if (const auto owner = owner_of(explanation.problem, explanation.threads, explanation.stage, element))
        text += "owned by " + to_string(*owner) + "\n";
    text += fmt::format("got {}  expected {}  tolerance {:.3g}  |got - expected| / tolerance {}\n\n",
                        explanation.written ? digits_of(element.got) : "nothing", digits_of(element.expected),
                        element.tolerance, ratio_of(explanation));
    if (!std::isfinite(element.expected))
        return text + "no finite value is expected: there is no tolerance to explain\n";
    if (!std::isfinite(element.tolerance) && explanation.terms.rows().empty())
        return text + "what this is computed from is known too badly for any tolerance\n";
    if (explanation.terms.rows().empty()) return text + "nothing rounds here: the expected value is exact\n";

    text += line("value", "term", "formula", "source");
    // What every result takes part in comes last.
    for (const bool in_words : {false, true}) {
        for (const BudgetTerm& term : explanation.terms.rows()) {
            if (term.in_words == in_words) text += row_of(term);
        }
    }
    text += line(fmt::format("{:.3g}", explanation.terms.total()), "tolerance", "", "");
    if (has_unused(explanation.terms)) {
        text += fmt::format(
            "\nIn brackets: the other bound of the same sum, which is not used. A probable one holds for all "
            "elements\nof the recording together with a confidence of 1 - {:.3g}; lambda {:.4g} follows from "
            "that.\n",
            1 - explanation.confidence, explanation.lambda);
    }
    return text;
}

}  // namespace tilescope
