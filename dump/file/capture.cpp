#include "dump/file/capture.h"

#include <numeric>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/schema/error.h"
#include "dump/schema/selection.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

constexpr const char* hooks_attribute = "hooks";
constexpr std::int64_t tile_columns = 4;      // batch, head, q_block, kv_tile
constexpr std::int64_t conflict_columns = 5;  // and elements
constexpr std::int64_t place_columns = 6;     // a tile, and row and column in it

std::string stage_path(const Problem& problem, Stage stage) {
    return std::string(layout::path::capture) + "/" + std::string(stage_info(problem, stage).name);
}

std::vector<std::int64_t> read_table(const InputFile& file, const std::string& path, std::int64_t cols) {
    const std::optional<StoredTable> table = open_table(file, path, cols);
    if (!table || table->rows == 0) return {};
    std::vector<std::int64_t> values(static_cast<std::size_t>(table->rows * cols));
    const std::int64_t bytes = std::ssize(values) * std::int64_t(sizeof(std::int64_t));
    if (!read_exactly(file.descriptor.get(), table->offset, bytes, values.data())) {
        throw Error("cannot be read", table->where, damaged_advice);
    }
    return values;
}

TileId checked_tile(std::span<const std::int64_t> row, const Problem& problem, Stage stage,
                    const std::string& where) {
    const TileId tile{row[0], row[1], row[2], row[3]};
    const StageInfo info = stage_info(problem, stage);
    const std::int64_t q_blocks = info.per_q_block ? problem.q_blocks() : 1;
    const std::int64_t kv_tiles = info.per_kv_tile ? problem.kv_tiles() : 1;
    const auto inside = [](std::int64_t value, std::int64_t count) { return value >= 0 && value < count; };
    if (inside(tile.batch, problem.batch) && inside(tile.head, stage_heads(problem, stage)) &&
        inside(tile.q_block, q_blocks) && inside(tile.kv_tile, kv_tiles)) {
        return tile;
    }
    throw Error("lists batch " + std::to_string(tile.batch) + " head " + std::to_string(tile.head) +
                    " q_block " + std::to_string(tile.q_block) + " kv_tile " + std::to_string(tile.kv_tile) +
                    ", which the problem does not have",
                where, damaged_advice);
}

std::int64_t read_count(hid_t group, const char* name, std::int64_t otherwise, const std::string& where) {
    const std::int64_t count = read_integer(group, name, where).value_or(otherwise);
    if (count >= 0) return count;
    throw Error("attribute " + std::string(name) + " is negative", where, damaged_advice);
}

// A count that is also told by what the file lists or stores.
void check_count(hid_t group, const char* name, std::int64_t found, const std::string& where) {
    const std::int64_t declared = read_count(group, name, found, where);
    if (declared == found) return;
    throw Error("attribute " + std::string(name) + " is " + std::to_string(declared) + ", the file holds " +
                    std::to_string(found),
                where, damaged_advice);
}

std::int64_t elements_conflicting(const StageCapture& capture) {
    return std::accumulate(
        capture.conflicts.begin(), capture.conflicts.end(), std::int64_t(0),
        [](std::int64_t sum, const StageCapture::Conflict& conflict) { return sum + conflict.elements; });
}

std::optional<Selection> read_selection(hid_t group, const std::string& where,
                                        std::span<const NamedTile> named) {
    const std::optional<std::string> text = read_text(group, "selection", where);
    if (!text) return std::nullopt;
    // Its parser quotes what it does not understand.
    constexpr std::size_t longest = 10000;
    if (text->size() > longest || readable(*text) != *text || text->find('\n') != std::string::npos) {
        throw Error("attribute selection is not one line of text", where, damaged_advice);
    }
    return parse_selection(*text, where + " attribute selection", named);
}

StageCapture read_stage(const InputFile& file, const Problem& problem, Stage stage,
                        std::int64_t tiles_stored) {
    StageCapture capture;
    const std::string path = stage_path(problem, stage);
    const std::string where = file.where(path);
    const std::optional<Id> group = open_group(file, path);
    if (!group) return capture;

    const std::vector<std::int64_t> conflicts = read_table(file, path + "/conflicts", conflict_columns);
    for (std::size_t row = 0; row < conflicts.size(); row += conflict_columns) {
        const std::span values = std::span(conflicts).subspan(row, conflict_columns);
        const TileId tile = checked_tile(values, problem, stage, where + "/conflicts");
        constexpr std::int64_t most_writes = std::int64_t(1) << 40;
        if (values[4] < 1 || values[4] > most_writes) {
            throw Error("lists a tile with " + std::to_string(values[4]) + " conflicting elements",
                        where + "/conflicts", damaged_advice);
        }
        capture.conflicts.push_back({tile, values[4]});
    }
    const std::vector<std::int64_t> dropped = read_table(file, path + "/dropped", tile_columns);
    for (std::size_t row = 0; row < dropped.size(); row += tile_columns) {
        capture.dropped.push_back(
            checked_tile(std::span(dropped).subspan(row, tile_columns), problem, stage, where + "/dropped"));
    }
    capture.elements_dropped = read_count(group->get(), "elements_dropped", 0, where);
    capture.elements_out_of_range = read_count(group->get(), "elements_out_of_range", 0, where);
    const std::vector<std::int64_t> outside = read_table(file, path + "/out_of_range", place_columns);
    if (!outside.empty()) {
        capture.first_out_of_range =
            OutOfRange{{outside[0], outside[1], outside[2], outside[3]}, outside[4], outside[5]};
    }
    check_count(group->get(), "tiles_written", tiles_stored, where);
    check_count(group->get(), "tiles_dropped", std::ssize(capture.dropped), where);
    check_count(group->get(), "elements_conflicting", elements_conflicting(capture), where);
    return capture;
}

