#include "tests/oracle/backward_options.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace tilescope::test {

namespace {

/// Of stages that the backward pass has not. Its lse is always that with the sink.
constexpr std::string_view forward_alone[] = {
    "lse_without_sink",
    "raw_acc_tensor",
    "raw_acc_head",
    "m_unscaled",
    "m_base_two",
    "m_stale",
    "l_scale",
    "acc_scale",
    "l_lanes",
    "splits",
    "reverse",
    "uneven_splits",
    "m_from_lse",
    "p_of_tile_max",
    "p_normalised",
    "acc_normalised",
    "raw_v_channel",
    "raw_acc_channel",

    "p_takes_descale_block",

    "p_holds_descale_block",
};

constexpr Option backward_alone[] = {
    {"dkv_per_head", "dkv_per_head", [](AttentionCall& c, Random&) { c.problem.dkv_per_head = true; }},
    {"ds_scale", "ds_scale", [](AttentionCall& c, Random&) { c.units.ds_scale = c.problem.sm_scale; }},
    {"ds_not_capped", "ds_capped",
     [](AttentionCall& c, Random& random) {
         if (c.problem.logits_soft_cap == 0) c.problem.logits_soft_cap = 1 + double(random() % 100) / 50;
         c.units.ds_capped = false;
     }},
};

bool is_of_backward_alone(const Option* option) {
    return std::ranges::any_of(backward_alone, [&](const Option& other) { return &other == option; });
}

}  // namespace

std::span<const Option* const> backward_options() {
    static const std::vector<const Option*> options = [] {
        std::vector<const Option*> all;
        for (const Option& option : value_options()) {
            if (std::ranges::find(forward_alone, option.name) == std::end(forward_alone))
                all.push_back(&option);
        }
        for (const Option& option : backward_alone) all.push_back(&option);
        return all;
    }();
    return options;
}

BackwardCall backward_call_with(std::span<const Option* const> options, std::uint64_t seed) {
    std::vector<const Option*> forward;
    std::ranges::copy_if(options, std::back_inserter(forward),
                         [](const Option* option) { return !is_of_backward_alone(option); });
    AttentionCall attention = call_with(forward, seed);
    for (const Option* option : options) {
        if (!is_of_backward_alone(option)) continue;
        Random random(seed * 1013 + std::uint64_t(option - backward_alone));
        option->apply(attention, random);
    }
    std::vector<float> dout = draw_dout(attention.problem, seed);
    return backward_call(attention, std::move(dout));
}

}  // namespace tilescope::test
