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

/// Of the table of a pass.
std::vector<PageRow> rows_of_page(Direction direction) {
    const std::string first = direction == Direction::forward ? "family" : "family, backward";
    return test::rows_of_page(TILESCOPE_FORMAT_PAGE, "| " + first + " | declaration | value | where q is |");
}

TEST(Families, AreThoseOfThePage) {
    const char* const operands[] = {"", "16 bits", "fp8"};
    for (const Direction direction : {Direction::forward, Direction::backward}) {
        std::vector<PageRow> rows;
        for (const Family& family : all_families())
            for (const auto& [name, value, of] :
                 direction == Direction::forward ? family.declarations : family.backward)
                rows.push_back({std::string(family.name), std::string(name), std::string(value),
                                operands[static_cast<std::size_t>(of)]});
        EXPECT_EQ(rows, rows_of_page(direction));
    }
}

/// Each row of the page, for the operands that it is of, is found again in what is declared.
TEST(Families, DeclareWhatThePageSays) {
    const std::tuple<Direction, Dtype> calls[] = {{Direction::forward, Dtype::f16},
                                                  {Direction::forward, Dtype::bf16},
                                                  {Direction::forward, Dtype::e4m3},
                                                  {Direction::backward, Dtype::f16}};
    for (const auto& [direction, dtype] : calls) {
        for (const PageRow& row : rows_of_page(direction)) {
            Problem problem;
            Units units;
            problem.direction = direction;
            problem.sm_scale = 0.25;
            problem.dtype_q = problem.dtype_k = problem.dtype_v = dtype;
            declare_family(row[0], problem, units);
            if (!row[3].empty() && (row[3] == "fp8") != (dtype == Dtype::e4m3)) continue;
            const Declaration* declaration = find_declaration(row[1]);
            ASSERT_NE(declaration, nullptr) << row[1];
            const bool is_dtype = row[2] == "dtype_k" || row[2] == "dtype_v";
            const std::string value = is_dtype                       ? std::string(dtype_info(dtype).name)
                                      : row[2] == "sm_scale"         ? "0.25"
                                      : row[2] == "sm_scale log2(e)" ? "0.36067376022224085"
                                                                     : row[2];
            EXPECT_EQ(value_text(*declaration, problem, units), value) << row[0] << " " << row[1];
        }
    }
}

/// A kernel that folds the scale into q divides it by the cap there.
TEST(Families, FoldedScaleIsThatOverTheCap) {
    Problem problem;
    Units units;
    problem.sm_scale = 0.5;
    problem.logits_soft_cap = 40;
    declare_family("llama.cpp", problem, units);
    EXPECT_EQ(units.q_scale, 0.0125);
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
