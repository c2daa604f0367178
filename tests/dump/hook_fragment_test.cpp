// Hooks of register fragments, of rows of a tile, of copies, and statistics, on the CPU.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "dump/hook.h"
#include "dump/recording/captured_run.h"
#include "tests/dump/small_problem.h"

/// What a hook needs of CuTe: a tensor of coordinates, and get<> found by its arguments.
namespace not_cute {
struct Coordinate {
    int row;
    int col;
};
template <int axis>
int get(const Coordinate& place) {
    return axis == 0 ? place.row : place.col;
}
/// A partition of 3 elements.
struct Tensor {
    std::array<float, 3> values;
    static constexpr int size() { return 3; }
    float operator()(int i) const { return values[std::size_t(i)]; }
};
/// A tensor in registers: the type of its size says how many there are.
struct RegisterTensor : Tensor {
    static constexpr std::integral_constant<int, 3> size() { return {}; }
};
struct IdentityTensor {
    Coordinate operator()(int i) const { return {i, 4 - i}; }
};
}  // namespace not_cute

namespace tilescope {
namespace {

constexpr std::size_t plenty = std::size_t(1) << 26;

struct FragmentHost {
    explicit FragmentHost(const char* selection, SinkMode mode = SinkMode::tiles,
                          const Problem& problem = test::small_problem())
        : plan(problem, parse_selection(selection, "test"), plenty, mode), memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }
    CapturedRun finish() const { return CapturedRun(plan, memory, Units(), Provenance(), {}); }
    std::vector<float> tile(Stage stage, const TileId& id) const {
        std::vector<float> values(std::size_t(tile_shape(plan.problem(), stage).elements()));
        EXPECT_TRUE(finish().read_tile(stage, id, values));
        return values;
    }
    /// All but where the hooks stand, on other lines in each way of recording.
    std::vector<std::byte> recorded() const {
        std::vector<std::byte> copy = memory;
        std::fill_n(copy.begin() + offsetof(SinkCounters, hooks), sizeof(SinkCounters::hooks), std::byte(0));
        return copy;
    }
    std::int64_t out_of_range(Stage stage) const {
        return finish().capture().stages[std::size_t(stage)].elements_out_of_range;
    }

    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

/// A problem of one tile with `rows` query rows and `cols` keys.
Problem one_tile(std::int64_t rows, std::int64_t cols) {
    Problem problem;
    problem.seqlen_q = problem.block_m = rows;
    problem.seqlen_kv = problem.block_n = cols;
    return problem;
}

TEST(Fragment, PlacesColumnsOfARow) {
    const FragmentHost host("stage=s");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    for (int lane = 0; lane < 2; ++lane) {
        const float values[2] = {float(10 + lane), float(20 + lane)};
        TILESCOPE_FRAGMENT(s, 0, values, Columns{1, lane, 3});
    }
    const std::vector<float> s = host.tile(Stage::s, TileId());
    EXPECT_EQ(std::vector<float>(s.begin() + 5, s.begin() + 7), (std::vector<float>{10, 11}));
    EXPECT_EQ(std::vector<float>(s.begin() + 8, s.begin() + 10), (std::vector<float>{20, 21}));
    EXPECT_EQ(std::ranges::count_if(s, [](float value) { return !is_unwritten(value); }), 4);
}

TEST(Fragment, LeavesOutTailsAndCountsWhatNoTileHas) {
    // Query block 2 has 2 of 4 rows, KV tile 2 has 3 of 5 keys.
    const FragmentHost host("stage=s");
    TILESCOPE_BLOCK(host.sink, 0, 0, 2);
    for (int row = 0; row < 5; ++row) {
        const float values[6] = {0, 1, 2, 3, 4, 5};
        TILESCOPE_FRAGMENT(s, 2, values, Columns{row, 0});
    }
    const std::vector<float> s = host.tile(Stage::s, {0, 0, 2, 2});
    EXPECT_EQ(std::ranges::count_if(s, [](float value) { return !is_unwritten(value); }), 2 * 3);
    EXPECT_EQ(host.out_of_range(Stage::s), 4 + 6) << "the sixth column of four rows, and the fifth row";
}

TEST(Fragment, LeavesOutWhatTheThreadDoesNotHold) {
    const FragmentHost host("stage=s");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const float values[4] = {1, 2, 3, 4};
    TILESCOPE_FRAGMENT(s, 0, values, [](int i) { return i % 2 == 0 ? Columns{0, 0}(i) : nowhere(); });
    const std::vector<float> s = host.tile(Stage::s, TileId());
    EXPECT_EQ(s[0], 1.0f);
    EXPECT_TRUE(is_unwritten(s[1]));
    EXPECT_EQ(s[2], 3.0f);
    EXPECT_EQ(host.out_of_range(Stage::s), 0);
}

TEST(Fragment, ReadsArraysOfArraysStridedMemoryAndTensors) {
    const FragmentHost host("stage=s,p,acc");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const float rows[2][2] = {{1, 2}, {3, 4}};
    TILESCOPE_FRAGMENT(s, 0, rows, Columns{0, 0});
    EXPECT_EQ(host.tile(Stage::s, TileId())[3], 4.0f);

    const std::vector<float> memory = {5, -1, 6, -1, 7};
    TILESCOPE_FRAGMENT(p, 0, strided<3>(memory.data(), 2), Columns{2, 1});
    const std::vector<float> p = host.tile(Stage::p, TileId());
    EXPECT_EQ(std::vector<float>(p.begin() + 11, p.begin() + 14), (std::vector<float>{5, 6, 7}));

    const not_cute::Tensor tensor = {{8, 9, 10}};
    const not_cute::IdentityTensor places;
    TILESCOPE_FRAGMENT(acc, 0, tensor, CuteCoordinates(places, 1, 2));
    const std::vector<float> acc = host.tile(Stage::acc, TileId());
    EXPECT_EQ(acc[1 * 7 + 6], 8.0f);
    EXPECT_EQ(acc[2 * 7 + 5], 9.0f);
    EXPECT_EQ(acc[3 * 7 + 4], 10.0f);
}

TEST(Fragment, CopiesRegistersOfTensorsWhoseTypeHasTheirNumber) {
    static_assert(hook_registers<not_cute::RegisterTensor>() == 3 && hook_registers<not_cute::Tensor>() == 0);
    const FragmentHost host("stage=acc");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    const not_cute::RegisterTensor tensor = {{{8, 9, 10}}};
    const not_cute::IdentityTensor places;
    TILESCOPE_FRAGMENT(acc, 0, tensor, CuteCoordinates(places, 1, 2));
    const std::vector<float> acc = host.tile(Stage::acc, TileId());
    EXPECT_EQ(acc[1 * 7 + 6], 8.0f);
    EXPECT_EQ(acc[3 * 7 + 4], 10.0f);
}

/// Six values whose number their type says, and as many in memory.
struct SixValues {
    static constexpr int size = 6;
    float operator[](int i) const { return float(i + 1); }
};
struct InMemory {
    std::vector<float> values;
    int size() const { return int(values.size()); }
    float operator[](int i) const { return values[std::size_t(i)]; }
};

TEST(Fragment, RolledRecordsTheSame) {
    const float registers[2][3] = {{1, 2, 3}, {4, 5, 6}};
    const InMemory memory = {{1, 2, 3, 4, 5, 6}};
    // The last KV tile has 3 keys: two of the values are outside the tensor, and one outside the tile.
    const auto recorded = [](SinkMode mode, const auto& record) {
        const FragmentHost host("stage=s", mode);
        record(host.sink);
        if (mode != SinkMode::statistics) {
            const std::vector<float> s = host.tile(Stage::s, {0, 0, 0, 2});
            EXPECT_EQ(std::vector<float>(s.begin() + 5, s.begin() + 8), (std::vector<float>{1, 2, 3}));
            EXPECT_EQ(std::ranges::count_if(s, [](float value) { return !is_unwritten(value); }), 3);
            EXPECT_EQ(host.out_of_range(Stage::s), 1);
        }
        return host.recorded();
    };
    for (SinkMode mode : {SinkMode::tiles, SinkMode::checked, SinkMode::statistics}) {
        const auto unrolled = recorded(mode, [&](const Sink& sink) {
            TILESCOPE_BLOCK(sink, 0, 0, 0);
            TILESCOPE_FRAGMENT(s, 2, registers, Columns{1, 0});
        });
        const auto rolled_array = recorded(mode, [&](const Sink& sink) {
            TILESCOPE_BLOCK(sink, 0, 0, 0);
            TILESCOPE_FRAGMENT(s, 2, rolled(registers), Columns{1, 0});
        });
        const auto rolled_values = recorded(mode, [&](const Sink& sink) {
            TILESCOPE_BLOCK(sink, 0, 0, 0);
            TILESCOPE_FRAGMENT(s, 2, rolled(SixValues()), Columns{1, 0});
        });
        const auto rolled_memory = recorded(mode, [&](const Sink& sink) {
            TILESCOPE_BLOCK(sink, 0, 0, 0);
            TILESCOPE_FRAGMENT(s, 2, rolled(memory), Columns{1, 0});
        });
        EXPECT_EQ(unrolled, rolled_array);
        EXPECT_EQ(unrolled, rolled_values);
        EXPECT_EQ(unrolled, rolled_memory);
    }
}

/// Four runs of four places each, one below the other from `row` on.
struct RunsBelow {
    static constexpr int run = 4;
    int row;
    HookPlace operator()(int i) const { return {row + i / 4, i % 4}; }
};

/// Memory that is read a run at a time, and not otherwise.
struct ReadInRuns {
    struct Run {
        const float* first;
        float operator[](int i) const { return first[i]; }
    };
    InMemory memory;
    int size() const { return memory.size(); }
    Run run_at(int i) const { return {memory.values.data() + i}; }
    float operator[](int) const {
        ADD_FAILURE() << "an element was read by itself";
        return 0;
    }
};

void expect_runs(const auto& memory, SinkMode mode) {
    // Of a tile of 8 rows the tensor has 7.
    Problem problem = one_tile(8, 8);
    problem.seqlen_q = 7;
    const FragmentHost host("stage=s", mode, problem);
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    TILESCOPE_FRAGMENT(s, 0, memory, RunsBelow{5});
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::s)].elements, 4u)
        << "the fourth run is below the tile, the third below the tensor";
    if (mode == SinkMode::statistics) {
        EXPECT_EQ(host.sink.stages[int(Stage::s)].statistics->written, 8u);
        return;
    }
    const std::vector<float> s = host.tile(Stage::s, TileId());
    EXPECT_EQ(std::vector<float>(s.begin() + 40, s.begin() + 44), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(std::vector<float>(s.begin() + 48, s.begin() + 52), (std::vector<float>{5, 6, 7, 8}));
    EXPECT_EQ(std::ranges::count_if(s, [](float value) { return !is_unwritten(value); }), 8);
}

