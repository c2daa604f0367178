#pragma once

#include "kernels/attention/platform.h"
#include "kernels/attention/steps.h"

namespace tilescope::KERNEL_BUILD {

/// Starts the copy of rows [rows.first, rows.first + count) of a [seqlen][head_dim] matrix, whose rows are
/// `stride` elements apart, to a shared tile with leading dimension Config::ld. Rows from rows.end on become
/// zero.
template <class Config, class Block, class Element>
KERNEL_FUNCTION void stage_rows(Block& block, Element* tile, const Element* matrix, RowRange rows, int count,
                                std::int64_t stride = Config::head_dim) {
    constexpr int chunk = 16 / int(sizeof(Element));
    constexpr int chunks = Config::head_dim / chunk;
    block.each_thread([&](int thread) {
        KERNEL_ROLLED
        for (int i = thread; i < count * chunks; i += Config::threads) {
            const int row = i / chunks;
            const int column = i % chunks * chunk;
            const bool inside = rows.first + row < rows.end;
            const std::int64_t source = inside ? std::int64_t(rows.first + row) * stride + column : 0;
            block.copy_async(tile + row * Config::ld + column, matrix + source, inside);
        }
    });
}

}  // namespace tilescope::KERNEL_BUILD
