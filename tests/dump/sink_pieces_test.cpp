// Tiles of a memory that is copied piece by piece are those of the memory read as it is.

#include "dump/recording/sink_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/reader.h"
#include "dump/recording/captured_run.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/small_problem.h"

namespace tilescope::test {
namespace {

struct Copied {
    std::int64_t bytes = 0;
    std::int64_t copies = 0;
};

/// Copies when it is waited for, so that who does not wait reads something else.
class LateCopier final : public PieceCopier {
 public:
    LateCopier(const std::vector<std::byte>& memory, std::size_t buffer_bytes, Copied& copied)
        : memory_(memory), copied_(copied) {
        for (std::vector<std::byte>& buffer : buffers_) buffer.resize(buffer_bytes);
    }
    std::span<std::byte> buffer(int index) override { return buffers_[std::size_t(index)]; }
    void start(int index, std::size_t offset, std::size_t bytes) override {
        std::vector<std::byte>& buffer = buffers_[std::size_t(index)];
        if (offset + bytes > memory_.size() || bytes > buffer.size()) throw std::logic_error("out of bounds");
        std::ranges::fill(buffer, std::byte(0xee));
        waiting_[std::size_t(index)] = {offset, bytes};
        copied_.bytes += std::int64_t(bytes);
        ++copied_.copies;
    }
    void wait(int index) override {
        const auto [offset, bytes] = waiting_[std::size_t(index)];
        std::memcpy(buffers_[std::size_t(index)].data(), memory_.data() + offset, bytes);
    }

 private:
    struct Part {
        std::size_t offset = 0;
        std::size_t bytes = 0;
    };
    const std::vector<std::byte>& memory_;
    Copied& copied_;
    std::array<std::vector<std::byte>, 2> buffers_;
    std::array<Part, 2> waiting_;
};

/// A plan's memory as a kernel leaves it that writes about one tile of three, in part, and some conflicts.
std::vector<std::byte> played_memory(const CapturePlan& plan, std::mt19937& random) {
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    for (const StageInfo& info : stages_of(plan.problem().direction)) {
        const std::int64_t elements = tile_shape(plan.problem(), info.stage).elements();
        const SinkStage& stage = sink.stages[std::size_t(info.stage)];
        for (std::int64_t slot = 0; slot < plan.capacity(info.stage); ++slot) {
            if (random() % 3 != 0) continue;
            stage.conflicts[slot] = random() % 2;
            for (std::int64_t i = 0; i < elements; ++i) {
                if (random() % 4 == 0) continue;
                std::uint32_t* const word = &stage.words[slot * elements + i];
                *word = std::uint32_t(random()) & 0x7effffffu;
                if (sink.writers != 0) word[sink.writers] = writer_once | (random() & writer_thread);
            }
        }
    }
    return memory;
}

CapturedRun run_of(const CapturePlan& plan, std::unique_ptr<SinkContents> contents) {
    return CapturedRun(plan, std::move(contents), RecordedCall(plan.problem(), {}, {}, {}));
}

class Pieces : public testing::TestWithParam<std::size_t> {
 protected:
    std::unique_ptr<SinkContents> pieces_of(const CapturePlan& plan, const std::vector<std::byte>& memory) {
        const std::size_t buffer = piece_buffer_bytes(plan, GetParam());
        return piece_contents(plan, std::make_unique<LateCopier>(memory, buffer, copied), GetParam());
    }
    const unsigned seed = std::random_device()();
    std::mt19937 random{seed};
    Copied copied;
};

// Smaller than any tile, dividing no stage, most of the memory, all of it.
INSTANTIATE_TEST_SUITE_P(Bytes, Pieces, testing::Values(4, 20, 1000, 4096, 30004, 1 << 20));

TEST_P(Pieces, AreWrittenAsTheMemoryIs) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Problem& problem : {small_problem(), small_backward_problem()}) {
        const CapturePlan plan(problem, Selection(), 1 << 22);
        const std::vector<std::byte> memory = played_memory(plan, random);
        const Stage output = problem.direction == Direction::forward ? Stage::o : Stage::dk;
        const Dtype dtype = stage_dtype(problem, output);
        std::vector<std::byte> bits(output_bytes(problem, output, dtype));
        for (std::byte& byte : bits) byte = std::byte(random() % 64);

        CapturedRun whole = run_of(plan, host_contents(MemoryBlock(memory)));
        CapturedRun pieced = run_of(plan, pieces_of(plan, memory));
        whole.merge_output(output, dtype, bits);
        pieced.merge_output(output, dtype, bits);
        const TemporaryFolder folder;
        write_recording(folder.file("whole.h5"), whole);
        write_recording(folder.file("pieced.h5"), pieced);

        EXPECT_TRUE(bytes_of(folder.file("whole.h5")) == bytes_of(folder.file("pieced.h5")));
        EXPECT_GT(expect_same_contents(*open_recording(folder.file("pieced.h5")), whole), 50);
        EXPECT_TRUE(std::ranges::equal(
            pieced.capture().stages[std::size_t(Stage::s)].conflicts,
            whole.capture().stages[std::size_t(Stage::s)].conflicts,
            [](const auto& a, const auto& b) { return a.tile == b.tile && a.elements == b.elements; }));
    }
}

