// What is written is read again, bit by bit.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dump/file/driver.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"

namespace tilescope::test {
namespace {

std::unique_ptr<Recording> written_and_opened(const TemporaryFolder& folder, const Recording& recording) {
    const std::string path = folder.file("run.h5");
    write_recording(path, recording);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
    return open_recording(path);
}

TEST(FileRoundtrip, KeepsEveryTileAndInput) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    const auto opened = written_and_opened(folder, recording);
    // 2 batches x 4 heads: 3 query blocks of q, o and lse; 3 x 2 tiles of the seven others.
    EXPECT_EQ(expect_same_contents(*opened, recording), 8 * (3 * 3 + 7 * 6));
    EXPECT_EQ(opened->problem(), recording.problem());
    EXPECT_EQ(opened->units(), recording.units());
    EXPECT_EQ(opened->name(), folder.file("run.h5"));
}

TEST(FileRoundtrip, KeepsTilesThatAreLargerThanTheTensor) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.seqlen_q = 3;
    problem.seqlen_kv = 5;
    MemoryRecording recording(problem);
    fill(recording);
    EXPECT_EQ(expect_same_contents(*written_and_opened(folder, recording), recording), 8 * 10);
}

TEST(FileRoundtrip, KeepsTheOnlyTile) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.batch = problem.heads = problem.heads_kv = 1;
    problem.seqlen_q = 3;
    problem.seqlen_kv = 5;
    MemoryRecording recording(problem);
    fill(recording);
    EXPECT_EQ(expect_same_contents(*written_and_opened(folder, recording), recording), 10);
}

TEST(FileRoundtrip, KeepsOnlyTheTilesThatWereRecorded) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    recording.set_tile(Stage::s, {1, 3, 2, 1}, sample_tile(recording.problem(), Stage::s, {1, 3, 2, 1}));
    recording.set_tile(Stage::lse, {0, 2, 1, 0}, sample_tile(recording.problem(), Stage::lse, {0, 2, 1, 0}));
    const auto opened = written_and_opened(folder, recording);
    EXPECT_EQ(expect_same_contents(*opened, recording), 2);
    EXPECT_FALSE(opened->has_inputs());
    std::vector<float> rows(8);
    EXPECT_THROW(opened->read_input(Input::q, 0, 0, 0, 1, rows), Error);
}

// s has a million chunks, which an array of all of them would have 8 bytes for.
TEST(FileRoundtrip, TakesLittleRoomForFewTiles) {
    Problem problem = sample_problem();
    problem.heads = problem.heads_kv = 16;
    problem.seqlen_q = problem.seqlen_kv = 4000;
    const TileId tile = {0, 15, 9, 124};
    CaptureSummary selected, dropped, ended;
    selected.selection = parse_selection("batch=0:head=15:q_block=9:stage=s", "test");
    dropped.stages[std::size_t(Stage::s)].elements_dropped = 2 * 16 * 250 * 124 * 16 * 32;
    ended.ended = "unspecified launch failure";
    for (const CaptureSummary& capture : {selected, dropped, ended}) {
        const TemporaryFolder folder;
        MemoryRecording recording(problem);
        recording.set_tile(Stage::s, tile, sample_tile(problem, Stage::s, tile));
        recording.set_capture(capture);
        const auto opened = written_and_opened(folder, recording);
        std::vector<float> values(16 * 32);
        EXPECT_TRUE(opened->read_tile(Stage::s, tile, values));
        EXPECT_TRUE(same_bits(values, sample_tile(problem, Stage::s, tile)));
        EXPECT_LT(std::filesystem::file_size(folder.file("run.h5")), 1 << 16);
    }
}

