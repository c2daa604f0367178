// tile-diff whose work is shared by the processes of an MPI job. The one file that knows MPI.

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/cli/main.h"
#include "oracle/cli/timing.h"
#include "oracle/judge/piece_queues.h"
#include "oracle/judge/work_sharing.h"
#include "oracle/report/output_file.h"

namespace tilescope {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

class MpiSharing final : public WorkSharing {
 public:
    MpiSharing() {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        MPI_Comm_dup(MPI_COMM_WORLD, &questions_);
        for (const MPI_Comm comm : {comm_, questions_}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        counters_ = PieceQueues::counters(size_);
        const std::size_t counters = std::size_t(counter_sets) * std::size_t(counters_);
        const MPI_Aint bytes = rank_ == 0 ? MPI_Aint(sizeof(std::int64_t) * counters) : 0;
        MPI_Win_allocate(bytes, sizeof(std::int64_t), MPI_INFO_NULL, comm_, &counts_, &window_);
        if (rank_ == 0) std::fill_n(counts_, counters, 0);
        MPI_Win_lock_all(0, window_);
        MPI_Win_sync(window_);
        learn_nodes();
        queues_.emplace(PieceQueues::Taker{rank_, size_, on_node_, cores_},
                        [this](int counter, std::int64_t pieces) { return fetch(counter, pieces); });
        // Where no hardware answers for it, the first process has to look after what the others fetch.
        if (rank_ == 0 && on_node_ < size_) serve();
        begun_ = Clock::now();
    }
    ~MpiSharing() override {
        end_serving();
        MPI_Win_unlock_all(window_);
        MPI_Win_free(&window_);
        MPI_Comm_free(&questions_);
        MPI_Comm_free(&comm_);
    }

    int processes() const override { return size_; }
    int process() const override { return rank_; }
    int cores() const override { return cores_; }
    std::string name_of(int process) const override {
        return fmt::format("rank {} on {}", process, hosts_[std::size_t(process)]);
    }

    Pieces take(std::int64_t most) override {
        const std::scoped_lock lock(queue_lock_);
        return queues_->take(most);
    }

    void stop() override {
        const std::scoped_lock lock(queue_lock_);
        queues_->stop();
    }

    /// Collective: what every process spent.
    std::vector<Spent> spent(double& seconds) {
        end_serving();
        spent_.seconds = seconds = seconds_since(begun_);
        spent_.threads = cores_;
        spent_.bytes_moved = bytes_moved_;
        spent_.pieces = queues_->pieces();
        spent_.bytes_read = bytes_read_so_far();
        spent_.resident_bytes = most_resident_bytes();
        std::vector<Spent> all(static_cast<std::size_t>(size_));
        MPI_Gather(&spent_, int(sizeof spent_), MPI_BYTE, all.data(), int(sizeof spent_), MPI_BYTE, 0, comm_);
        return all;
    }

 private:
    /// Where a process has failed, those of the others that come to an agreement learn what it says.
    std::optional<FailedTogether> first_failure(const std::exception_ptr& mine, int depth,
                                                std::int64_t on) override {
        end_phase();
        const Clock::time_point start = Clock::now();
        // The first that has failed, how far out, whose failure it is, and whether all agree on the same.
        const int blamed = blamed_process() < 0 ? rank_ : blamed_process();
        const std::array<std::int64_t, 5> said = {mine ? rank_ : size_, mine ? depth : INT_MAX,
                                                  mine ? blamed : size_, on, -on};
        std::array<std::int64_t, 5> least{};
        call([&](MPI_Request& request) {
            MPI_Iallreduce(said.data(), least.data(), int(said.size()), MPI_INT64_T, MPI_MIN, comm_,
                           &request);
        });
        spent_.stragglers += seconds_since(start);
        if (least[0] == size_ && least[3] == -least[4]) return std::nullopt;
        if (least[0] == size_) {
            const Error differ("the processes do not judge alike", "MPI",
                               "start the same program with the same files on all nodes");
            return FailedTogether{std::make_exception_ptr(differ), 1};
        }
        blame(int(least[2]));
        return FailedTogether{failure_of(int(least[0]), mine), int(least[1])};
    }

    std::exception_ptr failure_of(int first, const std::exception_ptr& mine) {
        Failure failure;
        if (first == rank_) {
            try {
                std::rethrow_exception(mine);
            } catch (...) {
                failure = caught_failure(0, *this);
            }
        }
        // A short line, whatever memory there is.
        std::array<char, 4096> line{};
        line[0] = failure.is_of_memory ? 'm' : 'e';
        failure.line.copy(line.data() + 1, line.size() - 2);
        call([&](MPI_Request& request) {
            MPI_Ibcast(line.data(), int(line.size()), MPI_CHAR, first, comm_, &request);
        });
        if (first == rank_) return mine;
        if (line[0] == 'm') return std::make_exception_ptr(std::bad_alloc());
        return std::make_exception_ptr(Error(std::string(line.data() + 1)));
    }

    void start(std::span<const Stretch> stretches) override {
        queues_->fill(stretches, [this](int home) { return has_at_hand(home); });
        counter_set_ = (counter_set_ + 1) % counter_sets;
        // All have left the one after it, and none is there before it has come to another agreement.
        if (rank_ == 0) {
            const std::vector<std::int64_t> zeros(static_cast<std::size_t>(counters_));
            const MPI_Aint first = MPI_Aint((counter_set_ + 1) % counter_sets) * counters_;
            const std::scoped_lock lock(mpi_);
            MPI_Accumulate(zeros.data(), counters_, MPI_INT64_T, 0, first, counters_, MPI_INT64_T,
                           MPI_REPLACE, window_);
            MPI_Win_flush(0, window_);
        }
        phase_begun_ = Clock::now();
        processor_before_ = processor_seconds();
        is_in_phase_ = true;
    }

    std::int64_t fetch(int counter, std::int64_t pieces) {
        const Clock::time_point start = Clock::now();
        std::int64_t before = 0;
        const std::scoped_lock lock(mpi_);
        const MPI_Aint at = MPI_Aint(counter_set_) * counters_ + counter;
        MPI_Fetch_and_op(&pieces, &before, MPI_INT64_T, 0, at, MPI_SUM, window_);
        MPI_Win_flush(0, window_);
        spent_.queue += seconds_since(start);
        ++spent_.takes;
        return before;
    }

    void start_answering() override {
        if (size_ > 1 && !server_.joinable()) serve();
    }

    /// In a thread of its own, until all processes have come to the end.
    void serve() {
        is_serving_ = true;
        server_ = std::thread([this] {
            Clock::time_point asked = Clock::now();
            while (is_serving_) {
                if (answer_next()) {
                    asked = Clock::now();
                } else if (seconds_since(asked) > 1e-3) {
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                } else {
                    std::this_thread::yield();  // who has asked mostly asks again
                }
            }
        });
    }
    /// Collective: nobody asks any more.
    void end_serving() {
        end_phase();
        call([&](MPI_Request& request) { MPI_Ibarrier(comm_, &request); });
        is_serving_ = false;
        if (server_.joinable()) server_.join();
    }

    /// Whether there was a question. Its tag is that of the answer, which no other thread of who asks waits for.
    bool answer_next() {
        std::string question;
        MPI_Status status{};
        {
            const std::scoped_lock lock(mpi_);
            int is_there = 0;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, questions_, &is_there, &status);
            if (is_there == 0) return false;
            int size = 0;
            MPI_Get_count(&status, MPI_CHAR, &size);
            question.resize(std::size_t(size));
            MPI_Recv(question.data(), size, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, questions_,
                     MPI_STATUS_IGNORE);
        }
        send(reply_to(question), status.MPI_SOURCE, answer_tag + status.MPI_TAG);
        return true;
    }

