#pragma once

// Which line of which file recorded a stage. Behind what it recorded, a hook looks at its entry of a table in the sink, and the
// first thread that finds none writes it.

#include <cstdint>

#include "dump/hook/device.h"
#include "dump/hook/sink.h"
#include "dump/hook/write.h"

namespace tilescope {

TILESCOPE_HOOK constexpr int hook_length(const char* text) {
    int length = 0;
    while (text[length] != 0) ++length;
    return length;
}

TILESCOPE_HOOK constexpr bool hook_is_slash(char letter) {
    return letter == '/' || letter == '\\';
}

/// Where the part of a path begins that is kept: an absolute path is cut to its last two components, so that no recording
/// names a folder of a machine, and one that is too long at a component that leaves what fits.
TILESCOPE_HOOK constexpr int hook_file_begin(const char* path) {
    const int length = hook_length(path);
    const bool absolute = hook_is_slash(path[0]) || (length > 1 && path[1] == ':');
    int begin = absolute ? length : 0;
    for (int slashes = 0; absolute && begin > 0; --begin) {
        if (hook_is_slash(path[begin - 1]) && ++slashes == 2) break;
    }
    constexpr int room = int(sizeof(SinkHook::file));
    for (int at = begin; length - begin > room && at < length; ++at) {
        if (hook_is_slash(path[at])) begin = at + 1;
    }
    return length - begin > room ? length - room : begin;
}

/// FNV-1a of what a hook is, and not 0.
TILESCOPE_HOOK constexpr std::uint32_t hook_id(const char* path, int line, Stage stage) {
    std::uint32_t hash = 0x811c9dc5u;
    for (int i = hook_file_begin(path); path[i] != 0; ++i) {
        hash = (hash ^ static_cast<unsigned char>(path[i])) * 0x01000193u;
    }
    for (std::uint32_t rest = unsigned(line) * 32u + unsigned(stage); rest != 0; rest /= 256u) {
        hash = (hash ^ (rest & 255u)) * 0x01000193u;
    }
    return hash == 0 ? 1 : hash;
}

/// Finds the hook's entry, or writes it to the first free place from the hook's own on, if there is one.
template <unsigned places = sink_hooks>
TILESCOPE_HOOK void hook_enter(SinkHook* hooks, std::uint32_t id, Stage stage, const char* file, int line) {
    TILESCOPE_HOOK_ROLLED
    for (unsigned i = 0; i < places; ++i) {
        SinkHook& hook = hooks[(id + i) % places];
        // Looked at once: of two looks the second may find what another thread wrote after the first.
        const std::uint32_t here = hook_get(&hook.id);
        if (here == id) return;
        if (here != 0) continue;
        const std::uint32_t found = hook_compare_exchange(&hook.id, 0, id);
        if (found != 0 && found != id) continue;
        // Again, for the cache of this multiprocessor, which an atomic passes by.
        hook_set(&hook.id, id);
        if (found == id) return;
        hook.stage = stage;
        TILESCOPE_HOOK_ROLLED
        for (int at = 0; at < int(sizeof hook.file) && file[at] != 0; ++at) hook.file[at] = file[at];
        hook_set(&hook.line, std::uint32_t(line));
        return;
    }
}

/// Notes that a hook recorded a stage of the block. Mostly it finds its entry at its own place, whose address the compiler
/// knows: a look there before the search, and behind what the hook recorded, takes no register of a kernel's.
template <std::uint32_t id>
TILESCOPE_HOOK void hook_note(const HookBlock& block, Stage stage, const char* file, int line) {
    if (!block.keeps(stage) || (block.stages & sink_notes_hooks) == 0) return;
    SinkHook* const hooks = block.sink->counters->hooks;
    if (hook_get(&hooks[id % sink_hooks].id) != id) hook_enter(hooks, id, stage, file, line);
}
template <std::uint32_t id>
TILESCOPE_HOOK void hook_note(HookNothing, Stage, const char*, int) {}

}  // namespace tilescope
