// A sink's memory in a file: readable from the moment it has its name, whatever becomes of its process.

#include "dump/file/sink.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "dump/reader.h"
#include "dump/recording/captured_run.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_size_limit.h"
#include "tests/dump/small_problem.h"
#include "tests/dump/spoiled_file.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

constexpr std::size_t plenty = std::size_t(1) << 30;

std::vector<std::byte> bits_of(const std::vector<float>& values, Dtype dtype) {
    const auto bytes = std::size_t(dtype_info(dtype).bytes);
    std::vector<std::byte> bits(values.size() * bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t element = encode(dtype, values[i]);
        std::memcpy(&bits[i * bytes], &element, bytes);
    }
    return bits;
}

RecordedCall call_of(const Problem& problem) {
    const auto input = [&](Input which) {
        return bits_of(sample_input(problem, which), input_shape(problem, which).dtype);
    };
    InputArrays inputs{input(Input::q), input(Input::k), input(Input::v)};
    if (problem.direction == Direction::backward) {
        inputs.dout = input(Input::dout);
        inputs.o = input(Input::o);
        inputs.lse = input(Input::lse);
    }
    Units units;
    units.s_log_base = LogBase::two;
    Provenance provenance;
    provenance.kernel = "a kernel";
    RecordedCall call(problem, units, provenance, std::move(inputs));
    SideInputs side;
    side.seqlens_q = {7, 10};
    call.set_side_inputs(side);
    call.set_bias(sample_bias(1, 6, 1, 13));
    return call;
}

/// A sink file and what a kernel would do to its memory.
struct OpenSink {
    explicit OpenSink(const std::string& path, const char* selection = "", std::size_t max_bytes = plenty,
                      const Problem& problem = small_problem())
        : plan(problem, parse_selection(selection, "test"), max_bytes),
          file(path, plan, max_bytes, call_of(problem)),
          sink(plan.sink(file.memory().data())) {}

    std::uint32_t& word(Stage stage, const TileId& tile, std::int64_t row, std::int64_t col) {
        const SinkStage& room = sink.stages[int(stage)];
        return room.words[(plan.tile_slot(stage, tile) * room.row.extent + row) * room.col.extent + col];
    }
    /// The elements inside the tensor, as a hook does.
    void write(Stage stage, const TileId& tile) {
        const TileShape extent = tile_extent(plan.problem(), stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col)
                word(stage, tile, row, col) =
                    std::bit_cast<std::uint32_t>(sample_value(plan.problem(), stage, tile, row, col));
        }
    }

    CapturePlan plan;
    SinkFile file;
    Sink sink;
};

/// The same tiles and inputs, in memory.
MemoryRecording expected_of(const OpenSink& open, const std::function<bool(Stage, const TileId&)>& keep) {
    const Problem& problem = open.plan.problem();
    MemoryRecording expected(problem);
    for (const StageInfo& info : stages_of(problem.direction)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            if (!keep(info.stage, tile)) continue;
            std::vector<float> values = sample_tile(problem, info.stage, tile);
            for (float& value : values) {
                if (value < 0) value = std::bit_cast<float>(unwritten_bits);  // padding
            }
            expected.set_tile(info.stage, tile, values);
        }
    }
    for (const Input input : all_inputs) {
        if (reads_input(problem.direction, input)) expected.set_input(input, sample_input(problem, input));
    }
    const RecordedCall call = call_of(problem);
    expected.set_side_inputs(call.side_inputs());
    expected.set_bias(sample_bias(1, 6, 1, 13));
    return expected;
}

std::int64_t write_all(OpenSink& open) {
    const Problem& problem = open.plan.problem();
    std::int64_t tiles = 0;
    for (const StageInfo& info : stages_of(problem.direction)) {
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i, ++tiles)
            open.write(info.stage, tile_at(problem, info.stage, i));
    }
    return tiles;
}

class FileSink : public testing::TestWithParam<Direction> {
 protected:
    Problem problem() const {
        return GetParam() == Direction::forward ? small_problem() : small_backward_problem();
    }
    TemporaryFolder folder;
    std::string path = folder.file("run.sink");
};
INSTANTIATE_TEST_SUITE_P(, FileSink, testing::Values(Direction::forward, Direction::backward),
                         [](const auto& direction) {
                             return direction.param == Direction::forward ? "Forward" : "Backward";
                         });