TEST(FileRoundtrip, HasNoTileOutsideTheProblem) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    const auto opened = written_and_opened(folder, recording);
    std::vector<float> values(16 * 32, 5.0f);
    for (const TileId& tile : {TileId{2, 0, 0, 0}, TileId{0, 4, 0, 0}, TileId{0, 0, 3, 0}, TileId{0, 0, 0, 2},
                               TileId{-1, 0, 0, 0}, TileId{0, 0, 0, -1}}) {
        EXPECT_FALSE(opened->has_tile(Stage::s, tile));
        EXPECT_FALSE(opened->read_tile(Stage::s, tile, values));
    }
    EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 5.0f; }));
    EXPECT_TRUE(opened->has_tile(Stage::q, {0, 0, 0, 99})) << "q has no KV tile";
}

TEST(FileRoundtrip, KeepsSpecialBits) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    std::vector<float> values = sample_tile(recording.problem(), Stage::s, {});
    const std::uint32_t bits[] = {unwritten_bits, 0x80000000u, 0x7f800000u, 0xff800000u, 0x00000001u,
                                  0x807fffffu,    0x7fc00000u, 0xffc12345u, 0x7f800001u, 0x7f7fffffu};
    for (std::size_t i = 0; i < std::size(bits); ++i) values[i] = std::bit_cast<float>(bits[i]);
    recording.set_tile(Stage::s, {}, values);
    EXPECT_EQ(expect_same_contents(*written_and_opened(folder, recording), recording), 1);
}

TEST(FileRoundtrip, KeepsTheProblem) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.sm_scale = 0.1;
    problem.mask = Mask::causal;
    problem.causal_alignment = CausalAlignment::top_left;
    problem.window_left = 7;
    problem.window_right = 0;
    problem.window_bounds = WindowBounds::exclusive;
    problem.logits_soft_cap = 50.0;
    problem.kv_tiles_per_split = 2;
    problem.l_lanes = 4;
    problem.l_lane_columns = 8;
    problem.dtype_q = Dtype::bf16;
    problem.dtype_k = Dtype::e4m3;
    problem.dtype_v = Dtype::e5m2;
    problem.dtype_p = Dtype::bf16;
    problem.dtype_acc = Dtype::f16;
    problem.dtype_partial_o = Dtype::bf16;
    problem.dtype_o = Dtype::f32;
    problem.head_grouping = HeadGrouping::interleaved;
    EXPECT_EQ(written_and_opened(folder, MemoryRecording(problem))->problem(), problem);
}

