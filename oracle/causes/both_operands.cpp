#include "oracle/causes/both_operands.h"

#include <algorithm>
#include <utility>

namespace tilescope {

std::function<std::vector<Candidate>(const Evidence&)> of_both_operands(
    std::function<std::vector<Candidate>(const Evidence&)> generate) {
    return [generate = std::move(generate)](const Evidence& evidence) {
        std::vector<Candidate> candidates = generate(evidence);
        const bool both_show = evidence.observed == Stage::acc || evidence.observed == Stage::o;
        if (evidence.acts != Stage::k || !both_show || evidence.world->has(Stage::v)) return candidates;
        Evidence of_v = evidence;
        of_v.acts = Stage::v;
        const std::vector<Candidate> in_v = generate(of_v);
        std::vector<Candidate> both;
        for (const Candidate& in_k : candidates) {
            const auto same = std::ranges::find_if(in_v, [&](const Candidate& one) {
                return one.name == in_k.name && one.parameters == in_k.parameters;
            });
            if (same == in_v.end() || !in_k.change.inputs) continue;
            both.push_back(in_k);
            both.back().change.inputs_of_v = same->change.inputs;
            both.back().parameters.push_back({"of", "k and v"});
        }
        std::ranges::move(both, std::back_inserter(candidates));
        return candidates;
    };
}

}  // namespace tilescope
