// dump/HOOKS.md lists every member of Units with its attribute, its values and its default, and every word of these.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dump/schema/declarations.h"
#include "tests/support/page_table.h"

namespace tilescope::declarations {
namespace {

constexpr std::string_view units_in_code = "options.units.";

bool is_of_units(const Declaration& declaration) {
    return declaration.code.starts_with(units_in_code);
}

/// What a line of C++ has behind "tilescope::": the type and the enumerator.
struct InCode {
    std::string type;
    std::string enumerator;
};
InCode in_code(const Declaration& declaration, const std::string& value) {
    const std::string line = code_line(declaration, value);
    const std::size_t type = line.find("tilescope::") + std::string("tilescope::").size();
    const std::size_t end = line.find("::", type);
    return {line.substr(type, end - type), line.substr(end + 2, line.size() - end - 3)};
}

std::string type_of(const Declaration& declaration) {
    const std::vector<std::string> values = values_of(declaration);
    if (values.empty()) return "number";
    return values.front() == "true" ? "flag" : in_code(declaration, values.front()).type;
}

TEST(UnitsPage, HasEveryMember) {
    std::vector<test::PageRow> rows;
    for (const Declaration& declaration : all_declarations()) {
        if (!is_of_units(declaration)) continue;
        rows.push_back({declaration.code.substr(units_in_code.size()),
                        declaration.object + " " + declaration.attribute, type_of(declaration),
                        value_text(declaration, Problem(), Units())});
    }
    std::vector<test::PageRow> of_page = test::rows_of_page(
        TILESCOPE_HOOKS_PAGE,
        "| member of `Units` | attribute in the file | values | default | declare it where |");
    for (test::PageRow& row : of_page) {
        ASSERT_EQ(row.size(), 5u) << row.front();
        EXPECT_FALSE(row.back().empty()) << row.front();
        row.pop_back();
    }
    EXPECT_EQ(rows, of_page);
    EXPECT_GT(rows.size(), 40u);
}

TEST(UnitsPage, HasEveryWord) {
    std::map<std::string, test::PageRow> words;
    for (const Declaration& declaration : all_declarations()) {
        const std::string type = type_of(declaration);
        if (!is_of_units(declaration) || type == "number" || type == "flag") continue;
        std::string in_the_file, in_cpp;
        for (const std::string& value : values_of(declaration)) {
            in_the_file += (in_the_file.empty() ? "" : " ") + value;
            in_cpp += (in_cpp.empty() ? "" : " ") + in_code(declaration, value).enumerator;
        }
        words[type] = {type, in_the_file, in_cpp == in_the_file ? "the same" : in_cpp};
    }
    std::vector<test::PageRow> rows;
    for (const auto& [_, row] : words) rows.push_back(row);
    EXPECT_EQ(rows, test::rows_of_page(TILESCOPE_HOOKS_PAGE, "| values | in the file | in C++ |"));
}

}  // namespace
}  // namespace tilescope::declarations
