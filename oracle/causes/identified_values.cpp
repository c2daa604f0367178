// Mistakes that change each value by itself: the function is read out of pairs of what is right and what is
// there.

#include "oracle/causes/readable_values.h"

namespace tilescope {

namespace {

void add_functions_of_value(const Evidence& evidence, const ReadableValue& value, const std::string& name,
                            CurveCandidates& candidates) {
    add_curves(evidence, value.points(evidence), name, value.change, candidates);
}

std::vector<Candidate> function_of_value(const Evidence& evidence) {
    CurveCandidates candidates;
    for (const ReadableValue& value : readable_results(evidence))
        add_functions_of_value(
            evidence, value, value.told.empty() ? value.name : value.name + " in " + value.told, candidates);
    for (const ReadableValue& value : readable_arguments(evidence)) {
        CurveCandidates found;
        add_functions_of_value(evidence, value, value.name, found);
        for (std::vector<Candidate>* list : {&found.round, &found.others}) {
            for (Candidate& candidate : *list) {
                candidate.parameters[0].value = "exp of " + candidate.parameters[0].value;
                candidate.parameters.push_back({value.name, value.told});
            }
        }
        candidates.round.insert(candidates.round.end(), found.round.begin(), found.round.end());
        candidates.others.insert(candidates.others.end(), found.others.begin(), found.others.end());
    }
    return candidates.all();
}

std::vector<Candidate> function_of_score_part(const Evidence& evidence) {
    CurveCandidates candidates;
    for (const ReadableValue& value : readable_score_parts(evidence))
        add_functions_of_value(evidence, value, value.name, candidates);
    return candidates.all();
}

}  // namespace

std::vector<Cause> identified_value_causes() {
    const std::vector<Stage> all = {Stage::q,  Stage::k,   Stage::v,  Stage::s,   Stage::m,    Stage::p,
                                    Stage::l,  Stage::acc, Stage::o,  Stage::lse, Stage::dout, Stage::delta,
                                    Stage::dp, Stage::ds,  Stage::dq, Stage::dk,  Stage::dv};
    return {
        {"function_of_value", "values", all, "each value is passed through a function that it should not be",
         "what is done to the value between its computation and where it is kept", function_of_value},
        {"function_of_score_part",
         "values",
         {Stage::s},
         "a part of each score is passed through a function that it should not be",
         "the steps from q k over sm_scale and soft cap to the bias",
         function_of_score_part},
    };
}

}  // namespace tilescope
