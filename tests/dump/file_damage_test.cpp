// Damaged files: an Error, or a recording that can be read to its end. HDF5 itself crashes or loops on some
// of them, so that this is also the test of the trial in a child process.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <new>
#include <random>

#include "dump/file/trial.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/plain_dump.h"

namespace tilescope::test {
namespace {

void write_packed_and_paged(const std::string& path) {
    write_spoiled_dump(path, [](hid_t file) {
        unlink_object(file, "/inputs/k");
        unlink_object(file, "/inputs/v");
        const Handle half(half_type());
        const std::vector<std::uint16_t> zeros(64, 0);
        create_dataset(file, "/inputs/k", half, {4, 2, 4, 2}, H5P_DEFAULT, zeros.data());
        create_dataset(file, "/inputs/v", half, {4, 2, 4, 2}, H5P_DEFAULT, zeros.data());
        const std::int32_t sums[] = {0, 8};
        create_dataset(file, "/inputs/cu_seqlens_q", H5T_STD_I32LE, {2}, H5P_DEFAULT, sums);
        const std::int32_t pages[] = {3, 1, 2};
        create_dataset(file, "/inputs/page_table", H5T_STD_I32LE, {1, 3}, H5P_DEFAULT, pages);
    });
}

void write_backward(const std::string& path) {
    Problem problem;
    problem.direction = Direction::backward;
    problem.heads = 2;
    problem.seqlen_q = problem.seqlen_kv = 4;
    problem.head_dim = problem.head_dim_v = 2;
    problem.block_m = problem.block_n = 2;
    MemoryRecording recording(problem);
    fill(recording);
    CaptureSummary capture;
    capture.stages[static_cast<std::size_t>(Stage::dk)].conflicts = {{{0, 0, 0, 1}, 3}};
    recording.set_capture(capture);
    write_recording(path, recording);
}

/// A file with little in it but metadata.
std::string write_small_file(const TemporaryFolder& folder, const std::string& kind) {
    std::string path = folder.file(kind + ".h5");
    if (kind == "plain") {
        write_plain_dump(path);
        return path;
    }
    if (kind == "backward") {
        write_backward(path);
        return path;
    }
    if (kind == "paged") {
        write_packed_and_paged(path);
        return path;
    }
    Problem problem;
    problem.heads = 2;
    problem.seqlen_q = problem.seqlen_kv = 4;
    problem.head_dim = problem.head_dim_v = 2;
    problem.block_m = problem.block_n = 2;
    problem.alibi = Alibi::linear;
    problem.sink = AttentionSink::first;
    MemoryRecording recording(problem);
    fill(recording);
    SideInputs inputs;
    inputs.seqlens_q = {3};
    inputs.seqlens_kv = {4};
    inputs.alibi_slopes = {0.5f, 0.25f};
    inputs.sink = {1, 2};
    inputs.descale_q = {0, 1, 0, {0.5f}};
    inputs.descale_k = {1, 1, 4, {2}};
    inputs.descale_v = {1, 2, 2, {3, 4}};
    recording.set_side_inputs(inputs);
    recording.set_bias({1, 2, 4, 4, std::vector<float>(32, -1.0f)});
    CaptureSummary capture;
    capture.stages[static_cast<std::size_t>(Stage::s)].conflicts = {{{0, 1, 1, 1}, 3}};
    recording.set_capture(capture);
    write_recording(path, recording);
    return path;
}

void read_everything(const Recording& recording) {
    const Problem& problem = recording.problem();
    for (const StageInfo& info : all_stages()) {
        if (!recording.has_stage(info.stage)) continue;
        std::vector<float> values(static_cast<std::size_t>(tile_shape(problem, info.stage).elements()));
        const std::int64_t tiles = std::min<std::int64_t>(tile_count(problem, info.stage), 1000);
        for (std::int64_t i = 0; i < tiles; ++i) {
            recording.read_tile(info.stage, tile_at(problem, info.stage, i), values);
        }
    }
    std::vector<float> key(1);
    if (recording.has_bias()) {
        recording.read_bias(problem.batch - 1, problem.heads - 1, problem.seqlen_q - 1, problem.seqlen_kv - 1,
                            key);
    }
    const Problem entry = problem_of(problem, recording.side_inputs(), 0);
    std::vector<float> row(static_cast<std::size_t>(std::max(problem.head_dim, problem.head_dim_v)));
    for (const Input input : all_inputs) {
        if (!recording.has_input(input)) continue;
        const std::int64_t rows = input_shape(entry, input).rows;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(rows, 1000); ++i) {
            recording.read_input(input, 0, 0, i, 1, row);
        }
    }
}

/// What the reader says to these bytes; empty when it reads them all.
std::string outcome(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
        read_everything(*open_recording(path));
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
        return error.what();
    }
    return "";
}

