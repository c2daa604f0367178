// For the tests in Python: writes the sample recording, and says what the reader makes of a file.
//   file_probe write PATH [DTYPE]    the sample recording; inputs and o of DTYPE (default f16)
//   file_probe write_inputs PATH     its inputs alone, with every side input and a bias
//   file_probe write_backward PATH   the sample's backward pass
//   file_probe write_added_units PATH    the sample with the units that FORMAT.md marks *requires*
//   file_probe write_sink PATH       a sink file of the sample's problem, with its tiles of head 1
//   file_probe open PATH             its problem, units and tile counts as JSON
//   file_probe inputs PATH           its side inputs as JSON
//   file_probe tile PATH STAGE BATCH HEAD Q_BLOCK KV_TILE    the tile's float32 bits
//   file_probe rows PATH INPUT BATCH HEAD FIRST COUNT        rows of a head as float32 bits
//   file_probe bias PATH BATCH HEAD ROW                      the bias of all keys as float32 bits
//   file_probe references PATH       what its references are, as JSON
//   file_probe reference PATH INDEX o|lse BATCH HEAD FIRST COUNT    rows of one as float32 bits
// Exit 1 when a tile is not recorded; 2, and one line, when something is refused.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "dump/file/sink.h"
#include "dump/reader.h"
#include "dump/recording/captured_run.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"

