#include "oracle/causes/formulas.h"

#include <limits>

#include "oracle/causes/table.h"
#include "oracle/describe/bits.h"
#include "oracle/program/attention.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/judge_program.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// Elements of all stages: the program computes each of them.
constexpr std::int64_t most_elements = 1 << 22;
/// Elements that the search computes: about a second of one core.
constexpr std::int64_t most_searched = 60'000'000;

/// Of scores and probabilities, of the state after each KV tile, and of staged operands.
std::int64_t elements_of(const Problem& p) {
    const std::int64_t of_head = 4 * p.seqlen_q * p.seqlen_kv + p.seqlen_q * p.head_dim_v * p.kv_tiles() +
                                 p.q_blocks() * p.seqlen_kv * (p.head_dim + p.head_dim_v);
    return p.batch * p.heads * of_head;
}

FoundCause cause_of(const ProgramMistake& mistake, const Program& program, const Evidence& evidence) {
    FoundCause cause = told_of(cause_named(formula_name), evidence.observed);
    const std::string& stage = program.array(mistake.stage).name;
    // A stage of the program that no recording has is a part of the one that shows it.
    cause.stage = stage_from_name(stage).value_or(evidence.observed);
    cause.parameters = {{stage, mistake.becomes}};
    cause.rewrites = {{stage, mistake.becomes}};
    cause.where = mistake.where.empty() ? "everywhere" : "where " + mistake.where;
    cause.scope = mistake.where.empty() ? Scope::everywhere : Scope::ruled;
    cause.elements = mistake.elements;
    cause.explained_before = mistake.healthy;
    cause.explained_after = mistake.explained;
    cause.bits = mistake.bits;
    cause.listed_bits = listing_bits(evidence.wrong_elements, evidence.compared);
    return cause;
}

}  // namespace

std::vector<FoundCause> found_formulas(const Recording& recording, const Evidence& evidence,
                                       bool is_bounded) {
    const AttentionProgram declared = attention_program(recording);
    if (!declared.text) return {};
    if (is_bounded && elements_of(recording.problem()) > most_elements) throw EffortUsedUp();
    const Program program = parse_program(*declared.text);
    const AttentionInputs given = attention_inputs(recording);
    const ProgramCall call = bind_program(program, given.inputs, given.sizes);
    const RecordedAttention stored(recording, program);
    ProgramOptions options;
    options.searched_elements = is_bounded ? most_searched : std::numeric_limits<std::int64_t>::max();
    const ProgramReport report = judge_program(call, stored, options);
    const bool is_same_stage =
        report.first_wrong >= 0 &&
        stage_from_name(program.array(report.first_wrong).name) == std::optional(evidence.observed);
    if (!is_same_stage) return {};
    const FoundMistakes found = find_mistakes(call, stored, report, options);
    std::vector<FoundCause> causes;
    for (const ProgramMistake& mistake : found.mistakes) {
        // Many mistakes leave no number: of those that leave none anywhere it tells nothing.
        if (mistake.is_none) continue;
        causes.push_back(cause_of(mistake, program, evidence));
        causes.back().leaves_rest = found.sets_none_apart;
    }
    if (causes.empty() && found.is_cut_off) throw EffortUsedUp();
    return causes;
}

}  // namespace tilescope
