#pragma once

// In place of dump/hook.h where a mutant is run in float64: writes what its hooks would record, the last value of each
// place, and shares nothing with them but their names. What lies outside of the arrays is left out, as they leave it.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace wide {

/// batch, head, query block, KV tile, row, column
using Place = std::array<std::int32_t, 6>;

struct Trace {
    std::map<std::string, std::map<Place, double>> stages;
    Place block{};
    int block_m = 0, block_n = 0, seqlen_q = 0, seqlen_kv = 0, head_dim = 0;

    void sees(int m, int n, int queries, int keys, int d) {
        block_m = m, block_n = n, seqlen_q = queries, seqlen_kv = keys, head_dim = d;
    }

    static bool is_operand(const char* stage) {
        return std::strcmp(stage, "k") == 0 || std::strcmp(stage, "v") == 0;
    }
    static bool has_keys(const char* stage) {
        return std::strcmp(stage, "s") == 0 || std::strcmp(stage, "p") == 0;
    }
    static bool has_no_tile(const char* stage) {
        return std::strcmp(stage, "q") == 0 || std::strcmp(stage, "o") == 0 || std::strcmp(stage, "lse") == 0;
    }
    int rows(const char* stage) const { return is_operand(stage) ? block_n : block_m; }
    int columns(const char* stage) const { return has_keys(stage) ? block_n : head_dim; }

    void set(const char* stage, int tile, int row, int col, double value) {
        const bool operand = is_operand(stage);
        const int tile_there = has_no_tile(stage) ? 0 : tile;
        const int row_there = row + (operand ? tile_there * block_n : block[2] * block_m);
        const bool outside = row < 0 || row >= rows(stage) || row_there >= (operand ? seqlen_kv : seqlen_q) ||
                             col < 0 || col >= columns(stage) ||
                             (has_keys(stage) && tile * block_n + col >= seqlen_kv);
        if (!outside) stages[stage][{block[0], block[1], block[2], tile_there, row, col}] = value;
    }

    /// Of the thread's share of a tile whose rows are `ld` elements apart.
    template <class Value>
    void set_tile(const char* stage, int tile, const Value* values, int ld, int thread, int threads) {
        for (int i = thread; i < rows(stage) * columns(stage); i += threads) {
            const int row = i / columns(stage), col = i % columns(stage);
            set(stage, tile, row, col, number(values[row * ld + col]));
        }
    }

    template <class Values, class Places>
    void set_fragment(const char* stage, int tile, const Values& values, const Places& places) {
        for (int i = 0; i < int(sizeof(values) / sizeof(values[0])); ++i) {
            const auto at = places(i);
            set(stage, tile, at.row, at.col, number(values[i]));
        }
    }

    template <class Value>
    static double number(const Value& value) {
        if constexpr (requires { double(value); })
            return double(value);
        else
            return double(value.value);
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

namespace tilescope {

struct HookPlace {
    int row, col;
};
inline HookPlace nowhere() {
    return {-1, -1};
}
/// Columns first, first + step, ... of one row.
struct Columns {
    int row, first, step;
    HookPlace operator()(int i) const { return {row, first + i * step}; }
};
template <int size, class T>
std::array<T, size> strided(const T* values, int step) {
    std::array<T, size> taken;
    for (int i = 0; i < size; ++i) taken[std::size_t(i)] = values[i * step];
    return taken;
}

}  // namespace tilescope

#define TILESCOPE_HOST_SINK_PARAM(sink)
#define TILESCOPE_SINK_PARAM(sink)
#define TILESCOPE_SINK_ARG(sink)
#define TILESCOPE_BLOCK_PARAM
#define TILESCOPE_BLOCK_ARG
#define TILESCOPE_NAMED_TILE(name, id) static_assert(id >= 0)
#define TILESCOPE_BLOCK(sink, batch, head, q_block) \
    (::wide::trace.block = {int(batch), int(head), int(q_block)})
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value) \
    ::wide::trace.set(#stage, int(kv_tile), int(row), int(col), ::wide::trace.number(value))
#define TILESCOPE_TILE(stage, kv_tile, values, ld, thread, threads) \
    ::wide::trace.set_tile(#stage, int(kv_tile), values, ld, thread, threads)
#define TILESCOPE_FRAGMENT(stage, kv_tile, ...) ::wide::trace.set_fragment(#stage, int(kv_tile), __VA_ARGS__)