    std::string send_question(int process, const std::string& question) override {
        constexpr int tags = 8192;
        const int tag = next_tag_++ % tags;
        call([&](MPI_Request& request) {
            MPI_Isend(question.data(), int(question.size()), MPI_CHAR, process, tag, questions_, &request);
        });
        std::string answer;
        receive(answer, process, answer_tag + tag);
        const std::scoped_lock lock(queue_lock_);
        spent_.bytes_asked += std::int64_t(answer.size());
        return answer;
    }

    void end_phase() {
        if (!std::exchange(is_in_phase_, false)) return;
        spent_.shared += seconds_since(phase_begun_);
        spent_.processor += processor_seconds() - processor_before_;
    }

    /// Along a tree, in which each process adds those after it in their order.
    void add_up(const Parts& parts) override {
        const Clock::time_point start = Clock::now();
        std::exception_ptr failure;
        const auto may_fail = [&](const auto& work) {
            try {
                if (!failure) work();
            } catch (...) {
                failure = std::current_exception();
            }
        };
        std::string bytes;
        int step = 1;
        for (; step < size_ && (rank_ & step) == 0; step *= 2) {
            if (rank_ + step >= size_) continue;
            may_fail([&] { receive(bytes, rank_ + step, parts_tag); });
            may_fail([&] { parts.add(bytes); });
        }
        bytes.clear();
        may_fail([&] { bytes = parts.pack(); });
        if (rank_ != 0) send(bytes, rank_ - step, parts_tag);
        may_fail([&] { hand_on(bytes); });
        may_fail([&] { parts.set(bytes); });
        spent_.messages += seconds_since(start);
        agree(failure);
    }