TEST(Fragment, RecordsMemoryInRuns) {
    ReadInRuns read;
    for (int i = 0; i < 16; ++i) read.memory.values.push_back(float(i + 1));
    for (const SinkMode mode : {SinkMode::tiles, SinkMode::checked, SinkMode::statistics}) {
        expect_runs(read.memory, mode);
        if (mode != SinkMode::checked) expect_runs(read, mode);
    }
}

/// Of a tile of 32 rows the tensor has 16: what a warp holds of the others is no loss, and what lies behind the tile is.
TEST(Fragment, KeepsNothingOfRowsBehindTheTensor) {
    for (const SinkMode mode : {SinkMode::tiles, SinkMode::checked, SinkMode::statistics}) {
        Problem problem = one_tile(32, 24);
        problem.seqlen_q = 16;
        const FragmentHost host("stage=s", mode, problem);
        TILESCOPE_BLOCK(host.sink, 0, 0, 0);
        const float values[3][4] = {};
        const auto lost = [&] { return host.sink.counters->out_of_range[int(Stage::s)].elements; };
        for (int lane = 0; lane < 32; ++lane) TILESCOPE_FRAGMENT(s, 0, values, MmaAccumulator{16, 0, lane});
        EXPECT_EQ(lost(), 0u);
        if (mode == SinkMode::statistics) {
            EXPECT_EQ(host.sink.stages[int(Stage::s)].statistics->written, 0u);
        } else {
            const std::uint32_t* const words = host.sink.stages[int(Stage::s)].words;
            EXPECT_EQ(std::count(words, words + 32 * 24, unwritten_bits), 32 * 24);
        }
        for (int lane = 0; lane < 32; ++lane) TILESCOPE_FRAGMENT(s, 0, values, MmaAccumulator{32, 0, lane});
        EXPECT_EQ(lost(), 32u * 12u);
        for (int lane = 0; lane < 32; ++lane) TILESCOPE_FRAGMENT(s, 0, values, MmaAccumulator{16, 8, lane});
        EXPECT_EQ(lost(), 32u * 16u) << "a third of them is right of the tile";
    }
}