#ifdef __SANITIZE_ADDRESS__
constexpr int changes = 200;  // copying a process takes ten times as long there
#else
constexpr int changes = 1000;
#endif

class FileDamage : public testing::TestWithParam<const char*> {
 protected:
    TemporaryFolder folder;
    std::string intact = bytes_of(write_small_file(folder, GetParam()));
    std::string path = folder.file("damaged.h5");
    unsigned seed = std::random_device()();
    testing::ScopedTrace trace{__FILE__, __LINE__, "seed " + std::to_string(seed)};
    std::mt19937 random{seed};
};

TEST_P(FileDamage, Truncated) {
    ASSERT_EQ(outcome(path, intact), "");
    std::vector<std::size_t> lengths = {1, 7, 8, 9, 24, 47, 48, 63, 64, 96, 512, intact.size() - 1};
    while (lengths.size() < 32) lengths.push_back(1 + random() % (intact.size() - 1));
    for (const std::size_t length : lengths) {
        const std::string message = outcome(path, intact.substr(0, length));
        const bool named = message.find("truncated") != std::string::npos ||
                           message.find("is not an HDF5 file") != std::string::npos;
        EXPECT_TRUE(named) << length << " bytes: " << message;
    }
}

TEST_P(FileDamage, OneByteChanged) {
    int read = 0;
    int refused = 0;
    for (int i = 0; i < changes; ++i) {
        std::string bytes = intact;
        const std::size_t at = random() % bytes.size();
        const char others[] = {static_cast<char>(random()), char(0), char(-1),
                               static_cast<char>(bytes[at] ^ (1 << random() % 8))};
        bytes[at] = others[random() % std::size(others)];
        SCOPED_TRACE("byte " + std::to_string(at) + " is " + std::to_string(int(bytes[at])));
        (outcome(path, bytes).empty() ? read : refused) += 1;
    }
    EXPECT_GT(read, 0);
    EXPECT_GT(refused, 0);
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 1 << 20) << "KiB";
}

INSTANTIATE_TEST_SUITE_P(, FileDamage, testing::Values("ours", "plain", "paged", "backward"),
                         [](const auto& kind) { return std::string(kind.param); });

std::string trial_message(const std::function<void()>& task) {
    try {
        ask_in_child(
            [&] {
                task();
                return std::string();
            },
            "file");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(FileTrial, PassesOnWhatTheTaskSays) {
    EXPECT_EQ(trial_message([] {}), "");
    EXPECT_EQ(trial_message([] { throw Error("what", "where", "do"); }), "where: what; do");
}

TEST(FileTrial, ReturnsWhatTheTaskReturns) {
    EXPECT_EQ(ask_in_child([] { return std::string("an answer"); }, "file"), "an answer");
}

TEST(FileTrial, SurvivesACrash) {
    const std::string message = trial_message([] { std::abort(); });
    EXPECT_NE(message.find("file: HDF5 does not survive opening it (it crashes: Aborted)"), std::string::npos)
        << message;
}

/// As one that is copied while another thread holds a lock.
TEST(FileTrial, TriesAgainWhereACopyWaitsForWhatNeverComes) {
    const TemporaryFolder folder;
    const std::string flag = folder.file("flag");
    EXPECT_EQ(trial_message([&] {
                  if (std::ifstream(flag)) return;
                  std::ofstream(flag) << "first";
                  pause();
              }),
              "");
}

TEST(FileTrial, BoundsMemory) {
    // AddressSanitizer ends a process whose `new` fails, before the exception: ask the kernel itself.
    const std::string message = trial_message([] {
        void* much =
            mmap(nullptr, std::size_t(8) << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (much == MAP_FAILED) throw std::bad_alloc();
    });
    EXPECT_NE(message.find("more memory"), std::string::npos) << message;
}

}  // namespace
}  // namespace tilescope::test
