#pragma once

// What the macros of program_hook.h call: include that one. A sink of a declared kernel has a room for each stage that is
// recorded, row-major along the axes that the text gives it.

#include <cstdint>

#include "dump/hook/fragment.h"
#include "dump/hook/program_sink.h"
#include "dump/hook/rows.h"
#include "dump/hook/source.h"
#include "dump/hook/write.h"

namespace tilescope {

/// A stage as a text declares it, which hooks look up while they are compiled.
struct HookedStage {
    int number = -1;  ///< among the stages; -1: the text has none of that name
    int dims = 0;     ///< its axes, and the blocks that it goes over

    TILESCOPE_HOOK constexpr bool is_declared() const { return number >= 0; }
};

namespace program_letters {
TILESCOPE_HOOK constexpr bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
TILESCOPE_HOOK constexpr bool is_of_word(char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
}
/// Behind blanks and comments from `at` on.
TILESCOPE_HOOK constexpr const char* behind_blanks(const char* at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r' || *at == '#') {
        if (*at == '#') {
            while (*at != 0 && *at != '\n') ++at;
        } else {
            ++at;
        }
    }
    return at;
}
TILESCOPE_HOOK constexpr const char* behind_word(const char* at) {
    while (is_of_word(*at)) ++at;
    return at;
}
/// Whether `word` stands at `at`, and ends there.
TILESCOPE_HOOK constexpr bool is_word(const char* at, const char* word) {
    while (*word != 0 && *at == *word) ++at, ++word;
    return *word == 0 && !is_of_word(*at);
}
}  // namespace program_letters

/// What a text declares of a stage. `stage` and `over` are words that no name can be.
TILESCOPE_HOOK constexpr HookedStage hooked_stage(const char* text, const char* name) {
    using namespace program_letters;
    HookedStage stage;
    int number = 0;
    const char* at = behind_blanks(text);
    while (*at != 0) {
        const bool is_stage = is_word(at, "stage");
        at = is_letter(*at) ? behind_word(at) : at + 1;
        at = behind_blanks(at);
        if (!is_stage) continue;
        if (is_word(at, name)) {
            stage.number = number;
            at = behind_blanks(behind_word(at));
            if (*at == '[') {
                stage.dims = 1;
                for (; *at != 0 && *at != ']'; ++at) stage.dims += *at == ',' ? 1 : 0;
                if (*at == ']') at = behind_blanks(at + 1);
            }
            if (is_word(at, "over")) ++stage.dims;
            return stage;
        }
        ++number;
    }
    return stage;
}

/// The hooks of a kernel: `Text` has its program.
template <class Text>
struct ProgramHooks {
    const ProgramSink* sink;

    TILESCOPE_HOOK bool keeps(int stage) const { return (sink->stages >> unsigned(stage) & 1u) != 0; }
    TILESCOPE_HOOK ProgramRoom& room(int stage) const { return sink->rooms[stage]; }
    TILESCOPE_HOOK static constexpr HookedStage stage(const char* name) {
        return hooked_stage(Text::text(), name);
    }
};

/// Indices of an element: the block of a state, and then those along the axes.
template <int dims>
struct HookIndices {
    int of[dims == 0 ? 1 : dims];
};
template <class... Indices>
TILESCOPE_HOOK HookIndices<int(sizeof...(Indices))> hook_indices(Indices... indices) {
    return {{int(indices)...}};
}

/// Records one element. By exchange: of two racing threads the second sees the first one's bits.
template <int dims>
TILESCOPE_HOOK void hook_program_element(ProgramRoom& room, const HookIndices<dims>& at, std::uint32_t bits) {
    std::uint64_t address = 0;
    bool is_recorded = true;
    bool is_outside = false;
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < dims; ++i) {
        const ProgramRoomDim dim = room.dims[i];
        const unsigned within = unsigned(at.of[i]) - unsigned(dim.first);
        is_outside = is_outside || unsigned(at.of[i]) >= unsigned(dim.padded);
        is_recorded = is_recorded && within < unsigned(dim.count);
        address = address * unsigned(dim.count) + within;
    }
    if (is_outside) {
        if (hook_count_from(&room.outside, 1) == 0) {
            TILESCOPE_HOOK_UNROLL
            for (int i = 0; i < dims; ++i) room.first_outside[i] = at.of[i];
        }
        return;
    }
    if (!is_recorded) return;
    const std::uint32_t before = hook_exchange(room.words + address, bits);
    if (before != unwritten_bits && before != bits) hook_count_from(&room.conflicts, 1);
}

