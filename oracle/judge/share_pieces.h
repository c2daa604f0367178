#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "oracle/judge/tally_bytes.h"
#include "oracle/judge/team.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// Calls work(i) for each piece i of the stretches, from the threads of all processes, and returns in each of them what all
/// calls returned, in the order of i. Collective. `threads` as in JudgeOptions. Errors: what a call throws, in every process.
template <class T, class Work>
std::vector<T> share_pieces(std::span<const WorkSharing::Stretch> stretches, int threads,
                            WorkSharing& sharing, const Work& work) {
    std::vector<std::pair<std::int64_t, T>> done;
    Failure failure;
    std::mutex mutex;
    const auto do_piece = [&](std::int64_t piece) {
        try {
            T result = work(piece);
            const std::scoped_lock lock(mutex);
            done.emplace_back(piece, std::move(result));
        } catch (...) {
            const std::scoped_lock lock(mutex);
            keep_first_failure(caught_failure(piece, sharing), failure);
            sharing.stop();
        }
    };
    sharing.begin(stretches);
#pragma omp parallel num_threads(team_size(threads))
    while (const std::optional<std::int64_t> piece = sharing.take()) do_piece(*piece);
    fold(sharing, failure, keep_first_failure);
    rethrow(failure, sharing);
    fold(sharing, done, [](auto part, auto& whole) { std::ranges::move(part, std::back_inserter(whole)); });
    std::ranges::sort(done, {}, [](const auto& one) { return one.first; });
    std::vector<T> results;
    for (auto& [piece, result] : done) results.push_back(std::move(result));
    return results;
}

/// The same of pieces that every process has at hand.
template <class T, class Work>
std::vector<T> share_pieces(std::int64_t count, int threads, WorkSharing& sharing, const Work& work) {
    const WorkSharing::Stretch all{count, WorkSharing::everyone};
    return share_pieces<T>(std::span(&all, 1), threads, sharing, work);
}

}  // namespace tilescope
