#include "oracle/causes/rewrites.h"

#include <utility>

namespace tilescope {

Generator rewrites(std::vector<Rewrite> all) {
    return [all = std::move(all)](const Evidence&) { return always(rewritten(all)); };
}

Generator rewrites_with(std::string parameter, Constants constants, std::vector<Rewrite> all,
                        bool is_factor) {
    return [=](const Evidence& evidence) {
        std::vector<Candidate> candidates;
        for (const NamedConstant& constant : constants(evidence)) {
            std::vector<Rewrite> with = all;
            for (Rewrite& rewrite : with) rewrite.becomes = rewrite.becomes.with(constant.value);
            candidates.push_back({.parameters = {},
                                  .change = rewritten(std::move(with)),
                                  .free_parameters = constant.free_parameters,
                                  .is_factor = is_factor});
            if (!parameter.empty()) candidates.back().parameters = {{parameter, constant.name}};
        }
        return candidates;
    };
}

Generator where_declared(bool (*declared)(const Evidence&), Generator generate) {
    return [=, generate = std::move(generate)](const Evidence& evidence) {
        return declared(evidence) ? generate(evidence) : std::vector<Candidate>();
    };
}

Generator told(CauseParameter parameter, Generator generate, int free_parameters) {
    return [=, generate = std::move(generate)](const Evidence& evidence) {
        std::vector<Candidate> candidates = generate(evidence);
        for (Candidate& candidate : candidates) {
            candidate.parameters.push_back(parameter);
            candidate.free_parameters += free_parameters;
        }
        return candidates;
    };
}

Generator all_of(std::vector<Generator> all) {
    return [all = std::move(all)](const Evidence& evidence) {
        std::vector<Candidate> candidates;
        for (const Generator& generate : all)
            for (Candidate& candidate : generate(evidence)) candidates.push_back(std::move(candidate));
        return candidates;
    };
}

}  // namespace tilescope