TEST_P(FileSink, HoldsWhatWasWrittenToItsMemory) {
    OpenSink open(path, "", plenty, problem());
    const std::int64_t tiles = write_all(open);
    const auto recording = open_recording(path);
    const auto all = [](Stage, const TileId&) { return true; };
    EXPECT_EQ(expect_same_contents(*recording, expected_of(open, all)), tiles);
    EXPECT_EQ(recording->capture().ended, "running");
    EXPECT_EQ(recording->provenance().kernel, "a kernel");
    EXPECT_EQ(recording->units().s_log_base, LogBase::two);
    EXPECT_EQ(to_string(recording->capture().selection.value()), "");
}

TEST_P(FileSink, BecomesAPlainRecording) {
    OpenSink open(path, "", plenty, problem());
    const std::int64_t tiles = write_all(open);
    write_recording(folder.file("run.h5"), *open_recording(path));
    const auto all = [](Stage, const TileId&) { return true; };
    const auto recovered = open_recording(folder.file("run.h5"));
    EXPECT_EQ(expect_same_contents(*recovered, expected_of(open, all)), tiles);
    EXPECT_EQ(recovered->capture().ended, "running");
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"run.h5", "run.sink"}));
}

TEST_P(FileSink, HoldsNothingBeforeTheFirstWrite) {
    const OpenSink open(path, "", plenty, problem());
    const auto recording = open_recording(path);
    const auto nothing = [](Stage, const TileId&) { return false; };
    EXPECT_EQ(expect_same_contents(*recording, expected_of(open, nothing)), 0);
}

class FileSinkForward : public SpoiledFile {};

TEST_F(FileSinkForward, IsReadWhileItIsWritten) {
    OpenSink open(path, "head=1,4");
    open.write(Stage::s, {0, 1, 0, 0});
    const auto recording = open_recording(path);
    EXPECT_TRUE(recording->has_stage(Stage::s));
    EXPECT_FALSE(recording->has_stage(Stage::p));
    EXPECT_FALSE(recording->has_tile(Stage::s, {0, 1, 0, 1}));
    EXPECT_FALSE(recording->has_tile(Stage::s, {0, 2, 0, 0})) << "not selected";
    EXPECT_FALSE(recording->has_tile(Stage::s, {0, 1, 9, 0})) << "not in the problem";
    open.write(Stage::s, {0, 1, 0, 1});
    std::vector<float> tile(20, -1.0f);
    ASSERT_TRUE(recording->read_tile(Stage::s, {0, 1, 0, 1}, tile));
    EXPECT_EQ(tile, sample_tile(small_problem(), Stage::s, {0, 1, 0, 1}));
    open.word(Stage::p, {1, 4, 2, 2}, 1, 2) = std::bit_cast<std::uint32_t>(2.5f);
    ASSERT_TRUE(recording->read_tile(Stage::p, {1, 4, 2, 2}, tile));
    for (std::size_t i = 0; i < tile.size(); ++i) {
        if (i == 1 * 5 + 2) {
            EXPECT_EQ(tile[i], 2.5f);
        } else {
            EXPECT_TRUE(is_unwritten(tile[i])) << i;
        }
    }
}

TEST_F(FileSinkForward, LeavesTheBufferAloneWhereNothingWasWritten) {
    const OpenSink open(path);
    std::vector<float> tile(20, -1.0f);
    EXPECT_FALSE(open_recording(path)->read_tile(Stage::s, {0, 1, 0, 1}, tile));
    EXPECT_EQ(tile, std::vector<float>(20, -1.0f));
}

TEST_F(FileSinkForward, SaysHowTheRunEnded) {
    const OpenSink open(path);
    open.file.set_ended("an illegal memory\x01 access");
    EXPECT_EQ(open_recording(path)->capture().ended, "an illegal memory? access");
    open.file.set_ended("completed");
    EXPECT_EQ(open_recording(path)->capture().ended, "completed");
    open.file.set_ended(std::string(1000, 'x'));
    EXPECT_EQ(open_recording(path)->capture().ended, std::string(256, 'x'));
}

TEST_F(FileSinkForward, CountsWhatACapturedRunCounts) {
    // Room for the tiles of k and two of s.
    constexpr std::size_t room = 256 + sizeof(SinkCounters) + 39 * 4 + 36 * 41 * 4 + 2 * 21 * 4;
    OpenSink open(path, "head=0,1:stage=k,s", room);
    ASSERT_EQ(open.plan.capacity(Stage::s), 2);
    open.sink.counters->dropped[int(Stage::s)].elements = 77;
    open.sink.counters->out_of_range[int(Stage::k)].elements = 5;
    open.sink.stages[int(Stage::k)].conflicts[35] = 9;
    const auto recording = open_recording(path);
    const StageCapture& k = recording->capture().stages[int(Stage::k)];
    EXPECT_EQ(k.elements_out_of_range, 5);
    ASSERT_EQ(k.conflicts.size(), 1u);
    EXPECT_EQ(k.conflicts[0].tile, (TileId{1, 1, 2, 2}));
    EXPECT_EQ(k.conflicts[0].elements, 9);
    const StageCapture& s = recording->capture().stages[int(Stage::s)];
    EXPECT_EQ(s.elements_dropped, 77);
    EXPECT_EQ(s.dropped.size(), 34u) << "36 are selected, 2 have room";
}

