// The threads that the bundled kernels declare: that they cover every build's tiles, and write what they own.

#include <gtest/gtest.h>

#include <numeric>

#include "dump/schema/wmma_fragments.h"
#include "kernels/attention/registry.h"
#include "tests/kernels/run_checks.h"
#include "tests/kernels/thread_checks.h"

namespace tilescope::testing {
namespace {

/// Threads of a block that compute: eight for a row of scalar, two of wmma, a warp for 16 rows of fp8 and of fast
/// with wgmma, four warps of fast without.
int threads_of(const KernelInfo& kernel, const KernelConfig& config) {
    if (config.wgmma) return config.block_m * 2;
    if (kernel.name == "fast") return 128;
    return config.block_m * (kernel.name == "wmma" || kernel.name == "fp8" ? 2 : 8);
}

/// Where no GPU can be asked: element by element in the order of the lanes.
void add_any_wmma_fragments(ThreadLayouts& threads) {
    std::vector<std::uint16_t> places(6 * 256);
    for (std::size_t i = 0; i < places.size(); ++i)
        places[i] = std::uint16_t(i % 256 /
                                      (i < 512    ? 16
                                       : i < 1024 ? 8
                                                  : 32) *
                                      256 +
                                  i % (i < 512    ? 16
                                       : i < 1024 ? 8
                                                  : 32));
    add_wmma_fragments(places, threads);
}

TEST(BundledThreads, CoverTheTilesOfEveryBuild) {
    for (const KernelInfo& kernel : all_kernels()) {
        for (const KernelConfig& config : kernel.configs) {
            SCOPED_TRACE(std::string(kernel.name) + " " + test_name(config));
            Problem problem;
            problem.seqlen_q = 100;
            problem.seqlen_kv = 200;
            problem.head_dim = problem.head_dim_v = config.head_dim;
            problem.block_m = config.block_m;
            problem.block_n = config.block_n;
            problem.l_lanes = recorded_of(kernel, config).l_lanes;
            problem.l_lane_columns = recorded_of(kernel, config).l_lane_columns;
            if (config.splits > 1)
                problem.kv_tiles_per_split = (problem.kv_tiles() + config.splits - 1) / config.splits;
            ThreadLayouts threads = kernel.threads(config);
            add_any_wmma_fragments(threads);
            ASSERT_NO_THROW(validate(threads, problem, "test"));
            const std::int64_t block = threads_of(kernel, config);
            for (const StageInfo& info : stages_of(problem)) {
                const auto map = thread_map(problem, info.stage, threads, "test");
                // What tensor maps copy no thread owns.
                if (config.wgmma && info.stage <= Stage::v) {
                    EXPECT_FALSE(map) << info.name;
                    continue;
                }
                ASSERT_TRUE(map) << info.name;
                // lse of a split kernel is stored by the first split alone.
                const bool by_one_split = config.splits > 1 && info.stage == Stage::lse;
                // A tile of few rows is copied by some of the warps.
                const bool copied = info.stage <= Stage::v;
                if (copied || by_one_split) {
                    EXPECT_LE(map->warps() * 32, block) << info.name;
                } else {
                    EXPECT_EQ(map->warps() * 32, block) << info.name;
                }
                const TileShape shape = tile_shape(problem, info.stage);
                EXPECT_GE(std::int64_t(map->registers()) * block, shape.elements()) << info.name;
            }
        }
    }
}

TEST(BundledThreads, OwnWhatTheyWriteOnTheCpu) {
    for (const KernelInfo& kernel : all_kernels()) {
        if (kernel.cpu.hooked == nullptr) continue;
        for (const KernelConfig& config : kernel.configs) {
            expect_declared_owners("--engine cpu --kernel " + std::string(kernel.name) +
                                   " --shape 1,2,70,100," + std::to_string(config.head_dim) + " --config " +
                                   config_name(config));
        }
    }
}

}  // namespace
}  // namespace tilescope::testing