/// Every element of an accumulator lies somewhere, once.
void expect_cover(int rows, int cols, const auto& write_all) {
    const FragmentHost host("stage=s", SinkMode::checked, one_tile(rows, cols));
    write_all(host.sink);
    const CapturedRun run = host.finish();
    EXPECT_TRUE(run.capture().stages[int(Stage::s)].conflicts.empty());
    EXPECT_EQ(run.capture().stages[int(Stage::s)].elements_out_of_range, 0);
    for (const float value : host.tile(Stage::s, TileId())) EXPECT_FALSE(is_unwritten(value));
}

TEST(Fragment, AccumulatorsOfAWarpCoverTheirTiles) {
    expect_cover(16, 24, [](const Sink& sink) {
        TILESCOPE_BLOCK(sink, 0, 0, 0);
        for (int lane = 0; lane < 32; ++lane) {
            float values[3][4];
            for (int i = 0; i < 12; ++i) values[i / 4][i % 4] = float(100 * lane + i);
            TILESCOPE_FRAGMENT(s, 0, values, MmaAccumulator{0, 0, lane});
        }
    });
    expect_cover(64, 16, [](const Sink& sink) {
        TILESCOPE_BLOCK(sink, 0, 0, 0);
        for (int thread = 0; thread < 128; ++thread) {
            float values[8];
            for (int i = 0; i < 8; ++i) values[i] = float(100 * thread + i);
            TILESCOPE_FRAGMENT(s, 0, values, WgmmaAccumulator{0, 0, thread});
        }
    });
}

