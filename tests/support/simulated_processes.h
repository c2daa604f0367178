#pragma once

#include <atomic>
#include <barrier>
#include <climits>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "oracle/judge/piece_queues.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope::test {

class SimulatedProcess;

/// What simulated processes, a thread each, have in common.
struct SimulatedNetwork {
    explicit SimulatedNetwork(int count)
        : size(count),
          all_here(count),
          failures(std::size_t(count)),
          depths(std::size_t(count)),
          blamed(std::size_t(count)),
          agreed_on(std::size_t(count)),
          bytes(std::size_t(count)),
          counters(std::size_t(PieceQueues::counters(count))) {}

    int size;
    std::barrier<> all_here;
    std::vector<std::exception_ptr> failures;
    std::vector<int> depths;
    std::vector<int> blamed;
    std::vector<std::int64_t> agreed_on;
    std::vector<std::string> bytes;
    std::vector<const SimulatedProcess*> processes;
    std::deque<std::atomic<std::int64_t>> counters;
};

/// One of them: what it says of itself to the others goes through bytes, as between real ones.
class SimulatedProcess final : public WorkSharing {
 public:
    SimulatedProcess(SimulatedNetwork& network, int number)
        : network_(network),
          number_(std::size_t(number)),
          queues_({number, network.size, 1, 1}, [&network](int counter, std::int64_t pieces) {
              return network.counters[std::size_t(counter)].fetch_add(pieces);
          }) {}

    int processes() const override { return network_.size; }
    int process() const override { return int(number_); }
    int cores() const override { return 1; }
    std::string name_of(int process) const override { return "rank " + std::to_string(process); }
    Pieces take(std::int64_t most) override {
        // Nobody gets all of it.
        std::this_thread::yield();
        const std::scoped_lock lock(mutex_);
        return queues_.take(most);
    }
    using WorkSharing::take;
    void stop() override {
        const std::scoped_lock lock(mutex_);
        queues_.stop();
    }

 private:
    void start(std::span<const Stretch> stretches) override {
        queues_.fill(stretches, [this](int home) { return has_at_hand(home); });
        wait();
        if (number_ == 0)
            for (std::atomic<std::int64_t>& counter : network_.counters) counter = 0;
        wait();
    }

    void start_answering() override {}
    std::string send_question(int process, const std::string& question) override {
        return network_.processes[std::size_t(process)]->reply_to(question);
    }

    void add_up(const Parts& parts) override {
        network_.bytes[number_] = parts.pack();
        wait();
        if (number_ == 0) {
            for (std::size_t i = 1; i < network_.bytes.size(); ++i) parts.add(network_.bytes[i]);
            network_.bytes[0] = parts.pack();
        }
        wait();
        parts.set(network_.bytes[0]);
        wait();
    }

    std::optional<FailedTogether> first_failure(const std::exception_ptr& mine, int depth,
                                                std::int64_t on) override {
        network_.failures[number_] = mine;
        network_.depths[number_] = mine ? depth : INT_MAX;
        network_.blamed[number_] = blamed_process() < 0 ? process() : blamed_process();
        network_.agreed_on[number_] = on;
        wait();
        std::optional<FailedTogether> first;
        for (std::size_t i = network_.failures.size(); i-- > 0;) {
            if (!network_.failures[i]) continue;
            first = {network_.failures[i], std::min(network_.depths[i], first ? first->depth : INT_MAX)};
            blame(network_.blamed[i]);
        }
        const bool is_alike = network_.agreed_on[0] == on;
        wait();
        if (!first && !is_alike) std::terminate();
        return first;
    }

    void wait() { network_.all_here.arrive_and_wait(); }

    SimulatedNetwork& network_;
    std::size_t number_;
    std::mutex mutex_;  ///< of the queues
    PieceQueues queues_;
};

/// Runs `work` in each of so many processes.
inline void in_processes(int count, const std::function<void(WorkSharing&)>& work) {
    SimulatedNetwork network(count);
    std::vector<std::unique_ptr<SimulatedProcess>> processes;
    for (int i = 0; i < count; ++i)
        network.processes.push_back(
            processes.emplace_back(std::make_unique<SimulatedProcess>(network, i)).get());
    std::vector<std::thread> threads;
    for (const auto& process : processes) threads.emplace_back([&] { work(*process); });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace tilescope::test
