#include "tests/kernels/thread_checks.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/kernels/run_checks.h"

namespace tilescope::testing {

namespace {

/// Threads of which any may write an element.
enum class Writers { owner, row, warp, any };

struct OtherWriters {
    std::string_view kernel;
    Stage stage;
    Writers writers;
    bool with_wgmma_alone = false;
};

/// Where the hook is not given the registers: wmma records what it stored to shared memory, and the four
/// lanes of a row of fast, and of fp8 with wgmma, hold a copy of m.
constexpr OtherWriters others[] = {
    {"wmma", Stage::s, Writers::warp},     {"wmma", Stage::p, Writers::warp},
    {"wmma", Stage::acc, Writers::any},    {"fast", Stage::m, Writers::row},
    {"fp8", Stage::m, Writers::row, true},
};

Writers writers_of(const RunRequest& request, Stage stage) {
    // Operands are recorded from shared memory, by other threads than those that copied them there.
    if (stage <= Stage::v) return Writers::any;
    for (const OtherWriters& other : others) {
        const bool applies = request.config.wgmma || !other.with_wgmma_alone;
        if (other.kernel == request.kernel->name && other.stage == stage && applies) return other.writers;
    }
    return Writers::owner;
}

int wanted(const Owner& owner, Writers writers) {
    const int thread = owner.warp * 32 + owner.lane;
    return writers == Writers::owner ? thread : writers == Writers::row ? thread / 4 : owner.warp;
}

int got(int thread, Writers writers) {
    return writers == Writers::owner ? thread : writers == Writers::row ? thread / 4 : thread / 32;
}

/// Elements that were compared.
std::int64_t compare_tile(const CapturedRun& run, Stage stage, const TileId& tile, const ThreadMap& map,
                          Writers writers) {
    const TileShape shape = tile_shape(run.problem(), stage);
    std::vector<ElementWriter> words(std::size_t(shape.elements()));
    if (!run.read_writers(stage, tile, words)) return 0;
    std::int64_t compared = 0;
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
        const ElementWriter& word = words[std::size_t(i)];
        if (word.writes == 0) continue;
        const Owner owner = map.owner(tile, i / shape.cols, i % shape.cols);
        EXPECT_EQ(got(word.first_thread, writers), wanted(owner, writers))
            << stage_info(stage).name << " row " << i / shape.cols << " column " << i % shape.cols
            << ", declared " << to_string(owner);
        if (::testing::Test::HasFailure()) return compared;
        ++compared;
    }
    return compared;
}

}  // namespace

void expect_declared_owners(const std::string& command_line) {
    SCOPED_TRACE(command_line);
    const RunRequest request = request_of(command_line + " --writers");
    const CapturedRun run = run_kernel(request);
    ASSERT_EQ(run.capture().ended, "completed");
    for (const StageInfo& info : stages_of(run.problem())) {
        const Writers writers = writers_of(request, info.stage);
        if (writers == Writers::any) continue;
        const std::optional<ThreadMap> map = thread_map(run.problem(), info.stage, run.threads(), "test");
        ASSERT_TRUE(map) << info.name;
        std::int64_t compared = 0;
        for (std::int64_t i = 0; i < tile_count(run.problem(), info.stage); ++i)
            compared += compare_tile(run, info.stage, tile_at(run.problem(), info.stage, i), *map, writers);
        EXPECT_GT(compared, 0) << info.name;
    }
}

}  // namespace tilescope::testing
