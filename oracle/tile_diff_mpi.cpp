// tile-diff whose work is shared by the processes of an MPI job. The one file that knows MPI.

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/judge/bytes.h"
#include "oracle/judge/work_sharing.h"
#include "oracle/program/main.h"
#include "oracle/report/output_file.h"

namespace tilescope {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Where a process waited, and what it needed.
struct Spent {
    double seconds = 0;     ///< from the first agreement to the last
    double queue = 0;       ///< for the next pieces; of all threads
    double messages = 0;    ///< for what is added up
    double stragglers = 0;  ///< until all processes had come as far
    double shared = 0;      ///< in which pieces were handed out
    double processor = 0;   ///< of all threads, meanwhile
    std::int64_t threads = 0;
    std::int64_t pieces = 0;
    std::int64_t takes = 0;
    std::int64_t bytes_moved = 0;
    std::int64_t bytes_read = 0;
    std::int64_t resident_bytes = 0;  ///< at most
};

double processor_seconds() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::int64_t bytes_read() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::int64_t bytes = 0;
    while (io >> name >> bytes)
        if (name == "rchar:") return bytes;
    return 0;
}

class MpiSharing final : public WorkSharing {
 public:
    MpiSharing() {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        const MPI_Aint bytes = rank_ == 0 ? MPI_Aint(sizeof(std::int64_t) * counters) : 0;
        MPI_Win_allocate(bytes, sizeof(std::int64_t), MPI_INFO_NULL, comm_, &counts_, &window_);
        if (rank_ == 0) std::fill_n(counts_, counters, 0);
        MPI_Win_lock_all(0, window_);
        MPI_Win_sync(window_);
        learn_nodes();
        begun_ = Clock::now();
    }
    ~MpiSharing() override {
        end_serving();
        MPI_Win_unlock_all(window_);
        MPI_Win_free(&window_);
        MPI_Comm_free(&comm_);
    }

    int processes() const override { return size_; }
    int process() const override { return rank_; }
    int cores() const override { return cores_; }
    std::string name_of(int process) const override {
        return fmt::format("rank {} on {}", process, hosts_[std::size_t(process)]);
    }

    std::optional<std::int64_t> take() override {
        const std::scoped_lock lock(queue_);
        if (next_ < end_) return next_++;
        if (is_drained_) return std::nullopt;
        // Long stretches first: mostly of one head, whose keys are read once.
        const std::int64_t left = std::max<std::int64_t>(count_ - seen_, 1);
        const std::int64_t most = std::max<std::int64_t>(4 * std::max(cores_, 1), 64);
        const std::int64_t stretch = std::clamp<std::int64_t>(left / (2 * size_), 1, most);
        next_ = fetch(stretch);
        seen_ = next_ + stretch;
        end_ = std::min(seen_, count_);
        is_drained_ = next_ >= count_;
        if (is_drained_) return std::nullopt;
        spent_.pieces += end_ - next_;
        return next_++;
    }

    void stop() override {
        const std::scoped_lock lock(queue_);
        fetch(count_);
        is_drained_ = true;
        end_ = next_;
    }

    /// Collective: what every process spent.
    std::vector<Spent> spent(double& seconds) {
        spent_.seconds = seconds = seconds_since(begun_);
        spent_.threads = cores_;
        spent_.bytes_read = tilescope::bytes_read();
        rusage usage = {};
        getrusage(RUSAGE_SELF, &usage);
        spent_.resident_bytes = std::int64_t(usage.ru_maxrss) << 10;
        std::vector<Spent> all(static_cast<std::size_t>(size_));
        MPI_Gather(&spent_, int(sizeof spent_), MPI_BYTE, all.data(), int(sizeof spent_), MPI_BYTE, 0, comm_);
        return all;
    }

