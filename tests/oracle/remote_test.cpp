// A recording on another process' disk: all that it holds, and its errors, as that process has them.

#include "oracle/remote/remote_recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>

#include "dump/reader.h"
#include "dump/recording/array_shape.h"
#include "dump/recording/recording_view.h"
#include "oracle/remote/recording_server.h"
#include "tests/support/memory_recording.h"
#include "tests/support/simulated_processes.h"

namespace tilescope::test {
namespace {

using OpenShared = std::function<std::shared_ptr<const Recording>(const std::string& path)>;

/// Process 0 opens it; process 1 reads it there.
void in_another_process(const OpenShared& open, const std::string& path,
                        const std::function<void(const Recording& here, const Recording& there)>& compare) {
    in_processes(2, [&](WorkSharing& sharing) {
        RecordingServer server([&](const std::string& asked, bool) { return open(asked); });
        sharing.together([&] {
            sharing.answer_with([&](std::string_view question) { return server.answer(question); });
            sharing.begin(0);
            if (sharing.process() == 1) compare(*open(path), *open_remote(sharing, 0, path, false));
        });
    });
}

template <class T>
std::vector<T> read(std::int64_t count, const std::function<void(Span<T>)>& read_it) {
    std::vector<T> values(static_cast<std::size_t>(count));
    read_it(Span<T>(values));
    return values;
}

/// Bit by bit: there are NaNs.
void expect_bits(const std::vector<float>& here, const std::vector<float>& there) {
    ASSERT_EQ(here.size(), there.size());
    EXPECT_EQ(std::memcmp(here.data(), there.data(), here.size() * sizeof(float)), 0);
}

void expect_same_facts(const Recording& here, const Recording& there) {
    EXPECT_EQ(here.problem(), there.problem());
    EXPECT_EQ(here.units(), there.units());
    EXPECT_EQ(here.threads(), there.threads());
    EXPECT_EQ(here.side_inputs(), there.side_inputs());
    EXPECT_EQ(here.provenance().kernel, there.provenance().kernel);
    EXPECT_EQ(here.provenance().run, there.provenance().run);
    EXPECT_EQ(here.capture().ended, there.capture().ended);
    EXPECT_EQ(here.capture().selection, there.capture().selection);
    for (std::size_t i = 0; i < here.capture().stages.size(); ++i) {
        const StageCapture& mine = here.capture().stages[i];
        const StageCapture& theirs = there.capture().stages[i];
        EXPECT_EQ(mine.hooks, theirs.hooks);
        EXPECT_EQ(mine.dropped, theirs.dropped);
        EXPECT_EQ(mine.first_out_of_range, theirs.first_out_of_range);
        EXPECT_EQ(mine.conflicts.size(), theirs.conflicts.size());
        EXPECT_EQ(mine.elements_dropped, theirs.elements_dropped);
    }
    EXPECT_EQ(here.has_bias(), there.has_bias());
    EXPECT_TRUE(std::ranges::equal(here.references(), there.references()));
}

/// The number of tiles.
std::int64_t expect_same_tiles(const Recording& here, const Recording& there) {
    const Problem& problem = here.problem();
    std::int64_t tiles = 0;
    for (std::size_t i = 0; i < std::size_t(stage_count); ++i) {
        const auto stage = static_cast<Stage>(i);
        EXPECT_EQ(here.has_stage(stage), there.has_stage(stage));
        EXPECT_EQ(here.has_writers(stage), there.has_writers(stage));
        if (!here.has_stage(stage)) continue;
        for (std::int64_t index = 0; index < tile_count(problem, stage); ++index) {
            const TileId tile = tile_at(problem, stage, index);
            const std::int64_t elements = tile_shape(problem, stage).elements();
            EXPECT_EQ(here.has_tile(stage, tile), there.has_tile(stage, tile));
            const auto tile_of = [&](const Recording& of) {
                return read<float>(elements,
                                   [&](Span<float> out) { tiles += of.read_tile(stage, tile, out); });
            };
            expect_bits(tile_of(here), tile_of(there));
            const auto writers_of = [&](const Recording& of) {
                return read<ElementWriter>(
                    elements, [&](Span<ElementWriter> out) { of.read_writers(stage, tile, out); });
            };
            EXPECT_EQ(writers_of(here), writers_of(there));
        }
        TileId outside;
        outside.batch = problem.batch;
        EXPECT_FALSE(there.has_tile(stage, outside));
    }
    for (std::int64_t index = 0; index < tile_count(problem, Stage::q); ++index) {
        const TileId block = tile_at(problem, Stage::q, index);
        EXPECT_EQ(here.may_hold(block), there.may_hold(block));
    }
    EXPECT_EQ(tiles % 2, 0) << "a tile is here or there alone";
    return tiles / 2;
}

void expect_same_arrays(const Recording& here, const Recording& there) {
    const Problem& problem = here.problem();
    for (int i = 0; i < input_count; ++i) {
        const auto input = static_cast<Input>(i);
        EXPECT_EQ(here.has_input(input), there.has_input(input));
        if (!here.has_input(input)) continue;
        const ArrayShape shape = input_shape(problem, input);
        const std::int64_t head = shape.heads - 1;
        const std::int64_t row = shape.rows / 2;
        const std::int64_t count = shape.rows - row;
        const auto rows_of = [&](const Recording& of) {
            return read<float>(count * shape.cols, [&](Span<float> out) {
                of.read_input(input, problem.batch - 1, head, row, count, out);
            });
        };
        expect_bits(rows_of(here), rows_of(there));
    }
    for (std::size_t i = 0; i < here.references().size(); ++i) {
        const auto rows_of = [&](const Recording& of) {
            return read<float>(problem.head_dim_v * problem.seqlen_q, [&](Span<float> out) {
                of.read_reference(i, Stage::o, problem.batch - 1, problem.heads - 1, 0, problem.seqlen_q,
                                  out);
            });
        };
        expect_bits(rows_of(here), rows_of(there));
    }
    if (!here.has_bias()) return;
    const auto bias_of = [&](const Recording& of) {
        return read<float>(problem.seqlen_kv - 1, [&](Span<float> out) {
            of.read_bias(problem.batch - 1, problem.heads - 1, problem.seqlen_q - 1, 1, out);
        });
    };
    expect_bits(bias_of(here), bias_of(there));
}

TEST(Remote, SamplesAreThere) {
    int files = 0;
    std::int64_t tiles = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(TILESCOPE_SAMPLES)) {
        if (entry.path().extension() != ".h5") continue;
        SCOPED_TRACE(entry.path());
        ++files;
        in_another_process([](const std::string& path) { return open_recording(path); }, entry.path(),
                           [&](const Recording& here, const Recording& there) {
                               EXPECT_EQ(there.name(), here.name());
                               expect_same_facts(here, there);
                               tiles += expect_same_tiles(here, there);
                               expect_same_arrays(here, there);
                               there.require_unchanged();
                           });
    }
    EXPECT_GT(files, 20);
    EXPECT_GT(tiles, 500);
}

/// One with all that samples do not have.
class Rare final : public RecordingView {
 public:
    Rare() : RecordingView(memory_) {
        const Problem& p = memory_.problem();
        std::mt19937 random(7);
        const auto numbers = [&](std::int64_t count) {
            std::vector<float> values(static_cast<std::size_t>(count));
            for (float& value : values) value = float(random());
            return values;
        };
        ReferenceInfo other;
        other.name = "other";
        Bias bias{p.batch, 1, p.seqlen_q, p.seqlen_kv, numbers(p.batch * p.seqlen_q * p.seqlen_kv)};
        memory_.set_bias(std::move(bias));
        memory_.add_reference(other, numbers(p.batch * p.heads * p.seqlen_q * p.head_dim_v), {});
        memory_.set_tile(Stage::s, {1, 0, 1, 0}, numbers(tile_shape(p, Stage::s).elements()));
        SideInputs side;
        side.seqlens_q = {7, 8};
        side.descale_k = {1, 2, 3, numbers(4)};
        side.descale_v = {1, 1, p.seqlen_kv, numbers(2 * p.head_dim_v), p.head_dim_v};
        memory_.set_side_inputs(side);
        CaptureSummary capture;
        capture.selection.emplace();
        capture.selection->blocks = {{1, 0, {1, 2}}};
        capture.selection->stages = {Stage::s, Stage::o};
        capture.ended = "illegal memory access";
        StageCapture& s = capture.stages[std::size_t(Stage::s)];
        s.dropped = {{0, 1, 2, 3}};
        s.first_out_of_range = OutOfRange{{4, 5, 6, 7}, 8, 9};
        s.hooks = {{"kernel.cu", 12}, {"kernel.cu", 99}};
        memory_.set_capture(capture);
        Provenance provenance;
        provenance.kernel = "rare";
        provenance.run = "run 7";
        memory_.set_provenance(provenance);
    }
    bool has_writers(Stage stage) const override { return stage == Stage::s; }
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = {std::uint16_t(i), std::uint16_t(tile.kv_tile), i % 2 == 0};
        return stage == Stage::s;
    }

