#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

/// What another process answers in place of what it was asked for.
class FailedElsewhere : public Error {
 public:
    FailedElsewhere(const std::string& line, int process) : Error(line), process_(process) {}
    int process() const { return process_; }

 private:
    int process_;
};

/// How processes judge the same recordings together. All of them do everything alike and in the same order, but for pieces of
/// work, each of which one of their threads takes. What is called collective is called by all of them, by one thread each.
class WorkSharing {
 public:
    WorkSharing() = default;
    virtual ~WorkSharing() = default;
    WorkSharing(const WorkSharing&) = delete;
    WorkSharing& operator=(const WorkSharing&) = delete;

    /// What is thrown in all processes, out of this call of together() and those in it; no std::exception, which the work might
    /// take for its own.
    struct FailedTogether {
        std::exception_ptr failure;
        int depth;
    };

    virtual int processes() const = 0;
    /// The number of this one, from 0 on.
    virtual int process() const = 0;
    /// Cores that this one has for itself; 0: not known.
    virtual int cores() const = 0;
    /// For who reads a message: "rank 3 on node7"; "" where there is one process.
    virtual std::string name_of(int process) const = 0;

    /// Which process has a recording at hand: the first that finds its file on a disk.
    static constexpr int everyone = -1;
    /// Pieces in a row that read the same recording.
    struct Stretch {
        std::int64_t count = 0;
        int home = everyone;
    };
    /// Collective: take() hands out 0 to the sum of the counts - 1, to each process first those that it has at hand.
    void begin(std::span<const Stretch> stretches);
    void begin(std::int64_t count);
    /// Pieces next to each other.
    struct Pieces {
        std::int64_t first = 0;
        std::int64_t count = 0;
    };
    /// The next ones, at most so many, and fewer towards the end; from any thread. None where nothing is left.
    virtual Pieces take(std::int64_t most) = 0;
    /// The next one.
    std::optional<std::int64_t> take() {
        const Pieces pieces = take(1);
        return pieces.count > 0 ? std::optional(pieces.first) : std::nullopt;
    }
    /// From any thread: nothing is left, in any process.
    virtual void stop() = 0;

    /// What each process has a part of. What `pack` makes of one part `add` adds to another; `set` takes the whole.
    struct Parts {
        std::function<std::string()> pack;
        std::function<void(std::string_view)> add;
        std::function<void(std::string_view)> set;
    };
    /// Collective: adds up the parts in the order of the processes, and leaves the whole in each of them.
    void fold(const Parts& parts);

    /// Collective: where a process has a failure, all of them leave together() with the first one's.
    void agree(const std::exception_ptr& failure) { agree_on(failure, of_failures); }
    /// Collective: work with collective calls in it. What it throws in one process, of which the first is taken, it throws in
    /// all of them: whoever is in a collective call then leaves it, up to here.
    template <class Work>
    void together(const Work& work) {
        const int depth = ++depth_;
        try {
            std::exception_ptr failure;
            try {
                work();
            } catch (const FailedTogether&) {
                throw;
            } catch (...) {
                failure = std::current_exception();
                blame_who_failed(failure);
            }
            agree_on(failure, of_failures);
            depth_ = depth - 1;
        } catch (const FailedTogether& failed) {
            depth_ = depth - 1;
            if (failed.depth < depth) throw;
            std::rethrow_exception(failed.failure);
        }
    }

    /// Who has which recordings at hand, by their names, if not everyone; `mine`: whose this process has as well.
    void settle(std::map<std::string, int> homes, std::set<int> mine) {
        homes_ = std::move(homes);
        mine_ = std::move(mine);
    }
    int home_of(const std::string& recording) const {
        const auto found = homes_.find(recording);
        return found == homes_.end() ? everyone : found->second;
    }

    /// What others ask of this process is answered by it from now on, by a thread of its own.
    using Answerer = std::function<std::string(std::string_view question)>;
    void answer_with(Answerer answerer);
    /// From any thread, whatever the other process is at. Errors: FailedElsewhere, std::bad_alloc where that one has no memory.
    std::string ask(int process, const std::string& question);

