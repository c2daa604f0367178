#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope {

/// One call of a bundled kernel without hooks.
struct GatedCall {
    std::string kernel;
    std::string config;                       ///< empty: the default
    std::string shape = "4,16,2048,2048,64";  ///< "B,H,Sq,Skv,D"
    std::string heads_kv;                     ///< empty: as many as heads
    std::string mask = "none";                ///< none or causal
    std::string dtype = "f16";
};

/// The words of `tile-gate measure` that ask for the call.
std::vector<std::string> measure_arguments(const GatedCall& call);

/// "fast 128x128x2xwgmma f16 4,16,2048,2048,64 causal"
std::string describe(const GatedCall& call);

/// What ncu counted in a launch.
struct LaunchCounters {
    std::string function;
    std::map<std::string, double> values;  ///< by the metric's name, in base units
    std::map<std::string, std::string> units;
};

/// The launches of a page that `ncu --csv --metrics` prints, whatever stands around it. Metrics that this GPU or this ncu does
/// not have are left out.
std::vector<LaunchCounters> read_ncu_page(std::string_view text);

struct Profile {
    std::vector<std::string> command;
    LaunchCounters counters;
};

/// Counts one launch of the call by ncu: the first one, or the first whose function has that name.
/// Errors: Error where ncu is not here, may not read the GPU's counters, or counts no launch.
Profile profile_call(const GatedCall& call, const std::string& function = "");

std::string to_text(const Profile& profile, const GatedCall& call);
std::string to_json(const Profile& profile, const GatedCall& call);

}  // namespace tilescope
