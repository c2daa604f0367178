// What a family of kernels declares is what dump/FORMAT.md says of it.

#include "dump/schema/families.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "dump/schema/declarations.h"
#include "dump/schema/error.h"
#include "tests/support/page_table.h"

namespace tilescope::declarations {
namespace {

using test::PageRow;  // family, declaration, value, operands

std::vector<PageRow> rows_of_page() {
    return test::rows_of_page(TILESCOPE_FORMAT_PAGE, "| family | declaration | value | where q is |");
}

TEST(Families, AreThoseOfThePage) {
    const char* const operands[] = {"", "16 bits", "fp8"};
    std::vector<PageRow> rows;
    for (const Family& family : all_families())
        for (const auto& [name, value, of] : family.declarations)
            rows.push_back({std::string(family.name), std::string(name), std::string(value),
                            operands[static_cast<std::size_t>(of)]});
    EXPECT_EQ(rows, rows_of_page());
}

/// Each row of the page, for the operands that it is of, is found again in what is declared.
TEST(Families, DeclareWhatThePageSays) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::e4m3}) {
        for (const PageRow& row : rows_of_page()) {
            Problem problem;
            Units units;
            problem.dtype_q = problem.dtype_k = problem.dtype_v = dtype;
            declare_family(row[0], problem, units);
            if (!row[3].empty() && (row[3] == "fp8") != (dtype == Dtype::e4m3)) continue;
            const Declaration* declaration = find_declaration(row[1]);
            ASSERT_NE(declaration, nullptr) << row[1];
            const std::string value = row[2] == "dtype_v" ? std::string(dtype_info(dtype).name) : row[2];
            EXPECT_EQ(value_text(*declaration, problem, units), value) << row[0] << " " << row[1];
        }
    }
}

TEST(Families, UnknownOneListsThoseThereAre) {
    Problem problem;
    Units units;
    try {
        declare_family("flash-attention-9", problem, units);
        FAIL();
    } catch (const Error& error) {
        for (const Family& family : all_families())
            EXPECT_NE(std::string(error.what()).find(family.name), std::string::npos) << error.what();
    }
    problem.direction = Direction::backward;
    EXPECT_THROW(declare_family("flash-attention-2", problem, units), Error);
}

}  // namespace
}  // namespace tilescope::declarations