// cudaHostRegister takes whole pages.
TEST_F(FileSinkForward, BeginsAtAPage) {
    const OpenSink open(path, "stage=lse");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(open.file.memory().data()) % 4096, 0u);
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Handle image(H5Dopen2(file, "/capture/sink", H5P_DEFAULT));
    EXPECT_EQ(H5Dget_offset(image) % 65536, 0u);
}

TEST_F(FileSinkForward, MemoryOutlivesIt) {
    MemoryBlock memory;
    {
        const OpenSink open(path);
        memory = open.file.memory();
    }
    const CapturePlan plan(small_problem(), {}, plenty);
    ASSERT_EQ(memory.size(), plan.bytes());
    plan.sink(memory.data()).stages[int(Stage::lse)].words[0] = std::bit_cast<std::uint32_t>(1.5f);
    std::vector<float> tile(4);
    ASSERT_TRUE(open_recording(path)->read_tile(Stage::lse, {}, tile));
    EXPECT_EQ(tile[0], 1.5f);
}

TEST_F(FileSinkForward, IsItsOwnersAlone) {
    const OpenSink open(path);
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(FileSinkForward, KeepsItsNameAsLongAsItsRun) {
    std::optional<OpenSink> first(path);
    first->write(Stage::s, {1, 5, 2, 1});
    const std::unique_ptr<Recording> recording = open_recording(path);
    const std::string refused =
        path +
        ": holds the tiles of a run that has not ended; choose another output file, or "
        "wait for the run";
    EXPECT_EQ(error_of([&] { write_recording(path, *recording); }), refused);
    EXPECT_EQ(error_of([&] { OpenSink second(path); }), refused);
    EXPECT_TRUE(open_recording(path)->has_tile(Stage::s, {1, 5, 2, 1}));
    write_recording(folder.file("recovered.h5"), *recording);
    first->file.set_ended("completed");
    EXPECT_EQ(error_of([&] { OpenSink second(path); }), "accepted") << "it has ended";
    first.emplace(path);
    first->file.set_ended("completed");
    first->file.set_running();
    EXPECT_EQ(error_of([&] { OpenSink second(path); }), refused) << "it began again";
    first.reset();
    write_recording(path, *recording);
    EXPECT_TRUE(open_recording(path)->has_tile(Stage::s, {1, 5, 2, 1}));
}

TEST_F(FileSinkForward, ReplacesAFileAndNothingElse) {
    std::ofstream(path) << "what was there before";
    { const OpenSink open(path); }
    EXPECT_EQ(refusal(path), "");
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
    std::filesystem::create_directory(folder.file("folder"));
    EXPECT_NE(error_of([&] { OpenSink(folder.file("folder")); }).find("is a directory"), std::string::npos);
}

TEST_F(FileSinkForward, LeavesTheOldFileWhenTheDiskIsFull) {
    { const OpenSink open(path); }
    const auto size = rlim_t(std::filesystem::file_size(path));
    ASSERT_GT(size, 65536u);
    std::ofstream(path) << "what was there before";
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<rlim_t> limits = {0, 1, 65536, size - 1};
    while (limits.size() < 50) limits.push_back(std::uniform_int_distribution<rlim_t>(0, size - 1)(random));
    for (const rlim_t limit : limits) {
        std::string message;
        {
            const FileSizeLimit full(limit);
            message = error_of([&] { OpenSink open(path); });
        }
        EXPECT_NE(message.find("File too large; "), std::string::npos) << "at " << limit << ": " << message;
        EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"}) << "at " << limit;
        EXPECT_EQ(std::filesystem::file_size(path), 21u) << "at " << limit;
    }
}

// Without room for every page the first write to one would kill the process.
TEST_F(FileSinkForward, RefusesWhatTheFileSystemCannotHold) {
    Problem problem = small_problem();
    problem.batch = 1;
    problem.seqlen_q = problem.seqlen_kv = std::int64_t(1) << 19;
    problem.block_m = problem.block_n = 16384;
    const Selection selection = parse_selection("stage=s", "test");
    constexpr std::size_t max_bytes = std::size_t(1) << 43;
    const CapturePlan plan(problem, selection, max_bytes);
    ASSERT_GT(plan.bytes(), std::size_t(6) << 40) << "6 TiB";
    const RecordedCall call(problem, {}, {}, {});
    const std::string message = error_of([&] { SinkFile(path, plan, max_bytes, call); });
    EXPECT_EQ(message.rfind(path + ": no room for ", 0), 0u) << message;
    EXPECT_NE(message.find("; select fewer tiles"), std::string::npos) << message;
    EXPECT_TRUE(folder.names().empty());
}

using FileSinkHostile = FileSinkForward;

void change_file(const std::string& path, const std::function<void(hid_t)>& change) {
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    change(file);
}

TEST_F(FileSinkHostile, AttributesLie) {
    struct Lie {
        std::function<void(hid_t)> tell;
        const char* object;
        const char* words;
    };
    const auto text = [](const char* object, const char* name, const char* value) {
        return [=](hid_t file) { set_text(file, object, name, value); };
    };
    const auto integer = [](const char* object, const char* name, std::int64_t value) {
        return [=](hid_t file) { set_integer(file, object, name, value); };
    };
    const std::vector<Lie> lies = {
        {integer("/capture/sink", "max_bytes", -1), "/capture/sink", "how many bytes"},
        {integer("/capture/sink", "max_bytes", 0), "", "the tables for"},
        {integer("/capture/sink", "max_bytes", sizeof(SinkCounters::hooks) + 2000), "/capture/sink",
         "elements where the capture takes"},
        {text("/capture/sink", "max_bytes", "many"), "/capture/sink", "max_bytes"},
        {[](hid_t file) { delete_attribute(file, "/capture/sink", "max_bytes"); }, "/capture/sink",
         "how many bytes"},
        {[](hid_t file) { delete_attribute(file, "/capture", "selection"); }, "/capture/sink",
         "does not say of which selection"},
        {text("/capture", "selection", "head=1"), "/capture/sink", "elements where the capture takes"},
        {text("/capture", "selection", "head=2,4:stage=s"), "/capture/sink", "other slot tables"},
        {text("/capture", "selection", "head=99"), "", "selects no tile"},
    };
    for (const Lie& lie : lies) {
        { const OpenSink open(path, "head=1,3:stage=s"); }
        change_file(path, lie.tell);
        const std::string message = refusal(path);
        EXPECT_NE(message.find(lie.words), std::string::npos) << message << "\nexpected: " << lie.words;
        if (lie.object[0] != 0) expect_refused(path, lie.object, lie.words);
    }
}

TEST_F(FileSinkHostile, TablesThatFitNoMemoryAreNotAllocated) {
    { const OpenSink open(path); }
    for (const char* name :
         {"/inputs/q", "/inputs/k", "/inputs/v", "/inputs/seqlens_q", "/inputs/bias", "/tiles", "/outputs"})
        change_file(path, [&](hid_t file) { unlink_object(file, name); });
    change_file(path, [](hid_t file) {
        set_integer(file, "/problem", "batch", 1 << 20);
        set_integer(file, "/problem", "seqlen_q", 1 << 10);
        set_integer(file, "/capture/sink", "max_bytes", std::int64_t(1) << 62);
    });
    expect_refused(path, "/capture/sink", "the tables of the problem take");
}

TEST_F(FileSinkHostile, ImageOfAnotherKind) {
    const auto replace_image = [&](const std::function<void(hid_t)>& create) {
        { const OpenSink open(path); }
        change_file(path, [&](hid_t file) {
            unlink_object(file, "/capture/sink");
            create(file);
        });
    };
    replace_image([](hid_t file) {
        create_chunked(file, "/capture/sink", H5T_STD_I32LE, {64}, {8}, std::vector<int>(64).data());
    });
    expect_refused(path, "/capture/sink", "has chunks");
    replace_image([](hid_t file) {
        create_dataset(file, "/capture/sink", H5T_IEEE_F32LE, {64}, H5P_DEFAULT, std::vector<int>(64).data());
    });
    expect_refused(path, "/capture/sink", "not little-endian int32");
    replace_image([](hid_t file) {
        const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
        require(H5Pset_external(properties, "/dev/zero", 0, 256));
        create_dataset(file, "/capture/sink", H5T_STD_I32LE, {64}, properties, nullptr);
    });
    expect_refused(path, "/capture/sink", "external storage");
    replace_image([](hid_t file) {
        require(H5Lcreate_soft("/inputs/q", file, "/capture/sink", H5P_DEFAULT, H5P_DEFAULT));
    });
    expect_refused(path, "/capture/sink", "soft or external link");
    // As long as it should be, but never stored.
    const std::int64_t elements = std::int64_t(CapturePlan(small_problem(), {}, plenty).bytes() + 256) / 4;
    replace_image([&](hid_t file) {
        create_dataset(file, "/capture/sink", H5T_STD_I32LE, {hsize_t(elements)}, H5P_DEFAULT, nullptr);
        set_integer(file, "/capture/sink", "max_bytes", plenty);
    });
    expect_refused(path, "/capture/sink", "but stores 0");
    // The right number of elements, of 8 bytes.
    const std::vector<std::int64_t> wide{std::vector<std::int64_t>(std::size_t(elements))};
    replace_image([&](hid_t file) {
        create_dataset(file, "/capture/sink", H5T_STD_I64LE, {hsize_t(elements)}, H5P_DEFAULT, wide.data());
        set_integer(file, "/capture/sink", "max_bytes", plenty);
    });
    expect_refused(path, "/capture/sink", "of 4 bytes");
}

TEST_F(FileSinkHostile, TilesBesideTheImage) {
    { const OpenSink open(path); }
    change_file(path, [](hid_t file) {
        const Handle tiles(H5Dopen2(file, "/tiles/s", H5P_DEFAULT));
        const hsize_t offset[4] = {};
        const std::vector<float> values(20);
        require(H5Dwrite_chunk(tiles, H5P_DEFAULT, 0, offset, 80, values.data()));
        set_integer(file, "/capture/s", "tiles_written", 1);
    });
    expect_refused(path, "/capture/sink", "beside stored tiles");
}

TEST_F(FileSinkHostile, SpoiledTablesAndCounters) {
    {
        OpenSink open(path);
        const_cast<std::int32_t*>(open.sink.q_block_slots)[3] = 2000000000;
    }
    expect_refused(path, "/capture/sink", "other slot tables");
    {
        OpenSink open(path);
        open.sink.counters->dropped[int(Stage::s)].elements = ~0ull;
    }
    expect_refused(path, "/capture/sink", "more writes than there can be");
}

TEST_F(FileSinkHostile, CutFile) {
    { const OpenSink open(path); }
    const auto size = std::filesystem::file_size(path);
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int i = 0; i < 20; ++i) {
        std::filesystem::resize_file(path, size);
        std::filesystem::resize_file(path,
                                     std::uniform_int_distribution<std::uintmax_t>(1, size - 1)(random));
        EXPECT_NE(refusal(path), "");
    }
}

