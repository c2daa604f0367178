#include "dump/schema/wmma_fragments.h"

#include <algorithm>

#include "dump/hook/sink.h"

namespace tilescope {

namespace {

struct Accumulator {
    const char* name;
    std::int64_t rows;
    std::int64_t cols;
};

/// In the order of wmma_table_of().
constexpr Accumulator accumulators[wmma_tables] = {
    {"wmma_16x16_f32", 16, 16}, {"wmma_16x16_f16", 16, 16}, {"wmma_32x8_f32", 32, 8},
    {"wmma_32x8_f16", 32, 8},   {"wmma_8x32_f32", 8, 32},   {"wmma_8x32_f16", 8, 32},
};

bool lacks(const ThreadLayouts& layouts, const char* name) {
    return std::ranges::find(layouts.stages, name, &ThreadLayout::fragment) != layouts.stages.end() &&
           std::ranges::find(layouts.fragments, name, &Fragment::name) == layouts.fragments.end();
}

}  // namespace

bool needs_wmma_fragments(const ThreadLayouts& layouts) {
    return std::ranges::any_of(accumulators, [&](const Accumulator& a) { return lacks(layouts, a.name); });
}

void add_wmma_fragments(std::span<const std::uint16_t> places, ThreadLayouts& layouts) {
    constexpr int lanes = 32;
    constexpr int places_of_table = lanes * wmma_values;
    for (int table = 0; table < wmma_tables; ++table) {
        const Accumulator& accumulator = accumulators[table];
        const auto of_table = places.subspan(std::size_t(table) * places_of_table, places_of_table);
        if (!lacks(layouts, accumulator.name)) continue;
        Fragment fragment{accumulator.name, accumulator.rows, accumulator.cols, {}};
        fragment.owners.resize(std::size_t(fragment.rows * fragment.cols));
        for (int i = 0; i < places_of_table; ++i) {
            const int at = of_table[std::size_t(i)];
            fragment.owners.at(std::size_t(at / 256 * fragment.cols + at % 256)) = {i / wmma_values,
                                                                                    i % wmma_values};
        }
        layouts.fragments.push_back(std::move(fragment));
    }
}

}  // namespace tilescope