    /// Whose failure it is that is thrown, also where others throw it on.
    void blame(int process) { blamed_ = process; }
    void blame_nobody() { blamed_ = -1; }
    /// "" where that is not known.
    std::string blamed() const { return blamed_ < 0 ? "" : name_of(blamed_); }

 protected:
    /// -1: nobody.
    int blamed_process() const { return blamed_; }
    bool has_at_hand(int home) const { return home == everyone || mine_.contains(home); }
    /// The answer to a question, or why there is none, as the one who asks takes it; throws nothing.
    std::string reply_to(std::string_view question) const noexcept;

 private:
    virtual void start(std::span<const Stretch> stretches) = 0;
    /// Others may ask from now on.
    virtual void start_answering() = 0;
    virtual std::string send_question(int process, const std::string& question) = 0;
    virtual void add_up(const Parts& parts) = 0;
    /// Nullopt where none has one; blame() names whose it is, and the depth is that of the outermost call that fails.
    /// `on`: what is agreed on; where no process has failed, it is the same in all of them, or an Error is what they have.
    virtual std::optional<FailedTogether> first_failure(const std::exception_ptr& mine, int depth,
                                                        std::int64_t on) = 0;

    static constexpr std::int64_t of_failures = -1;
    static constexpr std::int64_t of_parts = -2;
    /// From 0 on: that so many pieces are handed out.
    void agree_on(const std::exception_ptr& failure, std::int64_t on);
    void blame_who_failed(const std::exception_ptr& failure);

    std::map<std::string, int> homes_;
    std::set<int> mine_;
    Answerer answerer_;
    int depth_ = 0;  ///< so many calls of together() are under way
    int blamed_ = -1;
};

std::int64_t count_of(std::span<const WorkSharing::Stretch> stretches);

/// The threads of this process alone.
class OneProcess final : public WorkSharing {
 public:
    int processes() const override { return 1; }
    int process() const override { return 0; }
    int cores() const override { return 0; }
    std::string name_of(int) const override { return ""; }
    Pieces take(std::int64_t most) override {
        // As long as there are many for each thread.
        constexpr std::int64_t many = 32;
        const std::int64_t asked = std::clamp<std::int64_t>((count_ - next_) / many, 1, most);
        const std::int64_t first = next_.fetch_add(asked);
        return {first, std::clamp<std::int64_t>(count_ - first, 0, asked)};
    }
    using WorkSharing::take;
    void stop() override { next_ = count_; }

 private:
    void start(std::span<const Stretch> stretches) override {
        count_ = count_of(stretches);
        next_ = 0;
    }
    void start_answering() override {}
    std::string send_question(int, const std::string& question) override { return reply_to(question); }
    void add_up(const Parts&) override {}
    std::optional<FailedTogether> first_failure(const std::exception_ptr& mine, int depth,
                                                std::int64_t) override {
        return mine ? std::optional(FailedTogether{mine, depth}) : std::nullopt;
    }

    std::int64_t count_ = 0;
    std::atomic<std::int64_t> next_ = 0;
};

/// What ended a piece of work, as another process can be told of it.
struct Failure {
    std::int64_t piece = -1;  ///< -1: nothing has
    int process = 0;
    bool is_of_memory = false;
    std::string line;
    std::exception_ptr thrown;  ///< in this process
};
/// Of what is caught right now.
Failure caught_failure(std::int64_t piece, const WorkSharing& sharing);
/// Of the first piece, which is the one of a single process that does the pieces in their order.
void keep_first_failure(const Failure& failure, Failure& first);
/// Throws it again, and blames its process; nothing where there is none.
void rethrow(const Failure& failure, WorkSharing& sharing);

/// The sharing that is given, or that of one process.
class SharingOr {
 public:
    explicit SharingOr(WorkSharing* given) : sharing_(given != nullptr ? *given : alone_) {}
    WorkSharing& operator*() { return sharing_; }
    WorkSharing* operator->() { return &sharing_; }

 private:
    OneProcess alone_;
    WorkSharing& sharing_;
};

}  // namespace tilescope
