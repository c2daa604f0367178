#include "kernels/attention/thread_layouts.h"

#include <algorithm>
#include <initializer_list>

namespace tilescope {

namespace {

constexpr std::int64_t warp_size = 32;
constexpr Stage rescale = named_tile(0);  ///< of bundled_tiles()

void declare(ThreadLayouts& threads, std::initializer_list<Stage> stages, const ThreadLayout& layout) {
    for (const Stage stage : stages) threads[stage] = layout;
}

ThreadLayout row_lanes(std::int64_t lanes) {
    return {.fragment = "lanes", .lanes = lanes};
}

/// Rows of `row_bytes` that `warps` warps copy to shared memory in chunks of 16 bytes, each thread a chunk,
/// as often as it takes.
ThreadLayout copied_rows(const KernelConfig& config, std::int64_t rows, std::int64_t element_bytes,
                         std::int64_t warps) {
    const std::int64_t columns = 16 / element_bytes;
    const std::int64_t lanes = config.head_dim / columns;
    return {.fragment = "lanes",
            .lanes = lanes,
            .lane_columns = columns,
            .groups = std::min(warps, rows * lanes / warp_size)};
}

void declare_copies(ThreadLayouts& threads, const KernelConfig& config, std::int64_t element_bytes,
                    std::int64_t warps) {
    threads[Stage::q] = copied_rows(config, config.block_m, element_bytes, warps);
    threads[Stage::k] = threads[Stage::v] = copied_rows(config, config.block_n, element_bytes, warps);
}

}  // namespace

ThreadLayouts scalar_threads(const KernelConfig& config) {
    constexpr std::int64_t lanes = 8;
    ThreadLayouts threads;
    declare_copies(threads, config, 2, config.block_m * lanes / warp_size);
    declare(threads, {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse, rescale},
            row_lanes(lanes));
    return threads;
}

ThreadLayouts wmma_threads(const KernelConfig& config) {
    constexpr std::int64_t lanes = 2;
    ThreadLayouts threads;
    declare_copies(threads, config, 2, config.block_m * lanes / warp_size);
    declare(threads, {Stage::s, Stage::acc}, {.fragment = "wmma_16x16_f32"});
    declare(threads, {Stage::m, Stage::p, Stage::l, Stage::o, Stage::lse, rescale}, row_lanes(lanes));
    return threads;
}

namespace {

/// Eight warps own 16 rows each. What tensor maps copy no thread owns.
ThreadLayouts fast_hopper_threads() {
    ThreadLayouts threads;
    declare(threads, {Stage::s, Stage::m, Stage::p, Stage::acc, Stage::o, Stage::lse},
            {.fragment = "mma_m16n8", .group_rows = 16});
    threads[Stage::l] = {.fragment = "lanes", .lanes = 4, .group_rows = 16};
    return threads;
}

}  // namespace

ThreadLayouts fast_threads(const KernelConfig& config) {
    if (config.wgmma) return fast_hopper_threads();
    constexpr std::int64_t warps = 4;
    const std::int64_t split_warps = warps / config.splits;
    const std::int64_t own = config.splits > 1 ? split_warps : 0;
    const std::int64_t rows = config.block_m / split_warps;
    ThreadLayouts threads;
    declare_copies(threads, config, 2, split_warps);
    threads[Stage::q] = copied_rows(config, config.block_m, 2, warps);
    threads[Stage::k].split_groups = threads[Stage::v].split_groups = own;
    declare(threads, {Stage::s, Stage::m, Stage::p, Stage::acc},
            {.fragment = "mma_m16n8", .group_rows = rows, .split_groups = own});
    threads[Stage::l] = {.fragment = "lanes", .lanes = 4, .group_rows = rows, .split_groups = own};
    threads[Stage::lse] = {.fragment = "mma_m16n8", .group_rows = rows};
    // Each split stores a part of the features.
    threads[Stage::o] = {
        .fragment = "mma_m16n8", .group_rows = rows, .group_cols = config.head_dim / config.splits};
    return threads;
}

ThreadLayouts fp8_threads(const KernelConfig& config) {
    if (config.wgmma) return fast_hopper_threads();
    ThreadLayouts threads;
    declare_copies(threads, config, 1, config.block_m / 16);
    declare(threads, {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse},
            {.fragment = "mma_m16n8"});
    return threads;
}

}  // namespace tilescope
