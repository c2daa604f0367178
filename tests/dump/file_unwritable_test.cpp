// A recording appears whole under its name or not at all, whatever fails.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/file_size_limit.h"

namespace tilescope::test {
namespace {

std::string message_of(const std::string& path, const Recording& recording) {
    try {
        write_recording(path, recording);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

MemoryRecording small_recording() {
    Problem problem = sample_problem();
    MemoryRecording recording(problem);
    fill(recording);
    recording.set_side_inputs(sample_side_inputs());
    recording.set_bias(sample_bias(1, 4, 37, 50));
    return recording;
}

TEST(FileUnwritable, NamesAFolderThatDoesNotExist) {
    const TemporaryFolder folder;
    const MemoryRecording recording(sample_problem());
    const std::string message = message_of(folder.file("missing/run.h5"), recording);
    EXPECT_NE(message.find("missing/run.h5: cannot be created: No such file or directory; "),
              std::string::npos)
        << message;
}

TEST(FileUnwritable, NamesAFolderThatIsAFile) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("file")) << "text";
    const MemoryRecording recording(sample_problem());
    const std::string message = message_of(folder.file("file/run.h5"), recording);
    EXPECT_NE(message.find("Not a directory"), std::string::npos) << message;
    EXPECT_EQ(bytes_of(folder.file("file")), "text");
}

TEST(FileUnwritable, NamesAFolderThatCannotBeWrittenTo) {
    if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("closed"));
    chmod(folder.file("closed").c_str(), 0500);
    const MemoryRecording recording(sample_problem());
    const std::string message = message_of(folder.file("closed/run.h5"), recording);
    EXPECT_NE(message.find("Permission denied"), std::string::npos) << message;
}

TEST(FileUnwritable, ReplacesNeitherFoldersNorDevices) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("folder"));
    ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
    const MemoryRecording recording(sample_problem());
    EXPECT_NE(message_of(folder.file("folder"), recording).find("is a directory"), std::string::npos);
    EXPECT_NE(message_of(folder.file("pipe"), recording).find("is not a regular file"), std::string::npos);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"folder", "pipe"}));
}

// The disk fills up at 200 places of the file. HDF5 1.10 alone cannot close such a file, and crashes when the
// program ends.
TEST(FileUnwritable, LeavesTheOldFileWhenTheDiskIsFull) {
    const TemporaryFolder folder;
    const MemoryRecording recording = small_recording();
    const std::string path = folder.file("run.h5");
    write_recording(path, recording);
    const auto size = static_cast<rlim_t>(std::filesystem::file_size(path));
    ASSERT_GT(size, 100000u);
    std::ofstream(path) << "what was there before";

    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<rlim_t> limits = {0, 1, 100, 2048, size - 1};
    while (limits.size() < 200) limits.push_back(std::uniform_int_distribution<rlim_t>(0, size - 1)(random));
    for (const rlim_t limit : limits) {
        std::string message;
        {
            const FileSizeLimit full(limit);
            message = message_of(path, recording);
        }
        EXPECT_NE(message.find("cannot be written: File too large; "), std::string::npos)
            << "at " << limit << ": " << message;
        EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"}) << "at " << limit;
        ASSERT_EQ(bytes_of(path), "what was there before") << "at " << limit;
    }
    write_recording(path, recording);
    EXPECT_GT(expect_same_contents(*open_recording(path), recording), 0);
}

TEST(FileUnwritable, LeavesNothingWhenTheRecordingCannotBeRead) {
    struct : Recording {
        MemoryRecording inner = small_recording();
        const std::string& name() const override { return inner.name(); }
        const Problem& problem() const override { return inner.problem(); }
        const Units& units() const override { return inner.units(); }
        const Provenance& provenance() const override { return inner.provenance(); }
        const CaptureSummary& capture() const override { return inner.capture(); }
        bool has_stage(Stage stage) const override { return inner.has_stage(stage); }
        bool has_tile(Stage stage, const TileId& tile) const override { return inner.has_tile(stage, tile); }
        bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
            if (stage == Stage::p) throw Error("is damaged", "p", "record it again");
            return inner.read_tile(stage, tile, out);
        }
        bool has_input(Input) const override { return false; }
        void read_input(Input, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                        Span<float>) const override {}
        const SideInputs& side_inputs() const override { return inner.side_inputs(); }
        bool has_bias() const override { return false; }
        void read_bias(std::int64_t, std::int64_t, std::int64_t, std::int64_t, Span<float>) const override {}
    } recording;
    const TemporaryFolder folder;
    EXPECT_EQ(message_of(folder.file("run.h5"), recording), "p: is damaged; record it again");
    EXPECT_TRUE(folder.names().empty());
}

TEST(FileUnwritable, RefusesAnInvalidProblem) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.sm_scale = -1;
    EXPECT_NE(message_of(folder.file("run.h5"), MemoryRecording(problem)).find("sm_scale"),
              std::string::npos);
    EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace tilescope::test
