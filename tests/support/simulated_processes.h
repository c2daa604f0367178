#pragma once

#include <atomic>
#include <barrier>
#include <climits>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "oracle/judge/work_sharing.h"

namespace tilescope::test {

/// What simulated processes, a thread each, have in common.
struct SimulatedNetwork {
    explicit SimulatedNetwork(int count)
        : size(count),
          all_here(count),
          failures(std::size_t(count)),
          depths(std::size_t(count)),
          agreed_on(std::size_t(count)),
          bytes(std::size_t(count)) {}

    int size;
    std::barrier<> all_here;
    std::vector<std::exception_ptr> failures;
    std::vector<int> depths;
    std::vector<std::int64_t> agreed_on;
    std::vector<std::string> bytes;
    std::atomic<std::int64_t> next = 0;
};

/// One of them: what it says of itself to the others goes through bytes, as between real ones.
class SimulatedProcess final : public WorkSharing {
 public:
    SimulatedProcess(SimulatedNetwork& network, int number)
        : network_(network), number_(std::size_t(number)) {}

    int processes() const override { return network_.size; }
    int process() const override { return int(number_); }
    int cores() const override { return 1; }
    std::string name_of(int process) const override { return "rank " + std::to_string(process); }
    std::optional<std::int64_t> take() override {
        const std::int64_t next = network_.next++;
        // Nobody gets all of it.
        std::this_thread::yield();
        return next < count_ ? std::optional(next) : std::nullopt;
    }
    void stop() override { network_.next = count_; }

 private:
    void start(std::int64_t count) override {
        count_ = count;
        wait();
        if (number_ == 0) network_.next = 0;
        wait();
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
        network_.agreed_on[number_] = on;
        wait();
        std::optional<FailedTogether> first;
        for (std::size_t i = network_.failures.size(); i-- > 0;) {
            if (!network_.failures[i]) continue;
            first = {network_.failures[i], std::min(network_.depths[i], first ? first->depth : INT_MAX)};
            blame(int(i));
        }
        const bool is_alike = network_.agreed_on[0] == on;
        wait();
        if (!first && !is_alike) std::terminate();
        return first;
    }

    void wait() { network_.all_here.arrive_and_wait(); }

    SimulatedNetwork& network_;
    std::size_t number_;
    std::int64_t count_ = 0;
};

/// Runs `work` in each of so many processes.
inline void in_processes(int count, const std::function<void(WorkSharing&)>& work) {
    SimulatedNetwork network(count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] {
            SimulatedProcess process(network, i);
            work(process);
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace tilescope::test