TEST(Fragment, AccumulatorsOfTilesBesideAndBelowEachOtherCoverThem) {
    expect_cover(32, 16, [](const Sink& sink) {
        TILESCOPE_BLOCK(sink, 0, 0, 0);
        for (int lane = 0; lane < 32; ++lane) {
            float values[2][2][4];
            for (int i = 0; i < 16; ++i) values[i / 8][i / 4 % 2][i % 4] = float(100 * lane + i);
            TILESCOPE_FRAGMENT(s, 0, values, MmaAccumulators<2>{0, 0, lane});
        }
    });
}

/// The statistics of one tile of s. Their hash depends on who wrote what together.
void expect_same_but_hash(const FragmentHost& one, const FragmentHost& other) {
    TileStatistics a, b;
    std::memcpy(&a, one.sink.stages[int(Stage::s)].statistics, sizeof a);
    std::memcpy(&b, other.sink.stages[int(Stage::s)].statistics, sizeof b);
    EXPECT_EQ(a.written, b.written);
    EXPECT_EQ(a.nan, b.nan);
    EXPECT_EQ(a.zero, b.zero);
    EXPECT_EQ(a.least, b.least);
    EXPECT_EQ(a.greatest, b.greatest);
    // A thread's part is rounded to float32 and to multiples of 2^-24.
    EXPECT_NEAR(double(a.sum), double(b.sum), 256 * 16);
    EXPECT_NEAR(double(a.sum_of_squares), double(b.sum_of_squares), 256 * 64);
}

/// One query block of 32 rows, whose row sums are split over four lanes.
Problem split_sums() {
    Problem problem = one_tile(32, 8);
    problem.l_lanes = 4;
    return problem;
}

