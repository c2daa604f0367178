// What a project of its own, in C++17, does with the installed libraries: hooks a function, records it, saves the
// recording and reads it back.

#define DEBUG_DUMP
#include "fragments.h"
#include "scale_rows.h"

#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "dump/reader.h"
#include "dump/recording/captured_run.h"
#include "dump/writer.h"

void scale_rows(const float* x, int rows, int cols, float scale, float* s);

int main() {
    constexpr int rows = 4;
    constexpr int cols = 4;
    std::array<float, rows * cols> x{};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    std::array<float, rows * cols> expected{};
    scale_rows(x.data(), rows, cols, 0.5f, expected.data());

    tilescope::Problem problem;
    problem.seqlen_q = problem.block_m = rows;
    problem.seqlen_kv = problem.block_n = cols;
    tilescope::CapturePlan plan(problem, tilescope::Selection(), 1 << 20);
    std::vector<std::byte> memory(plan.bytes());
    std::vector<std::byte> fragments(plan.bytes());
    plan.fill_unwritten(memory.data());
    std::array<float, rows * cols> hooked{};
    scale_rows(x.data(), rows, cols, 0.5f, hooked.data(), plan.sink(memory.data()));

    const tilescope::CapturedRun run(plan, std::move(memory), {}, {}, {});
    tilescope::write_recording("consumer.h5", run);
    std::array<float, rows * cols> recorded{};
    const bool read = tilescope::open_recording("consumer.h5")->read_tile(tilescope::Stage::s, {}, recorded);

    plan.fill_unwritten(fragments.data());
    write_fragments(plan.sink(fragments.data()));
    const tilescope::CapturedRun in_pieces(plan, std::move(fragments), {}, {}, {});
    std::array<float, rows * cols> of_pieces{};
    in_pieces.read_tile(tilescope::Stage::s, {}, of_pieces);

    // Instances of std::string that the archives have as well.
    std::string said("what the function computed");
    said.insert(0, "holds ").append(std::string());
    std::string verdict(std::move(said));

    const bool same =
        read && hooked == expected && recorded == expected && expected[15] == 7.5f && of_pieces == x;
    if (!same) verdict = "differs";
    std::puts(("the recording " + verdict).c_str());
    return same ? 0 : 1;
}
