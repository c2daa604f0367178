// The bytes of a file, as open_recording() and read_program_recording() take them, and what can be read of it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dump/program_file.h"
#include "dump/reader.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace tilescope;

constexpr std::int64_t most_elements = 1 << 20;

void read_first_tile(const Recording& recording, Stage stage) {
    const std::int64_t elements = tile_shape(recording.problem(), stage).elements();
    if (!recording.has_stage(stage) || elements > most_elements) return;
    std::vector<float> values(static_cast<std::size_t>(elements));
    recording.read_tile(stage, TileId{}, values);
    std::vector<ElementWriter> writers(values.size());
    if (recording.has_writers(stage)) recording.read_writers(stage, TileId{}, writers);
}

void read_first_row(const Recording& recording, Input input) {
    if (!recording.has_input(input)) return;
    const ArrayShape shape = input_shape(problem_of(recording.problem(), recording.side_inputs(), 0), input);
    if (shape.rows < 1 || shape.cols > most_elements) return;
    std::vector<float> values(static_cast<std::size_t>(shape.cols));
    recording.read_input(input, 0, 0, 0, 1, values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::MemoryFile file("run.h5", data, size);
    try {
        const auto recording = open_recording(file.path());
        for (const StageInfo& info : stages_of(recording->problem())) read_first_tile(*recording, info.stage);
        for (int i = 0; i < input_count; ++i) read_first_row(*recording, Input(i));
    } catch (const Error&) {
        // What a file that is none deserves.
    }
    try {
        read_program_recording(file.path());
    } catch (const Error&) {
        // The same.
    }
    return 0;
}
