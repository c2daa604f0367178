#pragma once

// In place of dump/hook.h where a mutant is run in float64: writes what its hooks would record, the last value of each
// place, and shares nothing with them but their names.

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

namespace wide {

/// batch, head, query block, KV tile, row, column
using Place = std::array<std::int32_t, 6>;

struct Trace {
    std::map<std::string, std::map<Place, double>> stages;
    Place block{};

    void set(const char* stage, int tile, int row, int col, double value) {
        stages[stage][{block[0], block[1], block[2], tile, row, col}] = value;
    }

    /// Lines of the stage, the place and the value.
    bool write(const char* path) const {
        std::FILE* const file = std::fopen(path, "w");
        if (file == nullptr) return false;
        for (const auto& [stage, values] : stages) {
            for (const auto& [at, value] : values)
                std::fprintf(file, "%s %d %d %d %d %d %d %.17g\n", stage.c_str(), at[0], at[1], at[2], at[3],
                             at[4], at[5], value);
        }
        return std::fclose(file) == 0;
    }
};

inline Trace trace;

}  // namespace wide

#define TILESCOPE_HOST_SINK_PARAM(sink)
#define TILESCOPE_SINK_ARG(sink)
#define TILESCOPE_BLOCK_PARAM
#define TILESCOPE_BLOCK_ARG
#define TILESCOPE_BLOCK(sink, batch, head, q_block) \
    (::wide::trace.block = {int(batch), int(head), int(q_block)})
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value) \
    ::wide::trace.set(#stage, int(kv_tile), int(row), int(col), double(value))