// Each unit differs from its default once, alone, so that no attribute can stand in for another.
TEST(FileRoundtrip, KeepsEachUnit) {
    const TemporaryFolder folder;
    const std::pair<const char*, void (*)(Units&)> changes[] = {
        {"none", [](Units&) {}},
        {"s_scaled", [](Units& units) { units.s_scaled = false; }},
        {"q_dequantised", [](Units& units) { units.q_dequantised = false; }},
        {"k_dequantised", [](Units& units) { units.k_dequantised = false; }},
        {"v_dequantised", [](Units& units) { units.v_dequantised = false; }},
        {"q_scale", [](Units& units) { units.q_scale = 0.125; }},
        {"k_scale", [](Units& units) { units.k_scale = 0.3; }},
        {"p_descale_v operand", [](Units& units) { units.p_descale_v = DescaleInP::operand; }},
        {"p_descale_v recorded", [](Units& units) { units.p_descale_v = DescaleInP::recorded; }},
        {"s_masked_value", [](Units& units) { units.s_masked_value = -1e9; }},
        {"s_cast", [](Units& units) { units.s_cast = Dtype::bf16; }},
        {"q_cast", [](Units& units) { units.q_cast = Dtype::f16; }},
        {"k_cast", [](Units& units) { units.k_cast = Dtype::bf16; }},
        {"v_cast", [](Units& units) { units.v_cast = Dtype::e4m3; }},
        {"s_capped", [](Units& units) { units.s_capped = false; }},
        {"s_tanh", [](Units& units) { units.s_tanh = TanhFunction::tanh_approx; }},
        {"s_biased", [](Units& units) { units.s_biased = false; }},
        {"s_masked", [](Units& units) { units.s_masked = false; }},
        {"s_log_base", [](Units& units) { units.s_log_base = LogBase::two; }},
        {"s_accumulation", [](Units& units) { units.s_accumulation = Accumulation::tensor_core_f32; }},
        {"fma_f16", [](Units& units) { units.s_accumulation = Accumulation::fma_f16; }},
        {"tensor_core_f16", [](Units& units) { units.s_accumulation = Accumulation::tensor_core_f16; }},
        {"tensor_core_tf32", [](Units& units) { units.s_accumulation = Accumulation::tensor_core_tf32; }},
        {"tensor_core_fp8", [](Units& units) { units.s_accumulation = Accumulation::tensor_core_fp8; }},
        {"m_scaled", [](Units& units) { units.m_scaled = false; }},
        {"m_log_base", [](Units& units) { units.m_log_base = LogBase::two; }},
        {"m_stale_threshold", [](Units& units) { units.m_stale_threshold = 8.5; }},
        {"fast_expf", [](Units& units) { units.p_exp = ExpFunction::fast_expf; }},
        {"exp2f", [](Units& units) { units.p_exp = ExpFunction::exp2f; }},
        {"ex2_approx", [](Units& units) { units.p_exp = ExpFunction::ex2_approx; }},
        {"p_exp_error", [](Units& units) { units.p_exp_error = 0x1p-12; }},
        {"fma_bf16", [](Units& units) { units.s_accumulation = Accumulation::fma_bf16; }},
        {"m_from_lse", [](Units& units) { units.m_from_lse = true; }},
        {"p_of_tile_max", [](Units& units) { units.p_of_tile_max = true; }},
        {"p_normalised", [](Units& units) { units.p_normalised = true; }},
        {"p_least_argument", [](Units& units) { units.p_least_argument = -20.5; }},
        {"p_flush_below", [](Units& units) { units.p_flush_below = -20; }},
        {"m_offset", [](Units& units) { units.m_offset = 2.0793; }},
        {"m_start", [](Units& units) { units.m_start = -1e30; }},
        {"acc_normalised", [](Units& units) { units.acc_normalised = true; }},
        {"p_scale", [](Units& units) { units.p_scale = 448; }},
        {"l_scale", [](Units& units) { units.l_scale = 256; }},
        {"acc_scale", [](Units& units) { units.acc_scale = 0.1; }},
        {"acc_dequantised", [](Units& units) { units.acc_dequantised = false; }},
        {"o_empty_row -inf", [](Units& units) { units.o_empty_row = EmptyRow::minus_infinity; }},
        {"o_empty_row inf", [](Units& units) { units.o_empty_row = EmptyRow::plus_infinity; }},
        {"o_empty_row nan", [](Units& units) { units.o_empty_row = EmptyRow::nan; }},
        {"lse_empty_row", [](Units& units) { units.lse_empty_row = EmptyRow::zero; }},
        {"lse_includes_sink", [](Units& units) { units.lse_includes_sink = false; }},
        {"p_cast", [](Units& units) { units.p_cast = Dtype::e4m3; }},
        {"l_sums_cast_p", [](Units& units) { units.l_sums_cast_p = true; }},
        {"acc_accumulation", [](Units& units) { units.acc_accumulation = Accumulation::tensor_core_f32; }},
        {"lse_log_base", [](Units& units) { units.lse_log_base = LogBase::two; }},
        {"kv_order", [](Units& units) { units.kv_order = KvOrder::reverse; }},
    };
    for (const auto& [name, change] : changes) {
        Units units;
        change(units);
        EXPECT_EQ(written_and_opened(folder, MemoryRecording(sample_problem(), units))->units(), units)
            << name;
    }
}

