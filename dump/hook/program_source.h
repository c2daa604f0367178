#pragma once

// Which line of which file recorded a stage of a declared kernel. As dump/hook/source.h has it, in the room of the stage.

#include <cstdint>

#include "dump/hook/program_sink.h"
#include "dump/hook/source.h"

namespace tilescope {

/// FNV-1a of file and line, and not 0.
TILESCOPE_HOOK constexpr std::uint32_t hook_program_id(const char* path, int line) {
    return hook_id(path, line, Stage::q);
}

/// Finds the hook's entry, or writes it to the first free place; of more hooks than there are places some are left out.
TILESCOPE_HOOK void hook_program_enter(ProgramHookLine* hooks, std::uint32_t id, const char* file, int line) {
    TILESCOPE_HOOK_ROLLED
    for (unsigned i = 0; i < program_hook_lines; ++i) {
        ProgramHookLine& hook = hooks[(id + i) % program_hook_lines];
        const std::uint32_t here = hook_get(&hook.id);
        if (here == id) return;
        if (here != 0) continue;
        const std::uint32_t found = hook_compare_exchange(&hook.id, 0, id);
        if (found != 0 && found != id) continue;
        // Again, for the cache of this multiprocessor, which an atomic passes by.
        hook_set(&hook.id, id);
        if (found == id) return;
        TILESCOPE_HOOK_ROLLED
        for (int at = 0; at < int(sizeof hook.file) && file[at] != 0; ++at) hook.file[at] = file[at];
        hook_set(&hook.line, std::uint32_t(line));
        return;
    }
}

/// Notes that a hook recorded something of a stage.
template <int number, std::uint32_t id, class Hooks>
TILESCOPE_HOOK void hook_program_note(const Hooks& hooks, const char* file, int line) {
    if (!hooks.keeps(number)) return;
    ProgramHookLine* const lines = hooks.room(number).hooks;
    if (hook_get(&lines[id % program_hook_lines].id) != id) hook_program_enter(lines, id, file, line);
}

}  // namespace tilescope
