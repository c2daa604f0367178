#pragma once

#include "oracle/judge/bytes.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

// The fields of a diagnosis, as tally_bytes.h has those of tallies. What replays a cause stays in the process that found it.

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, CauseParameter>
void each_field(Io& io, Of& parameter) {
    auto& [name, value] = parameter;
    io(name, value);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, ChangedSlot>
void each_field(Io& io, Of& change) {
    auto& [slot, was, becomes, where, is_in_sum, is_after_sum] = change;
    io(slot, was, becomes, where, is_in_sum, is_after_sum);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, ThreadSet>
void each_field(Io& io, Of& threads) {
    auto& [all, wrong] = threads;
    io(all, wrong);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, WrongThreads>
void each_field(Io& io, Of& threads) {
    auto& [warps, lanes, registers, warps_of_block, registers_of_thread, elements, among_right_ones, says] =
        threads;
    io(warps, lanes, registers, warps_of_block, registers_of_thread, elements, among_right_ones, says);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, FoundCause>
void each_field(Io& io, Of& cause) {
    auto& [name, family, says, look_at, stage, observed, explained_before, explained_after, elements,
           not_determined, parameters, rewrites, slots, changed_parts, free_parameters, bits, listed_bits,
           where, rank, legal, structural, race_alike, leaves_rest, changes, scope] = cause;
    static_cast<void>(changes);
    io(name, family, says, look_at, stage, observed, explained_before, explained_after, elements,
       not_determined, parameters, rewrites, slots, changed_parts, free_parameters, bits, listed_bits, where,
       rank, legal, structural, race_alike, leaves_rest, scope);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Assignment>
void each_field(Io& io, Of& assignment) {
    auto& [name, value] = assignment;
    io(name, value);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, SearchEnd>
void each_field(Io& io, Of& end) {
    auto& [cut_off, failed] = end;
    io(cut_off, failed);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Suggestion>
void each_field(Io& io, Of& suggestion) {
    auto& [assignments, then, searched, causes, end] = suggestion;
    io(assignments, then, searched, causes, end);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Prediction>
void each_field(Io& io, Of& prediction) {
    auto& [of, cause, compared, wrong, left, elsewhere] = prediction;
    io(of, cause, compared, wrong, left, elsewhere);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, StageAnswer>
void each_field(Io& io, Of& answer) {
    auto& [stage, kind, cause, made_in, computed, made_again] = answer;
    io(stage, kind, cause, made_in, computed, made_again);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Diagnosis>
void each_field(Io& io, Of& diagnosis) {
    auto& [suggestion, searched, causes, then, places, threads, prediction, separate_with, record_next,
           answers, end] = diagnosis;
    io(suggestion, searched, causes, then, places, threads, prediction, separate_with, record_next, answers,
       end);
}

}  // namespace tilescope
