// Recordings that are larger than the memory there is for them, and than the disk.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/file_size_limit.h"
#include "tests/support/generated_pieces.h"

namespace tilescope::test {
namespace {

constexpr std::size_t no_limit = std::size_t(1) << 40;

std::int64_t peak_kib() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/// Exit status of a child that runs `task` for its value.
template <class Task>
int in_child(Task task) {
    const pid_t child = fork();
    if (child == 0) _exit(task());
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(LargeRecording, TakesLittleMemory) {
    const CapturePlan plan(large_problem(26), Selection(), no_limit);
    ASSERT_GT(plan.bytes(), std::size_t(2) << 30);
    // A tile of 16 KiB in every MiB is there.
    constexpr std::size_t stride = 1 << 20;
    const TemporaryFolder folder;
    const std::string path = folder.file("run.h5");
    const int mebibytes = in_child([&] {
        const std::int64_t before = peak_kib();
        write_recording(path, generated_run(plan, stride));
        return int(std::min<std::int64_t>((peak_kib() - before) / 1024, 255));
    });
    EXPECT_LT(mebibytes, 255);
    EXPECT_GT(mebibytes, 32) << "the two pieces alone take more";

    const std::unique_ptr<Recording> recording = open_recording(path);
    std::int64_t tiles = 0;
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (std::int64_t i = 0; i < tile_count(plan.problem(), info.stage); ++i) {
            tiles += recording->has_tile(info.stage, tile_at(plan.problem(), info.stage, i));
        }
    }
    EXPECT_EQ(tiles, std::int64_t((plan.bytes() - 1) / stride - (plan.head_bytes() - 1) / stride));
}

TEST(LargeRecording, LeavesNothingWhenTheDiskFillsUpMidway) {
    const CapturePlan plan(large_problem(1), Selection(), no_limit);
    for (const rlim_t mebibytes : {0, 3, 20, 79}) {
        const TemporaryFolder folder;
        const FileSizeLimit full(mebibytes << 20);
        try {
            write_recording(folder.file("run.h5"), generated_run(plan, 0));
            ADD_FAILURE() << "there is room for " << mebibytes << " MiB only";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()), folder.file("run.h5") +
                                                     ": cannot be written: File too large; free space on its "
                                                     "disk or choose another file");
        }
        EXPECT_TRUE(folder.names().empty());
    }
}

}  // namespace
}  // namespace tilescope::test
