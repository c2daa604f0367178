#ifdef DEBUG_DUMP
#error "this test is about code that is compiled without DEBUG_DUMP"
#endif

#include "dump/hook.h"

#include <gtest/gtest.h>

#include "dump/program_hook.h"

// The header declares nothing then: these names are free.
namespace tilescope {
enum class Sink { mine };
enum class Stage { mine };
enum class HookBlock { mine };
enum class ProgramSink { mine };
enum class ProgramHooks { mine };
}  // namespace tilescope

namespace {

/// The arguments of the hooks name nothing that exists.
int kernel(int x TILESCOPE_HOST_SINK_PARAM(no_such_sink)) {
    TILESCOPE_BLOCK(no_such_sink, no_such_batch, no_such_head, no_such_q_block);
    if (x > 0) TILESCOPE_VALUE(no_such_stage, no_such_tile, no_such_row, no_such_col, no_such_value());
    for (int i = 0; i < x; ++i) TILESCOPE_TILE(no_such_stage, 0, no_such_data, 1, i, x);
    TILESCOPE_ROWS(no_such_stage, 0, 0, 1, no_such_namespace::transposed(no_such_data), 1, x, x);
    return x + 1;
}

int block(int x TILESCOPE_CALL_PARAM) {
    return x + 1;
}
int called(int x TILESCOPE_HOST_SINK_PARAM(no_such_sink)) {
    TILESCOPE_BLOCK_CALL(no_such_constant, no_such_sink, 0, 0, 0, x = block(x TILESCOPE_BLOCK_ARG));
    return x;
}

/// Parameters that hooks add a member to, and a kernel that is compiled with hooks or without.
struct Parameters {
    int x;
    TILESCOPE_SINK_MEMBER(sink);
};
static_assert(sizeof(Parameters) == sizeof(int));
int kernel_of(const Parameters& parameters) {
    TILESCOPE_BLOCK_IF(no_such_constant, parameters.sink, 0, 0, 0);
    TILESCOPE_SINK_SET(parameters.sink, no_such_sink);
    return parameters.x + 1;
}

TILESCOPE_PROGRAM(of_program, "stage y = 1.0 output y");
int program_kernel(int x TILESCOPE_PROGRAM_SINK_PARAM(no_such_sink)) {
    TILESCOPE_PROGRAM_HOOKS(no_such_sink, no_such_program);
    if (x > 0) TILESCOPE_PROGRAM_VALUE(no_such_stage, (no_such_index), no_such_value());
    TILESCOPE_PROGRAM_TILE(no_such_stage, (), 1, 1, no_such_data, 1, 0, 1);
    TILESCOPE_PROGRAM_FRAGMENT(no_such_stage, (), no_such_values, no_such_layout{1, 2});
    TILESCOPE_PROGRAM_ROWS(no_such_stage, (), no_such_values, no_such_layout{1, 2});
    return x + 1;
}

TEST(HookOff, VanishesWithItsArguments) {
    EXPECT_EQ(program_kernel(41 TILESCOPE_PROGRAM_SINK_ARG(no_such_sink)), 42);
    EXPECT_STREQ(of_program::text(), "stage y = 1.0 output y");
    EXPECT_EQ(kernel(41 TILESCOPE_SINK_ARG(no_such_sink)), 42);
    EXPECT_EQ(called(41 TILESCOPE_SINK_ARG(no_such_sink)), 42);
    EXPECT_FALSE(TILESCOPE_RECORDS(no_such_sink));
    EXPECT_FALSE(TILESCOPE_BLOCK_RECORDS(no_such_sink, 0, 0, 0));
    EXPECT_EQ(kernel_of(Parameters{41}), 42);
    int (*const pointer)(int) = kernel;
    EXPECT_EQ(pointer(1), 2) << "the parameter list is that of the plain kernel";
}

}  // namespace