void write_table(hid_t group, const char* name, const std::vector<std::int64_t>& values, hsize_t cols) {
    if (values.empty()) return;
    const hsize_t dims[2] = {values.size() / cols, cols};
    const Id space = checked(H5Screate_simple(2, dims, nullptr));
    const Id properties = creation_properties(H5P_DATASET_CREATE);
    const Id table = checked(
        H5Dcreate2(group, name, H5T_STD_I64LE, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    check(H5Dwrite(table.get(), H5T_STD_I64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
}

void append(std::vector<std::int64_t>& values, const TileId& tile) {
    values.insert(values.end(), {tile.batch, tile.head, tile.q_block, tile.kv_tile});
}

void write_stage(hid_t file, const std::string& path, const StageCapture& capture,
                 const StageCounts& counts) {
    const Id group = create_group(file, path);
    write_integer(group.get(), "tiles_selected", counts.tiles_selected);
    write_integer(group.get(), "tiles_written", counts.tiles_written);
    write_integer(group.get(), "tiles_dropped", std::ssize(capture.dropped));
    write_integer(group.get(), "elements_unwritten", counts.elements_unwritten);
    write_integer(group.get(), "elements_conflicting", elements_conflicting(capture));
    write_integer(group.get(), "elements_dropped", capture.elements_dropped);
    write_integer(group.get(), "elements_out_of_range", capture.elements_out_of_range);
    std::vector<std::int64_t> conflicts;
    for (const StageCapture::Conflict& conflict : capture.conflicts) {
        append(conflicts, conflict.tile);
        conflicts.push_back(conflict.elements);
    }
    write_table(group.get(), "conflicts", conflicts, conflict_columns);
    std::vector<std::int64_t> dropped;
    for (const TileId& tile : capture.dropped) append(dropped, tile);
    write_table(group.get(), "dropped", dropped, tile_columns);
    if (!capture.first_out_of_range) return;
    std::vector<std::int64_t> outside;
    append(outside, capture.first_out_of_range->tile);
    outside.insert(outside.end(), {capture.first_out_of_range->row, capture.first_out_of_range->col});
    write_table(group.get(), "out_of_range", outside, place_columns);
}

}  // namespace

CaptureSummary read_capture(const InputFile& file, const Problem& problem,
                            const std::array<std::int64_t, stage_count>& tiles_stored) {
    CaptureSummary capture;
    const std::string where = file.where(layout::path::capture);
    const std::optional<Id> group = open_group(file, layout::path::capture);
    if (!group) return capture;
    capture.selection = read_selection(group->get(), where, problem.named_tiles);
    capture.ended =
        readable(read_text(group->get(), "ended", where).value_or(capture.ended), layout::longest_shown);
    for (const StageInfo& info : stages_of(problem)) {
        const auto index = static_cast<std::size_t>(info.stage);
        capture.stages[index] = read_stage(file, problem, info.stage, tiles_stored[index]);
    }
    return capture;
}

std::vector<SourceLine> read_stage_hooks(hid_t dataset, const std::string& where) {
    const std::vector<std::string> texts = read_texts(dataset, hooks_attribute, where, max_hooks);
    std::vector<SourceLine> hooks;
    for (const std::string& text : texts) {
        const std::optional<SourceLine> hook = source_line_from(text);
        if (!hook) {
            throw Error(
                "attribute hooks has \"" + shortened(text) + "\", which is no line of a file below a project",
                where,
                "write it as in \"csrc/attention.cu:61\": a relative path without \"..\", and a line from 1 "
                "on");
        }
        hooks.push_back(*hook);
    }
    return hooks;
}

void write_stage_hooks(hid_t dataset, std::span<const SourceLine> hooks) {
    if (hooks.empty()) return;
    std::vector<std::string> texts;
    for (const SourceLine& hook : hooks) texts.push_back(to_string(hook));
    write_texts(dataset, hooks_attribute, texts);
}

void write_capture(hid_t file, const Problem& problem, const CaptureSummary& capture,
                   const CaptureCounts& counts) {
    const Id group = create_group(file, layout::path::capture);
    if (capture.selection)
        write_text(group.get(), "selection", to_string(*capture.selection, problem.named_tiles));
    write_text(group.get(), "ended", capture.ended);
    for (const StageInfo& info : stages_of(problem)) {
        const auto index = static_cast<std::size_t>(info.stage);
        write_stage(file, stage_path(problem, info.stage), capture.stages[index], counts[index]);
    }
}

}  // namespace tilescope::hdf5