    void send(const std::string& bytes, int to, int tag) {
        std::uint64_t size = bytes.size();
        call(
            [&](MPI_Request& request) { MPI_Isend(&size, sizeof size, MPI_BYTE, to, tag, comm_, &request); });
        for (std::size_t at = 0; at < bytes.size(); at += at_once) {
            const int count = int(std::min(bytes.size() - at, at_once));
            call([&](MPI_Request& request) {
                MPI_Isend(bytes.data() + at, count, MPI_BYTE, to, tag, comm_, &request);
            });
        }
        bytes_moved_ += std::int64_t(bytes.size());
    }

    /// Piece by piece, so that what there is no memory for is received all the same.
    void receive(std::string& bytes, int from, int tag) {
        std::uint64_t size = 0;
        call([&](MPI_Request& request) {
            MPI_Irecv(&size, sizeof size, MPI_BYTE, from, tag, comm_, &request);
        });
        pieces_to(bytes, size, [&](char* piece, int count, MPI_Request& request) {
            MPI_Irecv(piece, count, MPI_BYTE, from, tag, comm_, &request);
        });
    }

    /// From the first process to all.
    void hand_on(std::string& bytes) {
        std::uint64_t size = bytes.size();
        call([&](MPI_Request& request) { MPI_Ibcast(&size, sizeof size, MPI_BYTE, 0, comm_, &request); });
        const auto piece_of = [&](char* piece, int count, MPI_Request& request) {
            MPI_Ibcast(piece, count, MPI_BYTE, 0, comm_, &request);
        };
        if (rank_ != 0) return pieces_to(bytes, size, piece_of);
        for (std::size_t at = 0; at < bytes.size(); at += at_once) {
            const int count = int(std::min(bytes.size() - at, at_once));
            call([&](MPI_Request& request) { piece_of(bytes.data() + at, count, request); });
        }
    }

    template <class Get>
    void pieces_to(std::string& bytes, std::uint64_t size, const Get& get) {
        bool fits = true;
        try {
            bytes.resize(size);
        } catch (const std::bad_alloc&) {
            fits = false;
        } catch (const std::length_error&) {
            fits = false;
        }
        for (std::size_t at = 0; at < size; at += at_once) {
            const int count = int(std::min(size - at, std::uint64_t(at_once)));
            char* const piece = fits ? bytes.data() + at : spare_.data();
            call([&](MPI_Request& request) { get(piece, count, request); });
        }
        bytes_moved_ += std::int64_t(size);
        if (!fits) throw std::bad_alloc();
    }

    /// Starts it and waits until it is done, without taking the processor from who judges.
    template <class Start>
    void call(const Start& start_it) {
        MPI_Request request = MPI_REQUEST_NULL;
        int is_done = 0;
        for (int tries = 0; is_done == 0; ++tries) {
            {
                const std::scoped_lock lock(mpi_);
                if (tries == 0) start_it(request);
                MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
            }
            // What is under way comes soon; who is waited for may take long.
            if (is_done == 0 && tries > 1000)
                std::this_thread::sleep_for(std::chrono::microseconds(std::min(tries - 900, 1000)));
            else if (is_done == 0 && tries > 100)
                std::this_thread::yield();
        }
    }