TEST(Fragment, PlacesPartsAndCopiesOfRows) {
    const FragmentHost host("stage=m,l", SinkMode::tiles, split_sums());
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    for (int lane = 0; lane < 32; ++lane) {
        const auto row = [=](int i) { return float(lane / 4 + 8 * i); };
        const float of_rows[2][2] = {{row(0), row(1)}, {row(2), lane == 31 ? -1 : row(3)}};
        TILESCOPE_FRAGMENT(l, 0, of_rows, MmaRowParts{0, lane});
        TILESCOPE_FRAGMENT(m, 0, of_rows, MmaRowCopies{0, lane});
    }
    const std::vector<float> l = host.tile(Stage::l, TileId());
    const std::vector<float> m = host.tile(Stage::m, TileId());
    for (int row = 0; row < 31; ++row) {
        EXPECT_EQ(m[std::size_t(row)], float(row));
        for (int lane = 0; lane < 4; ++lane) EXPECT_EQ(l[std::size_t(row * 4 + lane)], float(row));
    }
    const CapturedRun run = host.finish();
    EXPECT_TRUE(run.capture().stages[int(Stage::l)].conflicts.empty());
    ASSERT_EQ(run.capture().stages[int(Stage::m)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::m)].conflicts[0].elements, 1)
        << "the last lane has another copy";
}

TEST(Fragment, PlacesRowsOfWarpsThatTakeTurns) {
    Problem problem = one_tile(64, 8);
    problem.l_lanes = 4;
    const FragmentHost host("stage=m,l", SinkMode::tiles, problem);
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    for (int thread = 0; thread < 64; ++thread) {
        const int lane = thread % 32, first = thread / 32 * 16;
        const auto row = [=](int i) { return float(first + lane / 4 + 8 * (i % 2) + 32 * (i / 2)); };
        const float of_rows[4] = {row(0), row(1), row(2), row(3)};
        TILESCOPE_FRAGMENT(l, 0, of_rows, MmaRowParts{first, lane, 32});
        TILESCOPE_FRAGMENT(m, 0, of_rows, MmaRowCopies{first, lane, 32});
    }
    const std::vector<float> l = host.tile(Stage::l, TileId());
    const std::vector<float> m = host.tile(Stage::m, TileId());
    for (int row = 0; row < 64; ++row) {
        EXPECT_EQ(m[std::size_t(row)], float(row));
        for (int lane = 0; lane < 4; ++lane) EXPECT_EQ(l[std::size_t(row * 4 + lane)], float(row));
    }
}

/// A kernel that is compiled with hooks, or without, by its parameters' type.
template <bool record, class Parameters>
void kernel_of(const Parameters& parameters) {
    TILESCOPE_BLOCK_IF(record, parameters.sink, 0, 0, 0);
    TILESCOPE_VALUE(s, 0, 0, 0, 3.0f);
}

TEST(Fragment, RecordsByTheParametersThatHaveTheSink) {
    struct Parameters {
        int heads;
        TILESCOPE_SINK_MEMBER(sink);
    };
    const FragmentHost host("stage=s", SinkMode::tiles, one_tile(1, 1));
    Parameters parameters = {};
    EXPECT_FALSE(TILESCOPE_BLOCK_RECORDS(parameters.sink, 0, 0, 0)) << "nothing is selected";
    TILESCOPE_SINK_SET(parameters.sink, host.sink);
    EXPECT_TRUE(TILESCOPE_BLOCK_RECORDS(parameters.sink, 0, 0, 0));
    kernel_of<false>(parameters);
    float value = 0;
    EXPECT_FALSE(host.finish().read_tile(Stage::s, TileId(), std::span(&value, 1))) << "it has no hooks";
    kernel_of<true>(parameters);
    EXPECT_EQ(host.tile(Stage::s, TileId())[0], 3.0f);
}