TEST(FileRoundtrip, RefusesUnitsThatAreNotValid) {
    const TemporaryFolder folder;
    Units units;
    units.p_scale = -1;
    EXPECT_THROW(write_recording(folder.file("run.h5"), MemoryRecording(sample_problem(), units)), Error);
    EXPECT_TRUE(folder.names().empty());
}

TEST(FileRoundtrip, KeepsTheLanesOfL) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.l_lanes = 4;
    MemoryRecording recording(problem);
    fill(recording);
    EXPECT_EQ(expect_same_contents(*written_and_opened(folder, recording), recording), 8 * (3 * 3 + 7 * 6));
}

TEST(FileRoundtrip, KeepsTheProvenance) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    recording.set_provenance({"tile-run 0.1", "scalar", "H200 \u00b5", "9.0", "13.0", "grid 1x2x3",
                              "tile-run --kernel scalar\n  -o run.h5", "2026-01-02T03:04:05Z", "job 17",
                              "0x3c003c00"});
    const Provenance got = written_and_opened(folder, recording)->provenance();
    EXPECT_EQ(got.producer, "tile-run 0.1");
    EXPECT_EQ(got.run, "job 17");
    EXPECT_EQ(run_of(folder.file("run.h5")), "job 17");
    EXPECT_EQ(got.kernel, "scalar");
    EXPECT_EQ(got.device, "H200 \u00b5");
    EXPECT_EQ(got.compute_capability, "9.0");
    EXPECT_EQ(got.cuda_version, "13.0");
    EXPECT_EQ(got.launch, "grid 1x2x3");
    EXPECT_EQ(got.command, "tile-run --kernel scalar\n  -o run.h5");
    EXPECT_EQ(got.time, "2026-01-02T03:04:05Z");
    EXPECT_EQ(got.poison, "0x3c003c00");
}

TEST(FileRoundtrip, DisarmsTerminalControlInTextForPeople) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    Provenance provenance;
    provenance.kernel = "a\x1b[2Jb\x7f";
    recording.set_provenance(provenance);
    EXPECT_EQ(written_and_opened(folder, recording)->provenance().kernel, "a?[2Jb?");
}

TEST(FileRoundtrip, KeepsWhatTheCaptureLost) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    CaptureSummary capture;
    capture.selection = parse_selection("head=1,3:kv_tile=1-:stage=s,acc", "test");
    capture.ended = "an illegal memory access was encountered";
    StageCapture& s = capture.stages[static_cast<std::size_t>(Stage::s)];
    s.conflicts = {{{1, 3, 2, 1}, 7}, {{0, 1, 0, 1}, 1}};
    s.elements_out_of_range = 12;
    s.first_out_of_range = OutOfRange{{1, 3, -7, 5}, 64, -1};
    StageCapture& acc = capture.stages[static_cast<std::size_t>(Stage::acc)];
    acc.dropped = {{0, 1, 2, 1}, {1, 3, 0, 1}, {1, 3, 1, 1}};
    acc.elements_dropped = 576;
    recording.set_capture(capture);
    const auto opened = written_and_opened(folder, recording);
    const CaptureSummary& got = opened->capture();
    EXPECT_EQ(got.selection, capture.selection);
    EXPECT_EQ(got.ended, capture.ended);
    for (const StageInfo& info : all_stages()) {
        const StageCapture& a = got.stages[static_cast<std::size_t>(info.stage)];
        const StageCapture& b = capture.stages[static_cast<std::size_t>(info.stage)];
        EXPECT_EQ(a.dropped, b.dropped) << info.name;
        EXPECT_EQ(a.elements_dropped, b.elements_dropped) << info.name;
        EXPECT_EQ(a.elements_out_of_range, b.elements_out_of_range) << info.name;
        EXPECT_EQ(a.first_out_of_range, b.first_out_of_range) << info.name;
        ASSERT_EQ(a.conflicts.size(), b.conflicts.size()) << info.name;
        for (std::size_t i = 0; i < a.conflicts.size(); ++i) {
            EXPECT_EQ(a.conflicts[i].tile, b.conflicts[i].tile) << info.name;
            EXPECT_EQ(a.conflicts[i].elements, b.conflicts[i].elements) << info.name;
        }
    }
}