 private:
    static Problem problem_with_everything() {
        Problem problem;
        problem.batch = problem.heads = problem.heads_kv = 2;
        problem.seqlen_q = problem.seqlen_kv = 10;
        problem.head_dim = problem.head_dim_v = 4;
        problem.block_m = problem.block_n = 4;
        problem.split_starts = {1, 2};
        problem.named_tiles.emplace_back().name = merged_o_name;
        problem.shard.ranks = 2;
        problem.shard.rank = 1;
        problem.shard.q_positions = {{0, 10, 2}};
        problem.shard.kv_positions = {{10, 10, 1}};
        return problem;
    }

    MemoryRecording memory_{problem_with_everything()};
};

TEST(Remote, WhatSamplesDoNotHaveIsThere) {
    const auto rare = std::make_shared<Rare>();
    in_another_process([&](const std::string&) { return rare; }, "rare.h5",
                       [](const Recording& here, const Recording& there) {
                           EXPECT_EQ(there.name(), "rare.h5");
                           expect_same_facts(here, there);
                           EXPECT_EQ(expect_same_tiles(here, there), 1);
                           expect_same_arrays(here, there);
                       });
}

std::string refusal(const std::function<void()>& work) {
    try {
        work();
        return "accepted";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(Remote, ErrorsAreThoseOfTheOtherProcess) {
    const std::string missing = std::string(TILESCOPE_SAMPLES) + "/missing.h5";
    const std::string healthy = std::string(TILESCOPE_SAMPLES) + "/healthy_scalar.h5";
    in_processes(2, [&](WorkSharing& sharing) {
        RecordingServer server([&](const std::string& path, bool) { return open_recording(path); });
        sharing.answer_with([&](std::string_view question) { return server.answer(question); });
        sharing.begin(0);
        if (sharing.process() == 1) {
            EXPECT_EQ(refusal([&] { open_remote(sharing, 0, missing, false); }),
                      refusal([&] { open_recording(missing); }));
            const auto there = open_remote(sharing, 0, healthy, false);
            std::vector<float> row(1024);
            const auto read_outside = [&](const Recording& of) {
                return refusal([&] { of.read_input(Input::q, 0, 0, 1 << 20, 1, Span<float>(row)); });
            };
            EXPECT_EQ(read_outside(*there), read_outside(*open_recording(healthy)));
        }
        sharing.begin(0);
    });
}

TEST(Remote, WhoFailedIsBlamed) {
    in_processes(3, [&](WorkSharing& sharing) {
        sharing.answer_with(
            [](std::string_view) -> std::string { throw Error("is lost", "file", "find it"); });
        sharing.begin(0);
        std::string said;
        try {
            sharing.together([&] {
                if (sharing.process() == 0) sharing.ask(2, "?");
            });
        } catch (const Error& error) {
            said = error.what();
        }
        EXPECT_EQ(said, "file: is lost; find it");
        EXPECT_EQ(sharing.blamed(), "rank 2");
        sharing.begin(0);
    });
}

TEST(Remote, LackOfMemoryIsToldAsSuch) {
    in_processes(2, [&](WorkSharing& sharing) {
        sharing.answer_with([](std::string_view) -> std::string { throw std::bad_alloc(); });
        sharing.begin(0);
        if (sharing.process() == 1) {
            EXPECT_THROW(sharing.ask(0, "?"), std::bad_alloc);
        }
        sharing.begin(0);
    });
}

}  // namespace
}  // namespace tilescope::test
