#pragma once

#include "oracle/judge/bytes.h"
#include "oracle/judge/judge_tiles.h"
#include "oracle/judge/references.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

// The fields of what processes found. Each is bound to a name, so that one that is new does not compile before it is here.

template <class Io, class Tally>
requires std::is_same_v<std::remove_const_t<Tally>, StageTally>
void each_field(Io& io, Tally& tally) {
    auto& [tiles, tiles_missing, compared, not_judged, outside, nan, infinite, unwritten, conflicting,
           saturated, most_saturated, inherited, max_abs, max_ulp, budget_used, highest_lower, lowest_upper,
           first, first_nan, first_infinite, first_unwritten, worst, bad_rows, least_got, most_got,
           highest_half_lower, lowest_half_upper] = tally;
    io(tiles, tiles_missing, compared, not_judged, outside, nan, infinite, unwritten, conflicting, saturated,
       most_saturated, inherited, max_abs, max_ulp, budget_used, highest_lower, lowest_upper, first,
       first_nan, first_infinite, first_unwritten, worst, bad_rows, least_got, most_got, highest_half_lower,
       lowest_half_upper);
}

template <class Io, class Part>
requires std::is_same_v<std::remove_const_t<Part>, JudgedPart>
void each_field(Io& io, Part& part) {
    auto& [stages, drift] = part;
    for (auto& tally : stages) {
        bool is_empty = tally.tiles == 0 && tally.tiles_missing == 0;
        io(is_empty);
        if (!is_empty) io(tally);
    }
    io(drift);
}

template <class Io, class Found>
requires std::is_same_v<std::remove_const_t<Found>, Failure>
void each_field(Io& io, Found& failure) {
    auto& [piece, process, is_of_memory, line, thrown] = failure;
    static_cast<void>(thrown);  // of one process
    io(piece, process, is_of_memory, line);
}

template <class Io, class Tiles>
requires std::is_same_v<std::remove_const_t<Tiles>, TilesFound>
void each_field(Io& io, Tiles& tiles) {
    auto& [part, failure] = tiles;
    io(part, failure);
}

template <class Io, class Output>
requires std::is_same_v<std::remove_const_t<Output>, ReferenceOutput>
void each_field(Io& io, Output& output) {
    auto& [tally, to_oracle, to_kernel, lost, kernel_to_oracle, shared_to_oracle, empty_rows] = output;
    io(tally, to_oracle, to_kernel, lost, kernel_to_oracle, shared_to_oracle, empty_rows);
}

/// Adds up what each process has of a value: `merge(part, whole)`.
template <class T, class Merge>
void fold(WorkSharing& sharing, T& value, const Merge& merge) {
    sharing.fold({[&] { return to_bytes(value); },
                  [&](std::string_view bytes) { merge(from_bytes<T>(bytes), value); },
                  [&](std::string_view bytes) { value = from_bytes<T>(bytes); }});
}

/// That of the first process.
template <class T>
void fold_from_first(WorkSharing& sharing, T& value) {
    fold(sharing, value, [](const T&, T&) {});
}

}  // namespace tilescope
