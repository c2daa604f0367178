#include "viewer/state/thread_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tilescope::viewer {

namespace {

struct GroupInfo {
    ThreadGroup group;
    std::string_view name;
    ThreadGroup next_colouring;
    ThreadGroup next_alone;
    bool (*same)(const Owner& a, const Owner& b);
    std::string (*says)(const Owner& owner);
};

using enum ThreadGroup;

constexpr std::array groups = {
    GroupInfo{none, "none", warp, thread, [](const Owner&, const Owner&) { return true; },
              [](const Owner&) { return std::string(); }},
    GroupInfo{warp, "warps", lane, lane, [](const Owner& a, const Owner& b) { return a.warp == b.warp; },
              [](const Owner& owner) { return fmt::format("warp {}", owner.warp); }},
    GroupInfo{lane, "lanes", reg, reg, [](const Owner& a, const Owner& b) { return a.lane == b.lane; },
              [](const Owner& owner) { return fmt::format("lane {} of every warp", owner.lane); }},
    GroupInfo{reg, "registers", none, none, [](const Owner& a, const Owner& b) { return a.reg == b.reg; },
              [](const Owner& owner) { return fmt::format("register {} of every thread", owner.reg); }},
    GroupInfo{thread, "threads", none, warp,
              [](const Owner& a, const Owner& b) { return a.warp == b.warp && a.lane == b.lane; },
              [](const Owner& owner) { return fmt::format("lane {} of warp {}", owner.lane, owner.warp); }},
};

const GroupInfo& info_of(ThreadGroup group) {
    return *std::ranges::find(groups, group, &GroupInfo::group);
}

constexpr int lanes_of_warp = 32;

}  // namespace

ThreadGroup next_colouring(ThreadGroup group) {
    return info_of(group).next_colouring;
}

ThreadGroup next_alone(ThreadGroup group) {
    return info_of(group).next_alone;
}

std::string_view to_string(ThreadGroup group) {
    return info_of(group).name;
}

bool in_same_group(ThreadGroup group, const Owner& a, const Owner& b) {
    return info_of(group).same(a, b);
}

int number_in(ThreadGroup group, const Owner& owner) {
    return group == lane ? owner.lane : group == reg ? owner.reg : owner.warp;
}

int numbers_in(ThreadGroup group, const ThreadMap& threads) {
    return group == lane ? lanes_of_warp : group == reg ? threads.registers() : threads.warps();
}

std::string name_of_group(ThreadGroup group, const Owner& owner) {
    return info_of(group).says(owner);
}

}  // namespace tilescope::viewer