 private:
    /// Where a process has failed, those of the others that come to an agreement learn what it says.
    std::optional<FailedTogether> first_failure(const std::exception_ptr& mine, int depth,
                                                std::int64_t on) override {
        end_serving();
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

    void start(std::int64_t count) override {
        count_ = count;
        next_ = end_ = seen_ = 0;
        is_drained_ = count == 0;
        counter_ = (counter_ + 1) % counters;
        // All have left the one after it, and none is there before it has come to another agreement.
        if (rank_ == 0) {
            const std::int64_t zero = 0;
            std::int64_t before = 0;
            const std::scoped_lock lock(mpi_);
            MPI_Fetch_and_op(&zero, &before, MPI_INT64_T, 0, (counter_ + 1) % counters, MPI_REPLACE, window_);
            MPI_Win_flush(0, window_);
        }
        phase_begun_ = Clock::now();
        processor_before_ = processor_seconds();
        is_in_phase_ = true;
        if (rank_ == 0 && is_on_many_nodes_) serve();
    }

    std::int64_t fetch(std::int64_t stretch) {
        const Clock::time_point start = Clock::now();
        std::int64_t before = 0;
        const std::scoped_lock lock(mpi_);
        MPI_Fetch_and_op(&stretch, &before, MPI_INT64_T, 0, counter_, MPI_SUM, window_);
        MPI_Win_flush(0, window_);
        spent_.queue += seconds_since(start);
        ++spent_.takes;
        return before;
    }

    /// Where no hardware answers for it, the first process has to look after what the others fetch.
    void serve() {
        is_serving_ = true;
        server_ = std::thread([this] {
            while (is_serving_) {
                {
                    const std::scoped_lock lock(mpi_);
                    int flag = 0;
                    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
                }
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            }
        });
    }
    void end_serving() {
        is_serving_ = false;
        if (server_.joinable()) server_.join();
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
            may_fail([&] { receive(bytes, rank_ + step); });
            may_fail([&] { parts.add(bytes); });
        }
        bytes.clear();
        may_fail([&] { bytes = parts.pack(); });
        if (rank_ != 0) send(bytes, rank_ - step);
        may_fail([&] { hand_on(bytes); });
        may_fail([&] { parts.set(bytes); });
        spent_.messages += seconds_since(start);
        agree(failure);
    }

    void send(const std::string& bytes, int to) {
        std::uint64_t size = bytes.size();
        call([&](MPI_Request& request) { MPI_Isend(&size, sizeof size, MPI_BYTE, to, 0, comm_, &request); });
        for (std::size_t at = 0; at < bytes.size(); at += at_once) {
            const int count = int(std::min(bytes.size() - at, at_once));
            call([&](MPI_Request& request) {
                MPI_Isend(bytes.data() + at, count, MPI_BYTE, to, 0, comm_, &request);
            });
        }
        spent_.bytes_moved += std::int64_t(bytes.size());
    }

    /// Piece by piece, so that what there is no memory for is received all the same.
    void receive(std::string& bytes, int from) {
        std::uint64_t size = 0;
        call(
            [&](MPI_Request& request) { MPI_Irecv(&size, sizeof size, MPI_BYTE, from, 0, comm_, &request); });
        pieces_to(bytes, size, [&](char* piece, int count, MPI_Request& request) {
            MPI_Irecv(piece, count, MPI_BYTE, from, 0, comm_, &request);
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
        spent_.bytes_moved += std::int64_t(size);
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
            if (is_done == 0 && tries > 100)
                std::this_thread::sleep_for(std::chrono::microseconds(std::min(tries, 1000)));
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
        int on_node = 1;
        MPI_Comm_size(node, &on_node);
        is_on_many_nodes_ = on_node < size_;
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

    static constexpr int counters = 3;
    static constexpr std::size_t at_once = std::size_t(1) << 20;

    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Win window_ = MPI_WIN_NULL;
    std::int64_t* counts_ = nullptr;
    int rank_ = 0;
    int size_ = 1;
    int cores_ = 1;
    bool is_on_many_nodes_ = false;
    std::vector<std::string> hosts_;
    std::vector<char> spare_ = std::vector<char>(at_once);

    std::mutex mpi_;    ///< one thread at a time calls MPI
    std::mutex queue_;  ///< of what is below
    std::int64_t count_ = 0;
    std::int64_t next_ = 0;  ///< of the stretch that this process has taken
    std::int64_t end_ = 0;
    std::int64_t seen_ = 0;  ///< so far the queue had come
    bool is_drained_ = true;
    int counter_ = 0;

    std::atomic<bool> is_serving_ = false;
    std::thread server_;

    Spent spent_;
    Clock::time_point begun_;
    Clock::time_point phase_begun_;
    double processor_before_ = 0;
    bool is_in_phase_ = false;
};

std::string timing_text(const std::vector<Spent>& all, double seconds) {
    std::string text = fmt::format("{{\"seconds\": {:.6f}, \"ranks\": [", seconds);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Spent& one = all[i];
        text += fmt::format(
            "{}\n  {{\"queue\": {:.6f}, \"messages\": {:.6f}, \"stragglers\": {:.6f}, \"shared\": {:.6f}, "
            "\"processor\": {:.6f}, \"threads\": {}, \"pieces\": {}, \"takes\": {}, \"bytes_moved\": {}, "
            "\"bytes_read\": {}, \"resident_bytes\": {}}}",
            i == 0 ? "" : ",", one.queue, one.messages, one.stragglers, one.shared, one.processor,
            one.threads, one.pieces, one.takes, one.bytes_moved, one.bytes_read, one.resident_bytes);
    }
    return text + "\n]}\n";
}

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
