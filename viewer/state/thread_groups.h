#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dump/schema/thread_layout.h"

namespace tilescope::viewer {

/// Elements that belong together, since a thread, or threads of the same number, own them.
enum class ThreadGroup : std::uint8_t { none, warp, lane, reg, thread };

/// none, warp, lane, register and none again.
ThreadGroup next_colouring(ThreadGroup group);
/// none, thread, warp, lane, register and none again.
ThreadGroup next_alone(ThreadGroup group);

/// "warps", "lanes", "registers", "threads".
std::string_view to_string(ThreadGroup group);
bool in_same_group(ThreadGroup group, const Owner& a, const Owner& b);
/// The warp, lane or register.
int number_in(ThreadGroup group, const Owner& owner);
/// How many numbers there are.
int numbers_in(ThreadGroup group, const ThreadMap& threads);
/// "lane 5 of warp 0", "lane 5 of every warp", "warp 0", "register 3 of every thread".
std::string name_of_group(ThreadGroup group, const Owner& owner);

}  // namespace tilescope::viewer