TEST_P(Pieces, AreWrittenWithTheirWriters) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const CapturePlan plan(small_problem(), Selection(), 1 << 22, SinkMode::writers);
    const std::vector<std::byte> memory = played_memory(plan, random);
    const TemporaryFolder folder;
    write_recording(folder.file("pieced.h5"), run_of(plan, pieces_of(plan, memory)));
    const CapturedRun whole = run_of(plan, host_contents(MemoryBlock(memory)));
    const auto opened = open_recording(folder.file("pieced.h5"));
    int recorded = 0;
    for (const StageInfo& info : stages_of(Direction::forward)) {
        EXPECT_TRUE(opened->has_writers(info.stage)) << info.name;
        for (std::int64_t i = 0; i < tile_count(plan.problem(), info.stage); ++i) {
            const TileId tile = tile_at(plan.problem(), info.stage, i);
            std::vector<ElementWriter> a(std::size_t(tile_shape(plan.problem(), info.stage).elements())),
                b(a);
            const bool has = whole.read_writers(info.stage, tile, a);
            ASSERT_EQ(opened->read_writers(info.stage, tile, b), has);
            EXPECT_EQ(a, b) << info.name << " " << i;
            recorded += has;
        }
    }
    EXPECT_GT(recorded, 100);
}

TEST_P(Pieces, AreReadInAnyOrder) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const CapturePlan plan(small_problem(), Selection(), 1 << 22);
    const std::vector<std::byte> memory = played_memory(plan, random);
    const CapturedRun whole = run_of(plan, host_contents(MemoryBlock(memory)));
    const CapturedRun pieced = run_of(plan, pieces_of(plan, memory));
    int recorded = 0;
    for (int i = 0; i < 2000; ++i) {
        const Stage stage = stages_of(Direction::forward)[random() % 10].stage;
        const TileId tile =
            tile_at(plan.problem(), stage, std::int64_t(random()) % tile_count(plan.problem(), stage));
        std::vector<float> a(std::size_t(tile_shape(plan.problem(), stage).elements()), 3.0f), b(a);
        const bool has = whole.read_tile(stage, tile, a);
        ASSERT_EQ(pieced.has_tile(stage, tile), has);
        ASSERT_EQ(pieced.read_tile(stage, tile, b), has);
        ASSERT_TRUE(same_bits(a, b));
        recorded += has;
    }
    EXPECT_GT(recorded, 300);
}

TEST(PiecesOnce, EachIsCopiedOnceWhenReadInOrder) {
    const CapturePlan plan(small_problem(), Selection(), 1 << 22);
    std::mt19937 random(1);
    const std::vector<std::byte> memory = played_memory(plan, random);
    constexpr std::size_t piece = 1000;
    const std::size_t buffer = piece_buffer_bytes(plan, piece);
    Copied copied;
    const CapturedRun run =
        run_of(plan, piece_contents(plan, std::make_unique<LateCopier>(memory, buffer, copied), piece));
    const TemporaryFolder folder;
    write_recording(folder.file("run.h5"), run);
    const auto pieces = std::int64_t((memory.size() + piece - 1) / piece);
    const auto head = std::int64_t((plan.head_bytes() + buffer - 1) / buffer);
    EXPECT_GT(pieces, 50);
    EXPECT_LE(copied.copies, pieces + head + stage_count) << "at most once more where a stage begins";
}

TEST(PiecesOnce, AnErrorOfTheMemoryIsTold) {
    struct Broken final : PieceCopier {
        std::vector<std::byte> bytes = std::vector<std::byte>(1 << 20);
        std::span<std::byte> buffer(int) override { return bytes; }
        void start(int, std::size_t, std::size_t) override {}
        void wait(int) override { throw Error("is gone", "memory", "start anew"); }
    };
    const CapturePlan plan(small_problem(), Selection(), 1 << 22);
    const auto contents = piece_contents(plan, std::make_unique<Broken>(), 4096);
    const SinkTile tile{plan.tile_offset(Stage::s, 3), tile_shape(plan.problem(), Stage::s),
                        tile_shape(plan.problem(), Stage::s)};
    for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_THROW(contents->has_tile(tile), Error);
        EXPECT_THROW(contents->hold(0, plan.head_bytes()), Error);
    }
}

TEST(LostContents, HaveTheOutputsThatWereMerged) {
    const CapturePlan plan(small_problem(), Selection(), 1 << 22);
    CapturedRun run = run_of(plan, lost_contents(plan));
    for (const StageInfo& info : stages_of(Direction::forward)) EXPECT_FALSE(run.has_stage(info.stage));
    run.merge_output(Stage::lse, Dtype::f32,
                     std::vector<std::byte>(output_bytes(plan.problem(), Stage::lse, Dtype::f32)));
    EXPECT_TRUE(run.has_stage(Stage::lse));
    EXPECT_FALSE(run.has_stage(Stage::o));
    std::vector<float> tile(4, 1.0f);
    ASSERT_TRUE(run.read_tile(Stage::lse, {1, 5, 0, 0}, tile));
    EXPECT_EQ(tile, std::vector<float>(4, 0.0f));
}

}  // namespace
}  // namespace tilescope::test