/// Places count from `corner` in the last two dimensions, of which a stage with one has the last alone.
template <int dims>
TILESCOPE_HOOK HookIndices<dims> hook_moved(HookIndices<dims> corner, int row, int col) {
    if constexpr (dims >= 2) corner.of[dims - 2] += row;
    if constexpr (dims >= 1) corner.of[dims - 1] += col;
    return corner;
}

template <int declared, int dims>
TILESCOPE_HOOK void hook_require_dims() {
    static_assert(declared == dims,
                  "a hook gives an index for each axis of the stage, in the order of the text, and before "
                  "them the block of "
                  "the axis that it goes over");
}

template <int number, int declared, class Text, int dims, class T>
TILESCOPE_HOOK void hook_program_value(const ProgramHooks<Text>& hooks, const HookIndices<dims>& at,
                                       const T& value) {
    hook_require_dims<declared, dims>();
    if (hooks.keeps(number)) hook_program_element(hooks.room(number), at, hook_kept_bits(value));
}

/// `rows` x `cols` elements in memory, of which a thread takes every `threads`-th. What lies outside the stage is not read.
template <int number, int declared, class Text, int dims, class Data>
TILESCOPE_HOOK void hook_program_tile(const ProgramHooks<Text>& hooks, const HookIndices<dims>& corner,
                                      int rows, int cols, Data data, int ld, int thread, int threads) {
    hook_require_dims<declared, dims>();
    static_assert(dims >= 2, "a stage of one axis has no tiles: hook it through TILESCOPE_PROGRAM_VALUE");
    if (!hooks.keeps(number)) return;
    ProgramRoom& room = hooks.room(number);
    hook_walk(rows, cols, thread, threads, [&](int row, int col) {
        const HookIndices<dims> at = hook_moved(corner, row, col);
        const bool is_inside = unsigned(at.of[dims - 2]) < unsigned(room.dims[dims - 2].extent) &&
                               unsigned(at.of[dims - 1]) < unsigned(room.dims[dims - 1].extent);
        hook_program_element(room, at, is_inside ? hook_kept_bits(hook_at(data, ld, row, col)) : 0u);
    });
}

/// Registers, whose places in the tile `places` tells as in TILESCOPE_FRAGMENT. Of a stage with one axis, and of copies of the
/// numbers of rows, the row counts along the last one.
template <int number, int declared, bool are_rows, class Text, int dims, class Values, class Places>
TILESCOPE_HOOK void hook_program_fragment(const ProgramHooks<Text>& hooks, const HookIndices<dims>& corner,
                                          const Values& values, const Places& places) {
    hook_require_dims<declared, dims>();
    static_assert(are_rows || dims >= 2, "a stage of one axis has rows alone: TILESCOPE_PROGRAM_ROWS");
    if (!hooks.keeps(number)) return;
    ProgramRoom& room = hooks.room(number);
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < hook_size(values); ++i) {
        const HookPlace place = places(i);
        if (place.row == hook_nowhere) continue;
        hook_program_element(
            room, are_rows ? hook_moved(corner, 0, place.row) : hook_moved(corner, place.row, place.col),
            hook_kept_bits(hook_element_of(values, i)));
    }
}

/// Notes in the room of a stage that a hook recorded something of it, as hook_note() does.
template <int number, std::uint32_t id, class Hooks>
TILESCOPE_HOOK void hook_program_note(const Hooks& hooks, const char* file, int line) {
    if (!hooks.keeps(number)) return;
    SinkHook* const lines = hooks.room(number).hooks;
    if (hook_get(&lines[id % program_hooks].id) != id)
        hook_enter<program_hooks>(lines, id, Stage::q, file, line);
}

}  // namespace tilescope