/// What hooks keep of whole tiles, of tiles that the tensor cuts, and where KV tiles are left out, is the same as single
/// values leave, NaNs that look like the unwritten marker among them.
TEST(Fragment, RecordsWhatSingleValuesDo) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (const std::int64_t rows : {16, 13}) {
        for (const std::int64_t cols : {16, 15, 9}) {
            for (const bool has_nan : {false, true}) {
                for (const char* const selection : {"stage=s", "stage=s:kv_tile=0-"}) {
                    float values[32][2][4];
                    for (auto& lane : values)
                        for (auto& tile : lane)
                            for (float& value : tile) value = normal(random);
                    if (has_nan) values[5][1][2] = std::bit_cast<float>(unwritten_bits);
                    for (const SinkMode mode : {SinkMode::tiles, SinkMode::statistics}) {
                        const FragmentHost of_fragments(selection, mode, one_tile(rows, cols));
                        const FragmentHost of_values(selection, mode, one_tile(rows, cols));
                        for (int lane = 0; lane < 32; ++lane) {
                            const fragments::MmaAccumulator place = {0, 0, lane};
                            {
                                TILESCOPE_BLOCK(of_fragments.sink, 0, 0, 0);
                                TILESCOPE_FRAGMENT(s, 0, values[lane], place);
                            }
                            TILESCOPE_BLOCK(of_values.sink, 0, 0, 0);
                            for (int i = 0; i < 8; ++i) {
                                const HookPlace at = place(i);
                                TILESCOPE_VALUE(s, 0, at.row, at.col, values[lane][i / 4][i % 4]);
                            }
                        }
                        if (mode == SinkMode::tiles) {
                            EXPECT_EQ(of_fragments.recorded(), of_values.recorded()) << rows << " x " << cols;
                        } else {
                            expect_same_but_hash(of_fragments, of_values);
                        }
                    }
                }
            }
        }
    }
}

/// A kernel's work, which takes the block by the type it has.
void record_row(int row TILESCOPE_CALL_PARAM) {
    TILESCOPE_VALUE(s, 0, row, 0, 1.0f);
}

template <bool record>
void record_block(const Sink& sink, int q_block) {
    for (int row = 0; row < 2; ++row)
        TILESCOPE_BLOCK_CALL(record, sink, 0, 0, q_block, record_row(row TILESCOPE_BLOCK_ARG));
}

TEST(BlockCall, RecordsBlocksThatAreSelected) {
    const FragmentHost host("stage=s:q_block=1");
    EXPECT_TRUE(TILESCOPE_RECORDS(host.sink));
    EXPECT_FALSE(TILESCOPE_RECORDS(Sink()));
    const std::vector<std::byte> before = host.memory;
    record_block<false>(host.sink, 1);
    record_block<true>(host.sink, 0);
    EXPECT_EQ(host.memory, before);
    record_block<true>(host.sink, 1);
    const std::vector<float> s = host.tile(Stage::s, {0, 0, 1, 0});
    EXPECT_EQ(std::ranges::count_if(s, [](float value) { return !is_unwritten(value); }), 2);
}

TEST(Rows, AreSharedOutAndCut) {
    for (const int threads : {1, 3, 32}) {
        const FragmentHost host("stage=k,s");
        TILESCOPE_BLOCK(host.sink, 0, 0, 2);
        const std::vector<float> s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        for (int thread = 0; thread < threads; ++thread) {
            TILESCOPE_ROWS(s, 0, 1, 3, s.data(), 5, thread, threads);
        }
        const std::vector<float> tile = host.tile(Stage::s, {0, 0, 2, 0});
        EXPECT_TRUE(is_unwritten(tile[4]) && is_unwritten(tile[10])) << "row 2 is query 10 of 10";
        EXPECT_EQ(std::vector<float>(tile.begin() + 5, tile.begin() + 10),
                  (std::vector<float>{1, 2, 3, 4, 5}));
        const float* const unread = nullptr;
        TILESCOPE_ROWS(s, 0, 2, 3, unread, 5, 0, 32);
        EXPECT_EQ(host.out_of_range(Stage::s), 1) << "a tile has four rows";
    }
}

TEST(Replicated, CopiesThatDifferAreConflicts) {
    const FragmentHost host("stage=m,l");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    for (const float value : {1.0f, 1.0f, 2.0f}) TILESCOPE_REPLICATED(m, 0, 0, 0, value);
    for (const float value : {1.0f, 1.0f, 1.0f}) TILESCOPE_REPLICATED(l, 0, 0, 0, value);
    for (const float value : {1.0f, 2.0f}) TILESCOPE_VALUE(l, 0, 1, 0, value);
    const CapturedRun run = host.finish();
    ASSERT_EQ(run.capture().stages[int(Stage::m)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::m)].conflicts[0].elements, 1);
    EXPECT_TRUE(run.capture().stages[int(Stage::l)].conflicts.empty()) << "only copies are checked";
}

