#include "dump/file/named_tiles.h"

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/schema/error.h"

namespace tilescope::hdf5 {

namespace {

constexpr const char* list_attribute = "named_tiles";

/// Names between commas; a stranger may have written very many.
std::vector<NamedTile> named_in(std::string_view list) {
    std::vector<NamedTile> tiles;
    for (bool more = !list.empty(); more && std::ssize(tiles) <= max_named_tiles;) {
        const std::size_t comma = list.find(',');
        tiles.emplace_back().name = list.substr(0, comma);
        more = comma != std::string_view::npos;
        list.remove_prefix(more ? comma + 1 : list.size());
    }
    return tiles;
}

void read_axes(const InputFile& file, NamedTile& tile) {
    const std::string path = std::string(layout::path::tiles) + "/" + tile.name;
    const std::string where = file.where(path);
    const std::optional<Id> dataset = open_header(file, path);
    if (!dataset) {
        throw Error("is missing, and attribute " + std::string(list_attribute) + " of /problem declares it",
                    where, damaged_advice);
    }
    const auto axis = [&](const char* name) {
        const std::optional<Axis> value = read_name<Axis>(dataset->get(), name, where);
        if (!value) throw Error("has no attribute " + std::string(name), where, damaged_advice);
        return *value;
    };
    tile.rows = axis("rows");
    tile.cols = axis("cols");
    tile.row_size = read_integer(dataset->get(), "row_size", where).value_or(tile.row_size);
    tile.col_size = read_integer(dataset->get(), "col_size", where).value_or(tile.col_size);
    tile.per_q_block = read_flag(dataset->get(), "per_q_block", where).value_or(tile.per_q_block);
    tile.per_kv_tile = read_flag(dataset->get(), "per_kv_tile", where).value_or(tile.per_kv_tile);
}

}  // namespace

void read_named_tiles(const InputFile& file, Problem& problem) {
    const std::optional<Id> group = open_group(file, layout::path::problem);
    const std::string where = file.where(layout::path::problem);
    const std::optional<std::string> list = read_text(group->get(), list_attribute, where);
    std::vector<NamedTile> tiles = named_in(list.value_or(""));
    validate(tiles, where);  // before a name becomes a path
    for (NamedTile& tile : tiles) read_axes(file, tile);
    problem.named_tiles = std::move(tiles);
    validate(problem, where);
}

void write_named_tiles(hid_t problem_group, const Problem& problem) {
    std::string list;
    for (const NamedTile& tile : problem.named_tiles) list += (list.empty() ? "" : ",") + tile.name;
    if (!list.empty()) write_text(problem_group, list_attribute, list);
}

void write_named_axes(hid_t dataset, const Problem& problem, Stage stage) {
    if (!is_named(stage)) return;
    const NamedTile& tile = problem.named_tiles[std::size_t(stage) - built_in_stages];
    write_text(dataset, "rows", declarations::name_of(tile.rows));
    write_text(dataset, "cols", declarations::name_of(tile.cols));
    write_integer(dataset, "row_size", tile.row_size);
    write_integer(dataset, "col_size", tile.col_size);
    write_flag(dataset, "per_q_block", tile.per_q_block);
    write_flag(dataset, "per_kv_tile", tile.per_kv_tile);
}

}  // namespace tilescope::hdf5