TEST_F(FileSinkHostile, FileThatShrinksWhileItIsRead) {
    const OpenSink open(path);
    const auto recording = open_recording(path);
    const auto copy = folder.file("copy.sink");
    std::filesystem::copy_file(path, copy);
    const auto cut = open_recording(copy);
    std::filesystem::resize_file(copy, 65536 + 4096);
    std::vector<float> tile(4 * 8);
    EXPECT_NE(error_of([&] {
                  cut->read_tile(Stage::lse, {1, 5, 2, 0}, tile);
              }).find("has become shorter; "),
              std::string::npos);
    EXPECT_FALSE(recording->read_tile(Stage::lse, {1, 5, 2, 0}, tile));
}

// 300 bytes of the file, one after the other, each with another value: never a crash, and never a tile of
// another size.
TEST_F(FileSinkHostile, DamagedBytes) {
    { const OpenSink open(path, "stage=s,lse"); }
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::string before = [&] {
        std::string bytes(std::filesystem::file_size(path), 0);
        stream.read(bytes.data(), std::streamsize(bytes.size()));
        return bytes;
    }();
    for (int i = 0; i < 300; ++i) {
        const auto at = std::uniform_int_distribution<std::size_t>(0, before.size() - 1)(random);
        const char spoiled = char(before[at] ^ std::uniform_int_distribution<int>(1, 255)(random));
        stream.seekp(std::streamoff(at)).write(&spoiled, 1).flush();
        try {
            const auto recording = open_recording(path);
            std::vector<float> tile(20);
            recording->read_tile(Stage::s, {1, 5, 2, 2}, tile);
        } catch (const Error&) {}
        stream.seekp(std::streamoff(at)).write(&before[at], 1).flush();
    }
    EXPECT_EQ(refusal(path), "");
}

}  // namespace
}  // namespace tilescope::test