    /// Who is on which node, and how many cores there are for this process.
    void learn_nodes() {
        std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
        int length = 0;
        MPI_Get_processor_name(host.data(), &length);
        std::vector<char> all(host.size() * std::size_t(size_));
        MPI_Allgather(host.data(), int(host.size()), MPI_CHAR, all.data(), int(host.size()), MPI_CHAR, comm_);
        for (int i = 0; i < size_; ++i) hosts_.emplace_back(all.data() + host.size() * std::size_t(i));
        MPI_Comm node = MPI_COMM_NULL;
        MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
        MPI_Comm_size(node, &on_node_);
        cores_ = share_of_cores(node);
        MPI_Comm_free(&node);
    }

    /// A core that several processes of the node may use counts in parts.
    static int share_of_cores(MPI_Comm node) {
        cpu_set_t mine;
        CPU_ZERO(&mine);
        sched_getaffinity(0, sizeof mine, &mine);
        std::array<int, CPU_SETSIZE> users{};
        for (std::size_t core = 0; core < users.size(); ++core) users[core] = CPU_ISSET(core, &mine) ? 1 : 0;
        MPI_Allreduce(MPI_IN_PLACE, users.data(), int(users.size()), MPI_INT, MPI_SUM, node);
        double share = 0;
        for (std::size_t core = 0; core < users.size(); ++core)
            if (CPU_ISSET(core, &mine)) share += 1.0 / users[core];
        return std::max(int(share + 1e-6), 1);
    }

    static constexpr int counter_sets = 3;
    static constexpr int parts_tag = 0;
    static constexpr int answer_tag = 1;  ///< and those after it
    static constexpr std::size_t at_once = std::size_t(1) << 20;

    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Comm questions_ = MPI_COMM_NULL;
    MPI_Win window_ = MPI_WIN_NULL;
    std::int64_t* counts_ = nullptr;
    int rank_ = 0;
    int size_ = 1;
    int cores_ = 1;
    int on_node_ = 1;   ///< processes
    int counters_ = 0;  ///< in a set
    std::vector<std::string> hosts_;
    std::vector<char> spare_ = std::vector<char>(at_once);

    std::mutex mpi_;         ///< one thread at a time calls MPI
    std::mutex queue_lock_;  ///< of what is below
    std::optional<PieceQueues> queues_;
    int counter_set_ = 0;

    std::atomic<bool> is_serving_ = false;
    std::thread server_;
    std::atomic<int> next_tag_ = 0;
    std::atomic<std::int64_t> bytes_moved_ = 0;

    Spent spent_;
    Clock::time_point begun_;
    Clock::time_point phase_begun_;
    double processor_before_ = 0;
    bool is_in_phase_ = false;
};

/// For who asks where the time went.
int write_timing(const std::string& path, MpiSharing& sharing, int code) {
    double seconds = 0;
    const std::vector<Spent> all = sharing.spent(seconds);
    if (sharing.process() != 0) return code;
    try {
        OutputFile file(path);
        file.write(timing_text(all, seconds));
        file.commit();
    } catch (const std::exception& error) {
        fmt::print(stderr, "tile-diff: {}\n", error.what());
        return 2;
    }
    return code;
}

int judge_in_job(int argc, char** argv) {
    MpiSharing sharing;
    const int code = tile_diff_main(argc, argv, &sharing);
    const char* const timing = std::getenv("TILESCOPE_TIMING");
    return timing == nullptr ? code : write_timing(timing, sharing, code);
}

}  // namespace

}  // namespace tilescope

int main(int argc, char** argv) {
    int level = MPI_THREAD_SINGLE;
    // The launcher shows what is printed as it likes.
    setenv("NO_COLOR", "1", 1);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    if (level < MPI_THREAD_SERIALIZED) {
        std::fputs("tile-diff: MPI: lets only one thread call it; build it with threads\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int code = tilescope::judge_in_job(argc, argv);
    MPI_Finalize();
    return code;
}
