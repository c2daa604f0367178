// How fast recordings are written, against write(2) of the same bytes to the same file system, and how much
// memory that takes: bench_drain [DIRECTORY...], /dev/shm and the temporary directory unless told.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/writer.h"
#include "tests/support/generated_pieces.h"

namespace tilescope {
namespace {

constexpr int rounds = 7;
constexpr std::size_t no_limit = std::size_t(1) << 40;

double seconds_of(const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// With one call for each 4 MiB, and fsync(), as recordings end.
void write_plainly(const std::string& path, std::size_t bytes) {
    const std::vector<char> block(std::size_t(4) << 20, '?');
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (descriptor < 0) throw std::runtime_error(path + ": cannot be created");
    for (std::size_t left = bytes; left > 0;) {
        const ssize_t count = write(descriptor, block.data(), std::min(left, block.size()));
        if (count <= 0) throw std::runtime_error(path + ": cannot be written");
        left -= std::size_t(count);
    }
    const bool failed = fsync(descriptor) != 0;
    close(descriptor);
    if (failed) throw std::runtime_error(path + ": cannot be written");
}

struct Shape {
    const char* name;
    std::int64_t block_m;
    std::int64_t block_n;
};

void bench_rate(const std::string& directory, const Shape& shape) {
    Problem problem = test::large_problem(13);
    problem.block_m = shape.block_m;
    problem.block_n = shape.block_n;
    const CapturePlan plan(problem, Selection(), no_limit);
    const std::size_t bytes = plan.bytes() - plan.head_bytes();
    const std::string path = directory + "/bench_drain." + std::to_string(getpid());
    std::vector<double> plain, recorded;
    for (int round = 0; round <= rounds; ++round) {
        const double write_seconds = seconds_of([&] { write_plainly(path, bytes); });
        std::filesystem::remove(path);
        const CapturedRun run = test::generated_run(plan, 0);
        const double record_seconds = seconds_of([&] { write_recording(path, run); });
        std::filesystem::remove(path);
        if (round == 0) continue;
        plain.push_back(write_seconds);
        recorded.push_back(record_seconds);
    }
    const double gigabytes = double(bytes) / 1e9;
    fmt::print(
        "{:<10} {:<14} {:5.2f} GB   write(2) {:5.2f} GB/s   recording {:5.2f} GB/s   {:.2f} of it (goal: "
        "0.80)\n",
        directory, shape.name, gigabytes, gigabytes / median(plain), gigabytes / median(recorded),
        median(plain) / median(recorded));
    std::fflush(stdout);
}

std::int64_t peak_mebibytes() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

/// In a child, whose peak is its own.
void bench_memory(const std::string& directory) {
    const pid_t child = fork();
    if (child == 0) {
        const CapturePlan plan(test::large_problem(102), Selection(), no_limit);
        const std::string path = directory + "/bench_drain." + std::to_string(getpid());
        const std::int64_t before = peak_mebibytes();
        // A tile of 16 KiB in every 64 KiB is there: a file of 2 GiB.
        write_recording(path, test::generated_run(plan, std::size_t(1) << 16));
        fmt::print("a sink of {:.2f} GiB is recorded within {} MiB (goal: 1024, whatever its size)\n",
                   double(plan.bytes()) / double(1 << 30), peak_mebibytes() - before);
        std::filesystem::remove(path);
        std::fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) throw std::runtime_error("the recording of 8 GiB could not be written");
}

void run(std::vector<std::string> directories) {
    if (directories.empty()) directories = {"/dev/shm", std::filesystem::temp_directory_path().string()};
    constexpr Shape shapes[] = {{"tiles of 64x64", 64, 64}, {"tiles of 32x64", 32, 64}};
    fmt::print("medians of {}\n", rounds);
    for (const std::string& directory : directories) {
        for (const Shape& shape : shapes) bench_rate(directory, shape);
    }
    bench_memory(directories.front());
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    try {
        tilescope::run({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_drain: {}\n", error.what());
        return 2;
    }
}
