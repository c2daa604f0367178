#include "oracle/program/attention.h"

#include <algorithm>
#include <utility>

#include "oracle/program/attention_text.h"

namespace tilescope {

namespace {

/// Of rows, or of keys, of a shard. A zigzag has two.
constexpr std::size_t most_ranges = 8;

/// What a declaration says that the language has no words for; nullptr: nothing.
const char* unsaid(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& u = recording.units();
    struct Rule {
        bool applies;
        const char* why;
    };
    const Rule rules[] = {
        // A step's own o and lse are those of attention over its keys; others hold what was merged, or inputs alone.
        {p.shard.kind != ShardKind::step, "shards that are no step"},
        // Each is a condition, wherever a row or a key is compared, and up to three sizes.
        {std::max(p.shard.q_positions.size(), p.shard.kv_positions.size()) > most_ranges,
         "positions of a shard in more than 8 ranges"},
        // Each lane has a part of the sum, and its logarithm is of all of them.
        {u.m_from_lse && p.l_lanes > 1, "lanes of a maximum that goes on from the log-sum-exp"},
        // delta is a stage that follows from it.
        {p.direction == Direction::backward && !recording.has_input(Input::o), "gradients without o"},
        // A sum of what is divided by itself.
        {u.p_normalised && u.l_sums_cast_p, "a sum of P that is over the sum"},
    };
    for (const Rule& rule : rules) {
        if (rule.applies) return rule.why;
    }
    return nullptr;
}

/// Whether what is declared of splits says nothing that only their own outputs have.
bool is_merged_from_states(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& u = recording.units();
    return p.direction == Direction::forward && p.is_split() && p.sink != AttentionSink::last &&
           p.dtype_partial_o == Dtype::f32 && !u.acc_normalised && u.p_exp_error == 0;
}

}  // namespace

AttentionProgram attention_program(const Recording& recording, MergedFrom merged_from) {
    if (const char* const why = unsaid(recording)) return {std::nullopt, why};
    if (merged_from == MergedFrom::states && !is_merged_from_states(recording))
        return {std::nullopt, "splits that are merged from their outputs"};
    AttentionText text(recording);
    text.merged_from = merged_from;
    write_inputs(text);
    write_operands(text);
    write_scores(text);
    text.is_forward() ? write_softmax(text) : write_gradients(text);
    return {std::move(text.text), ""};
}

}  // namespace tilescope