TEST(FileRoundtrip, TellsASelectionOfEverythingFromNone) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    EXPECT_EQ(written_and_opened(folder, recording)->capture().selection, std::nullopt);
    CaptureSummary capture;
    capture.selection = Selection();
    recording.set_capture(capture);
    EXPECT_EQ(written_and_opened(folder, recording)->capture().selection, Selection());
}

class FileInputDtype : public testing::TestWithParam<Dtype> {};

// Every value that 16 bits or fewer can hold, and as many of float32.
TEST_P(FileInputDtype, KeepsEveryValue) {
    const TemporaryFolder folder;
    Problem problem;
    problem.seqlen_q = problem.seqlen_kv = 1024;
    problem.head_dim = problem.head_dim_v = 64;
    problem.block_m = problem.block_n = 64;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = GetParam();
    std::vector<float> values(65536);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
        const std::uint32_t bits = GetParam() == Dtype::f32 ? i * 0x10001u : i;
        values[i] = decode(GetParam(), bits);
        // Of NaN, that it is one is kept; which one is not.
        if (values[i] != values[i]) values[i] = decode(GetParam(), encode(GetParam(), values[i]));
    }
    MemoryRecording recording(problem);
    for (const Input input : {Input::q, Input::k, Input::v}) recording.set_input(input, values);
    expect_same_contents(*written_and_opened(folder, recording), recording);
}
INSTANTIATE_TEST_SUITE_P(, FileInputDtype,
                         testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2),
                         [](const auto& dtype) { return std::string(dtype_info(dtype.param).name); });

TEST(FileRoundtrip, ReadsRowsInsideAnInput) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    const auto opened = written_and_opened(folder, recording);
    std::vector<float> got(3 * 12), expected(3 * 12);
    opened->read_input(Input::v, 1, 1, 47, 3, got);
    recording.read_input(Input::v, 1, 1, 47, 3, expected);
    EXPECT_EQ(got, expected);
    EXPECT_THROW(opened->read_input(Input::v, 1, 1, 48, 3, got), Error);
    EXPECT_THROW(opened->read_input(Input::v, 1, 2, 0, 3, got), Error) << "KV heads are counted";
    EXPECT_THROW(opened->read_input(Input::v, 0, 0, -1, 3, got), Error);
}

TEST(FileRoundtrip, RefusesAnInputThatItsDtypeCannotHold) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    std::vector<float> values = sample_input(recording.problem(), Input::k);
    values[5] = 0.1f;
    recording.set_input(Input::k, values);
    EXPECT_THROW(write_recording(folder.file("run.h5"), recording), Error);
    EXPECT_TRUE(folder.names().empty());
}

TEST(FileRoundtrip, ReadsFromSeveralThreadsAndTwoFiles) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    write_recording(folder.file("a.h5"), recording);
    write_recording(folder.file("b.h5"), recording);
    const auto a = open_recording(folder.file("a.h5"));
    const auto b = open_recording(folder.file("b.h5"));
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] { expect_same_contents(i % 2 == 0 ? *a : *b, recording); });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(FileRoundtrip, OpensTheSameFileTwice) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    auto first = written_and_opened(folder, recording);
    const auto second = open_recording(folder.file("run.h5"));
    first.reset();
    EXPECT_GT(expect_same_contents(*second, recording), 0);
}

/// The library reads the driver of a file that it closes after it let go of it.
TEST(FileRoundtrip, HoldsItsDriverAsLongAsTheFile) {
    const hdf5::Session session;
    hid_t driver = H5I_INVALID_HID;
    {
        hdf5::DriverTarget target;
        {
            const hdf5::Id access(H5Pcreate(H5P_FILE_ACCESS));
            ASSERT_TRUE(hdf5::set_driver(access.get(), target));
            driver = H5Pget_driver(access.get());
        }
        EXPECT_GT(H5Iis_valid(driver), 0);
    }
    EXPECT_EQ(H5Iis_valid(driver), 0);
}

