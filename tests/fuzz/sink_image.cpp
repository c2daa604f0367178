// The memory that hooks write to, as a kernel with a bug or a stranger may leave it: in the file of a sink, and in memory. What
// is read of both is what is there.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "dump/file/sink.h"
#include "dump/reader.h"
#include "dump/recording/captured_run.h"
#include "dump/schema/error.h"
#include "dump/schema/selection.h"
#include "tests/dump/small_problem.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace tilescope;

/// A sink's file, and where in it the memory of the sink lies.
struct Kept {
    CapturePlan plan;
    std::string file;
    std::size_t offset;
};

Kept keep(const Problem& problem, const char* selection, std::size_t max_bytes) {
    CapturePlan plan(problem, parse_selection(selection, "fuzz"), max_bytes);
    std::string path = (std::filesystem::temp_directory_path() / "tilescope-fuzz-XXXXXX").string();
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) std::abort();
    close(descriptor);
    {
        const SinkFile sink(path, plan, max_bytes, RecordedCall(problem, {}, {}, {}));
        // To be found again.
        std::memset(sink.memory().data(), 0x5a, sink.memory().size());
        sink.set_ended("finished");
    }
    std::ifstream stream(path, std::ios::binary);
    std::string file(std::istreambuf_iterator<char>(stream), {});
    std::filesystem::remove(path);
    const std::size_t offset = file.find(std::string(plan.bytes(), 0x5a));
    if (offset == std::string::npos) std::abort();
    std::memset(file.data() + offset, 0, plan.bytes());
    plan.fill_unwritten(reinterpret_cast<std::byte*>(file.data() + offset));
    return {std::move(plan), std::move(file), offset};
}

/// Everything, a part, what has no room, and a backward pass.
const std::array<Kept, 4>& all_kept() {
    static const std::array kept = {keep(test::small_problem(), "", std::size_t(1) << 24),
                                    keep(test::small_problem(), "head=1:stage=s,m", std::size_t(1) << 24),
                                    keep(test::small_problem(), "", std::size_t(1) << 16),
                                    keep(test::small_backward_problem(), "batch=1", std::size_t(1) << 24)};
    return kept;
}

/// Puts the bytes over those of the memory, where they say: two bytes of place, one of length, and what is to be there.
void spoil(std::span<char> memory, const std::uint8_t* data, std::size_t size) {
    std::size_t at = 0;
    while (at + 3 <= size) {
        const std::size_t place = (data[at] | std::size_t(data[at + 1]) << 8) * 4 % memory.size();
        const std::size_t length =
            std::min({std::size_t(data[at + 2]), size - at - 3, memory.size() - place});
        std::memcpy(memory.data() + place, data + at + 3, length);
        at += 3 + length;
    }
}

/// Calls `visit` with every tile that a stage of the problem has.
template <typename Visit>
void for_each_tile(const CapturePlan& plan, Visit visit) {
    for (const StageInfo& info : stages_of(plan.problem())) {
        for (std::int64_t slot = 0; slot < plan.selected_tiles(info.stage); ++slot)
            visit(info.stage, slot, plan.tile_of_slot(info.stage, slot));
    }
}

void require_what_is_there(const CapturePlan& plan, std::span<const char> memory,
                           const Recording& recording) {
    for_each_tile(plan, [&](Stage stage, std::int64_t slot, const TileId& tile) {
        std::vector<float> values(std::size_t(tile_shape(plan.problem(), stage).elements()));
        const bool found = recording.read_tile(stage, tile, values);
        if (found != recording.has_tile(stage, tile)) __builtin_trap();
        if (!found) return;
        if (slot >= plan.capacity(stage)) __builtin_trap();
        const char* there = memory.data() + plan.tile_offset(stage, slot);
        if (std::memcmp(there, values.data(), values.size() * sizeof(float)) != 0) __builtin_trap();
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto& [plan, whole, offset] = all_kept()[data[0] % all_kept().size()];
    std::string file = whole;
    const std::span memory(file.data() + offset, plan.bytes());
    // How the run ended lies behind it.
    spoil({memory.data(), std::min(memory.size() + 256, file.size() - offset)}, data + 1, size - 1);
    const fuzz::MemoryFile kept("run.h5", reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
    try {
        require_what_is_there(plan, memory, *open_recording(kept.path()));
    } catch (const Error&) {
        // Refused.
    }
    std::vector<std::byte> bytes(memory.size());
    std::memcpy(bytes.data(), memory.data(), memory.size());
    const CapturedRun run(plan, MemoryBlock(std::move(bytes)), RecordedCall(plan.problem(), {}, {}, {}));
    require_what_is_there(plan, memory, run);
    return 0;
}