namespace tilescope::test {
namespace {

// One tile of s is missing, one element of another is unwritten, and one tile of acc was dropped.
void write_sample(const std::string& path, Dtype dtype) {
    Problem problem = sample_problem();
    problem.mask = Mask::causal;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = dtype;
    Units units;
    units.s_scaled = false;
    units.s_log_base = LogBase::two;
    units.p_exp = ExpFunction::ex2_approx;
    units.p_cast = Dtype::bf16;
    units.acc_accumulation = Accumulation::tensor_core_f32;
    MemoryRecording recording(problem, units);
    fill(recording);
    recording.remove_tile(Stage::s, {1, 2, 1, 1});
    std::vector<float> tile = sample_tile(problem, Stage::s, {0, 3, 0, 0});
    tile[5] = std::bit_cast<float>(unwritten_bits);
    recording.set_tile(Stage::s, {0, 3, 0, 0}, tile);
    Provenance provenance;
    provenance.producer = "file_probe";
    provenance.kernel = "sample";
    provenance.device = "no device \u00b5";
    recording.set_provenance(provenance);
    CaptureSummary capture;
    capture.selection = Selection();
    StageCapture& acc = capture.stages[static_cast<std::size_t>(Stage::acc)];
    acc.dropped = {{1, 3, 2, 1}};
    acc.elements_dropped = 60;
    capture.stages[static_cast<std::size_t>(Stage::s)].conflicts = {{{0, 1, 2, 1}, 9}};
    recording.remove_tile(Stage::acc, {1, 3, 2, 1});
    recording.set_capture(capture);
    write_recording(path, recording);
}

// Each unit that not every reader of version 1 knows.
void write_added_units(const std::string& path) {
    Units units;
    units.q_scale = 0.125;
    units.k_scale = 0.25;
    units.p_descale_v = DescaleInP::recorded;
    units.s_masked_value = -1e9;
    units.s_cast = Dtype::f16;
    units.m_from_lse = units.p_of_tile_max = units.p_normalised = units.acc_normalised = true;
    units.p_least_argument = -80;
    units.p_flush_below = -90;
    units.m_offset = 2.5;
    units.m_start = -1e30;
    Problem problem = sample_problem();
    problem.diagonal_offset = -7;
    problem.head_grouping = HeadGrouping::interleaved;
    problem.split_starts = {1, 3};
    problem.dtype_partial_o = Dtype::bf16;
    MemoryRecording recording(problem, units);
    fill(recording);
    write_recording(path, recording);
}

void write_all_inputs(const std::string& path) {
    Problem problem = sample_problem();
    problem.alibi = Alibi::distance;
    problem.sink = AttentionSink::last;
    MemoryRecording recording(problem);
    for (const Input input : {Input::q, Input::k, Input::v}) {
        recording.set_input(input, sample_input(problem, input));
    }
    recording.set_side_inputs(sample_side_inputs());
    recording.set_bias(sample_bias(1, 4, 1, 50));
    write_recording(path, recording);
}

// One tile of dk is missing.
void write_backward(const std::string& path) {
    Units units;
    units.lse_log_base = LogBase::two;
    units.ds_scale = 0.125;
    MemoryRecording recording(backward_problem(), units);
    fill(recording);
    recording.remove_tile(Stage::dk, {1, 0, 0, 1});
    write_recording(path, recording);
}

void write_sink(const std::string& path) {
    const Problem problem = sample_problem();
    constexpr std::size_t max_bytes = 1 << 24;
    const CapturePlan plan(problem, parse_selection("head=1", "sample"), max_bytes);
    const SinkFile file(path, plan, max_bytes, RecordedCall(problem, {}, {}, {}));
    const Sink sink = plan.sink(file.memory().data());
    for (const StageInfo& info : stages_of(problem.direction)) {
        const std::int64_t elements = tile_shape(problem, info.stage).elements();
        for (std::int64_t slot = 0; slot < plan.capacity(info.stage); ++slot) {
            const std::vector<float> tile =
                sample_tile(problem, info.stage, plan.tile_of_slot(info.stage, slot));
            std::memcpy(sink.stages[std::size_t(info.stage)].words + slot * elements, tile.data(),
                        tile.size() * sizeof(float));
        }
    }
}

nlohmann::json description_of(const Descale& descale) {
    return {{"heads", descale.heads},
            {"blocks", descale.blocks},
            {"rows", descale.rows},
            {"values", descale.values}};
}

void describe_inputs(const Recording& recording) {
    const SideInputs& inputs = recording.side_inputs();
    const nlohmann::json description = {
        {"seqlens_q", inputs.seqlens_q},
        {"seqlens_kv", inputs.seqlens_kv},
        {"alibi_slopes", inputs.alibi_slopes},
        {"sink", inputs.sink},
        {"descale_q", description_of(inputs.descale_q)},
        {"descale_k", description_of(inputs.descale_k)},
        {"descale_v", description_of(inputs.descale_v)},
        {"bias", recording.has_bias()},
    };
    std::puts(description.dump().c_str());
}

void describe(const Recording& recording) {
    const Problem& problem = recording.problem();
    nlohmann::json tiles;
    std::vector<StageInfo> stages(all_stages().begin(), all_stages().end());
    for (int i = 0; i < std::ssize(problem.named_tiles); ++i)
        stages.push_back(stage_info(problem, named_tile(i)));
    for (const StageInfo& info : stages) {
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            count += recording.has_tile(info.stage, tile_at(problem, info.stage, i));
        }
        tiles[std::string(info.name)] = count;
    }
    const nlohmann::json description = {
        {"kernel", recording.provenance().kernel},
        {"direction", problem.direction == Direction::backward ? "backward" : "forward"},
        {"batch", problem.batch},
        {"heads", problem.heads},
        {"heads_kv", problem.heads_kv},
        {"seqlen_q", problem.seqlen_q},
        {"seqlen_kv", problem.seqlen_kv},
        {"head_dim", problem.head_dim},
        {"head_dim_v", problem.head_dim_v},
        {"sm_scale", problem.sm_scale},
        {"s_scaled", recording.units().s_scaled},
        {"inputs", recording.has_inputs()},
        {"tiles", tiles},
    };
    std::puts(description.dump().c_str());
}

void put(const std::vector<float>& values) {
    if (!values.empty()) std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

int put_tile(const Recording& recording, char** arguments) {
    const Stage stage = stage_from_name(arguments[0], recording.problem().named_tiles).value();
    const TileId tile{std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3]),
                      std::atoll(arguments[4])};
    std::vector<float> values(static_cast<std::size_t>(tile_shape(recording.problem(), stage).elements()));
    if (!recording.read_tile(stage, tile, values)) return 1;
    put(values);
    return 0;
}