TEST(FileRoundtrip, CopiesAFileOntoItself) {
    const TemporaryFolder folder;
    MemoryRecording recording(sample_problem());
    fill(recording);
    const auto opened = written_and_opened(folder, recording);
    write_recording(folder.file("run.h5"), *opened);
    EXPECT_GT(expect_same_contents(*open_recording(folder.file("run.h5")), recording), 0);
}

// 2^26 chunks are declared, one is stored.
TEST(FileRoundtrip, TakesNoSpaceForTilesThatWereNotRecorded) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.seqlen_q = problem.seqlen_kv = 16 << 13;
    problem.block_m = problem.block_n = 16;
    MemoryRecording recording(problem);
    const TileId tile{1, 2, 8000, 4000};
    recording.set_tile(Stage::p, tile, sample_tile(problem, Stage::p, tile));
    CaptureSummary capture;
    capture.selection = parse_selection("batch=1:head=2:q_block=8000", "test");
    recording.set_capture(capture);
    const auto opened = written_and_opened(folder, recording);
    EXPECT_LT(std::filesystem::file_size(folder.file("run.h5")), 64u << 10);
    EXPECT_TRUE(opened->has_tile(Stage::p, tile));
    EXPECT_FALSE(opened->has_tile(Stage::p, {1, 2, 8000, 4001}));
    EXPECT_FALSE(opened->has_stage(Stage::s));
}

/// Read in an order that jumps, by several threads, from two files that are open at once.
TEST(FileRoundtrip, ManyKvTilesOfWhichSomeWereRecorded) {
    Problem problem;
    problem.heads = problem.heads_kv = 2;
    problem.seqlen_q = 2;
    problem.seqlen_kv = 200;
    problem.head_dim = problem.head_dim_v = 1;
    problem.block_m = problem.block_n = 1;
    const auto is_recorded = [](std::int64_t file, const TileId& tile) {
        return (tile.kv_tile + tile.head + tile.q_block + file) % 3 != 0;
    };
    const auto value_of = [](std::int64_t file, const TileId& tile) {
        return float(((file * 2 + tile.head) * 2 + tile.q_block) * 1000 + tile.kv_tile);
    };
    const TemporaryFolder folder;
    std::vector<std::unique_ptr<Recording>> files;
    for (std::int64_t file = 0; file < 2; ++file) {
        MemoryRecording recording(problem);
        for (std::int64_t i = 0; i < tile_count(problem, Stage::s); ++i) {
            const TileId tile = tile_at(problem, Stage::s, i);
            if (is_recorded(file, tile)) recording.set_tile(Stage::s, tile, {value_of(file, tile)});
        }
        const std::string path = folder.file(std::to_string(file) + ".h5");
        write_recording(path, recording);
        files.push_back(open_recording(path));
    }
    std::atomic<int> wrong = 0;
    const auto read_all = [&](std::int64_t step) {
        const std::int64_t tiles = tile_count(problem, Stage::s);
        for (std::int64_t i = 0; i < 2 * tiles; ++i) {
            // Four of one file, then the same four of the other.
            const std::int64_t file = i / 4 % 2;
            const TileId tile = tile_at(problem, Stage::s, (i / 8 * 4 + i % 4) * step % tiles);
            float value = -1;
            const bool found = files[std::size_t(file)]->read_tile(Stage::s, tile, {&value, 1});
            if (found != is_recorded(file, tile) || (found && value != value_of(file, tile))) ++wrong;
        }
    };
    std::vector<std::thread> threads;
    // None has a factor in common with 800, so that each reads every tile.
    for (const std::int64_t step : {1, 201, 399, 799}) threads.emplace_back(read_all, step);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tilescope::test
