#include "oracle/judge/piece_queues.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tilescope {

void PieceQueues::fill(std::span<const WorkSharing::Stretch> stretches,
                       const std::function<bool(int home)>& has_at_hand) {
    const int count = counters(taker_.processes);
    const int of_everyone = taker_.processes;
    std::vector<Queue> all(static_cast<std::size_t>(count));
    std::int64_t first = 0;
    for (const WorkSharing::Stretch& stretch : stretches) {
        Queue& queue = all[std::size_t(stretch.home == WorkSharing::everyone ? of_everyone : stretch.home)];
        queue.is_at_hand = has_at_hand(stretch.home);
        if (stretch.count > 0) queue.runs.push_back({queue.count, first});
        queue.count += stretch.count;
        first += stretch.count;
    }
    open_.clear();
    for (const bool is_at_hand : {true, false}) {
        // Beginning behind itself: not all help the same one.
        for (int i = 0; i < count; ++i) {
            const int counter = (taker_.process + i) % count;
            Queue& queue = all[std::size_t(counter)];
            if (queue.count == 0 || queue.is_at_hand != is_at_hand) continue;
            queue.counter = counter;
            open_.push_back(std::move(queue));
        }
    }
}

WorkSharing::Pieces PieceQueues::take(std::int64_t most) {
    while (!open_.empty()) {
        Queue& queue = open_.front();
        if (queue.next < queue.end || refill(queue)) {
            const auto after = std::ranges::upper_bound(queue.runs, queue.next, {}, &Run::before);
            const Run& run = *std::prev(after);
            const std::int64_t of_run =
                (after == queue.runs.end() ? queue.count : after->before) - queue.next;
            // Its other threads take as many.
            const std::int64_t share = (queue.end - queue.next) / std::max(taker_.cores, 1);
            const std::int64_t count = std::min(std::clamp<std::int64_t>(share, 1, most), of_run);
            const std::int64_t first = run.first + (queue.next - run.before);
            queue.next += count;
            return {first, count};
        }
        open_.pop_front();
    }
    return {};
}

void PieceQueues::stop() {
    for (const Queue& queue : open_) fetch_(queue.counter, queue.count);
    open_.clear();
}

bool PieceQueues::refill(Queue& queue) {
    // Long stretches first: mostly of one head, whose keys are read once.
    const std::int64_t left = std::max<std::int64_t>(queue.count - queue.seen, 1);
    const std::int64_t most = std::max<std::int64_t>(4 * std::max(taker_.cores, 1), 64);
    const int takers = queue.counter == taker_.processes ? taker_.processes : taker_.on_node;
    const std::int64_t stretch =
        queue.is_at_hand ? std::clamp<std::int64_t>(left / (2 * takers), 1, most) : 1;
    queue.next = fetch_(queue.counter, stretch);
    queue.seen = queue.next + stretch;
    queue.end = std::min(queue.seen, queue.count);
    pieces_ += std::max<std::int64_t>(queue.end - queue.next, 0);
    return queue.next < queue.end;
}

}  // namespace tilescope