TileStatistics statistics_of(const FragmentHost& host, Stage stage, std::int64_t slot) {
    TileStatistics found;
    std::memcpy(&found, host.sink.stages[int(stage)].statistics + slot, sizeof found);
    return found;
}

float from_ordered(std::uint32_t bits) {
    return std::bit_cast<float>((bits & 0x80000000u) != 0 ? bits & 0x7fffffffu : ~bits);
}

TEST(Statistics, AreThoseOfTheElements) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.5f, 3.0f);
    constexpr float inf = std::numeric_limits<float>::infinity();
    std::vector<float> values(64 * 32);
    for (float& value : values) value = random() % 8 == 0 ? 0.0f : normal(random);
    values[3] = std::nanf("");
    values[70] = -inf;
    values[71] = inf;
    const FragmentHost host("stage=s", SinkMode::statistics, one_tile(64, 32));
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    for (int thread = 0; thread < 48; ++thread) TILESCOPE_TILE(s, 0, values.data(), 32, thread, 48);

    const TileStatistics got = statistics_of(host, Stage::s, 0);
    double sum = 0, squares = 0, magnitude = 0;
    float least = inf, greatest = -inf;
    for (const float value : values) {
        if (!std::isfinite(value)) continue;
        sum += double(value);
        squares += double(value) * double(value);
        magnitude += std::abs(double(value));
        least = std::min(least, value);
        greatest = std::max(greatest, value);
    }
    EXPECT_EQ(got.written, values.size());
    EXPECT_EQ(got.nan, 1u);
    EXPECT_EQ(got.infinite, 2u);
    EXPECT_EQ(got.zero, unsigned(std::ranges::count(values, 0.0f)));
    EXPECT_EQ(from_ordered(got.least), least);
    EXPECT_EQ(from_ordered(got.greatest), greatest);
    // 43 additions in float32 a thread, and a unit of truncation for each of 48 threads.
    const double rounding = 43 * 0x1p-24;
    EXPECT_NEAR(double(got.sum) * statistics_unit, sum, magnitude * rounding + 48 * statistics_unit);
    EXPECT_NEAR(double(got.sum_of_squares) * statistics_unit, squares,
                squares * rounding + 48 * statistics_unit);
}

TEST(Statistics, HashKnowsBitsAndPlacesButNoOrder) {
    const auto hash_of = [](const std::vector<std::array<float, 2>>& rows, bool backwards) {
        const FragmentHost host("stage=s", SinkMode::statistics, one_tile(4, 2));
        TILESCOPE_BLOCK(host.sink, 0, 0, 0);
        for (int i = 0; i < 4; ++i) {
            const int row = backwards ? 3 - i : i;
            const float values[2] = {rows[std::size_t(row)][0], rows[std::size_t(row)][1]};
            TILESCOPE_FRAGMENT(s, 0, values, Columns{row, 0});
        }
        return statistics_of(host, Stage::s, 0).hash;
    };
    const std::vector<std::array<float, 2>> rows = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    EXPECT_EQ(hash_of(rows, false), hash_of(rows, true));
    std::vector<std::array<float, 2>> other = rows;
    std::swap(other[0], other[1]);
    EXPECT_NE(hash_of(rows, false), hash_of(other, false)) << "the same values in other places";
    other = rows;
    other[2][1] = std::nextafter(6.0f, 7.0f);
    EXPECT_NE(hash_of(rows, false), hash_of(other, false)) << "one bit";
}

TEST(Statistics, TailsAndRoomCountAsInTheOtherModes) {
    const FragmentHost host("stage=s", SinkMode::statistics);
    TILESCOPE_BLOCK(host.sink, 0, 0, 2);
    const std::vector<float> values(20, 1.0f);
    TILESCOPE_TILE(s, 2, values.data(), 5, 0, 1);
    TILESCOPE_VALUE(s, 2, 4, 0, 1.0f);
    EXPECT_EQ(statistics_of(host, Stage::s, 2 * 3 + 2).written, 6u);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::s)].elements, 1u);
}

}  // namespace
}  // namespace tilescope
