#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// Pieces that processes take from counters that they share: one for each process that has recordings at hand, and one for what
/// everyone has. Not for several threads at once.
class PieceQueues {
 public:
    /// Adds to a counter; what it was before.
    using Fetch = std::function<std::int64_t(int counter, std::int64_t pieces)>;
    /// Who takes the pieces.
    struct Taker {
        int process = 0;
        int processes = 1;
        int on_node = 1;  ///< processes that mostly have the same at hand
        int cores = 1;
    };

    PieceQueues(const Taker& taker, Fetch fetch) : taker_(taker), fetch_(std::move(fetch)) {}

    static int counters(int processes) { return processes + 1; }

    /// What take() hands out: first of what is at hand, then of what others have, one at a time.
    void fill(std::span<const WorkSharing::Stretch> stretches,
              const std::function<bool(int home)>& has_at_hand);
    WorkSharing::Pieces take(std::int64_t most);
    /// Leaves nothing, to nobody.
    void stop();

    /// So many were taken from the counters, since the beginning.
    std::int64_t pieces() const { return pieces_; }

 private:
    /// Pieces that are next to each other, and how many of the queue are before them.
    struct Run {
        std::int64_t before = 0;
        std::int64_t first = 0;
    };
    struct Queue {
        int counter = 0;
        bool is_at_hand = true;
        std::int64_t count = 0;
        std::int64_t next = 0;  ///< of the stretch that this process has taken
        std::int64_t end = 0;
        std::int64_t seen = 0;  ///< so far the counter had come
        std::vector<Run> runs;
    };
    bool refill(Queue& queue);

    Taker taker_;
    Fetch fetch_;
    std::deque<Queue> open_;  ///< of which there may be something left
    std::int64_t pieces_ = 0;
};

}  // namespace tilescope
