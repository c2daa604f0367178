#include "oracle/options.h"

#include <fmt/format.h>

namespace tilescope {

namespace {

void add_call(const Problem& p, const Recording& recording, std::vector<std::string>& options) {
    const bool exclusive = p.window_bounds == WindowBounds::exclusive;
    if (p.window_left >= 0 || p.window_right >= 0)
        options.push_back(
            fmt::format("window {}, {}{}", p.window_left, p.window_right, exclusive ? " exclusive" : ""));
    if (p.logits_soft_cap != 0) options.push_back(fmt::format("soft cap {:g}", p.logits_soft_cap));
    if (p.alibi != Alibi::none)
        options.push_back(p.alibi == Alibi::linear ? "ALiBi, linear" : "ALiBi, by distance");
    if (recording.has_bias()) options.push_back("bias");
    if (p.sink != AttentionSink::none)
        options.push_back(p.sink == AttentionSink::first ? "sink first" : "sink last");
}

void add_inputs(const SideInputs& side, std::vector<std::string>& options) {
    if (!side.seqlens_q.empty() || !side.seqlens_kv.empty()) options.push_back("lengths by batch entry");
    std::string descaled;
    for (const auto& [name, descale] :
         {std::pair{" q", &side.descale_q}, {" k", &side.descale_k}, {" v", &side.descale_v}})
        if (!descale->empty()) descaled += name;
    if (!descaled.empty()) options.push_back("descales of" + descaled);
}

void add_kernel(const Problem& p, const Units& u, std::vector<std::string>& options) {
    if (u.p_scale != 1) options.push_back(fmt::format("P times {:g}", u.p_scale));
    if (u.m_stale_threshold > 0) options.push_back(fmt::format("m stale by up to {:g}", u.m_stale_threshold));
    if (p.l_lanes > 1) options.push_back(fmt::format("l of {} lanes", p.l_lanes));
    if (p.kv_tiles_per_split > 0)
        options.push_back(fmt::format("splits of {} KV tiles", p.kv_tiles_per_split));
    if (u.kv_order == KvOrder::reverse) options.push_back("KV tiles in reverse");
}

}  // namespace

std::vector<std::string> options_of(const Recording& recording) {
    std::vector<std::string> options;
    add_call(recording.problem(), recording, options);
    add_inputs(recording.side_inputs(), options);
    add_kernel(recording.problem(), recording.units(), options);
    return options;
}

}  // namespace tilescope