int put_rows(const Recording& recording, char** arguments) {
    const char* const names[input_count] = {"q", "k", "v", "dout", "o", "lse"};
    const auto input = static_cast<Input>(std::ranges::find(names, std::string(arguments[0])) - names);
    const std::int64_t cols = input_shape(recording.problem(), input).cols;
    const std::int64_t count = std::atoll(arguments[4]);
    std::vector<float> values(static_cast<std::size_t>(count * cols));
    recording.read_input(input, std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3]),
                         count, values);
    put(values);
    return 0;
}

int put_bias(const Recording& recording, char** arguments) {
    std::vector<float> values(static_cast<std::size_t>(recording.problem().seqlen_kv));
    recording.read_bias(std::atoll(arguments[0]), std::atoll(arguments[1]), std::atoll(arguments[2]), 0,
                        values);
    put(values);
    return 0;
}

int put_description(const Recording& recording, char**) {
    describe(recording);
    return 0;
}

int put_inputs(const Recording& recording, char**) {
    describe_inputs(recording);
    return 0;
}

int put_references(const Recording& recording, char**) {
    nlohmann::json infos = nlohmann::json::array();
    for (const ReferenceInfo& info : recording.references()) {
        infos.push_back({{"name", info.name},
                         {"o", info.has_o},
                         {"lse", info.has_lse},
                         {"dtype", dtype_info(info.dtype_o).name},
                         {"log_base", info.lse_log_base == LogBase::two ? "2" : "e"}});
    }
    std::puts(infos.dump().c_str());
    return 0;
}

int put_reference(const Recording& recording, char** arguments) {
    const Stage stage = stage_from_name(arguments[1]).value();
    const std::int64_t count = std::atoll(arguments[5]);
    const std::int64_t cols = stage == Stage::o ? recording.problem().head_dim_v : 1;
    std::vector<float> values(static_cast<std::size_t>(count * cols));
    recording.read_reference(static_cast<std::size_t>(std::atoll(arguments[0])), stage,
                             std::atoll(arguments[2]), std::atoll(arguments[3]), std::atoll(arguments[4]),
                             count, values);
    put(values);
    return 0;
}

struct Command {
    const char* name;
    int arguments;  ///< after the path
    int (*run)(const Recording& recording, char** arguments);
};
constexpr Command commands[] = {
    {"open", 0, put_description},    {"inputs", 0, put_inputs}, {"tile", 5, put_tile},
    {"rows", 5, put_rows},           {"bias", 3, put_bias},     {"references", 0, put_references},
    {"reference", 6, put_reference},
};

int run(int count, char** arguments) {
    const std::string name = count > 2 ? arguments[1] : "";
    if (name == "write") {
        write_sample(arguments[2], count > 3 ? dtype_from_name(arguments[3]).value() : Dtype::f16);
        return 0;
    }
    if (name == "write_inputs") {
        write_all_inputs(arguments[2]);
        return 0;
    }
    if (name == "write_added_units") {
        write_added_units(arguments[2]);
        return 0;
    }
    if (name == "write_backward") {
        write_backward(arguments[2]);
        return 0;
    }
    if (name == "write_sink") {
        write_sink(arguments[2]);
        return 0;
    }
    for (const Command& command : commands) {
        if (name != command.name || count != 3 + command.arguments) continue;
        return command.run(*open_recording(arguments[2]), arguments + 3);
    }
    std::fputs("usage: see the top of file_probe.cpp\n", stderr);
    return 3;
}

}  // namespace
}  // namespace tilescope::test

int main(int count, char** arguments) {
    try {
        return tilescope::test::run(count, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
