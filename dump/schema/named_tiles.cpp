#include <algorithm>
#include <limits>

#include "dump/schema.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

constexpr std::size_t longest_name = 32;
constexpr const char* naming_advice = "declare the named tile otherwise";

bool is_name(std::string_view name) {
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto is_inside = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
    return !name.empty() && name.size() <= longest_name && is_letter(name.front()) &&
           std::ranges::all_of(name, is_inside);
}

/// The name as a message may show it: it may come from a stranger.
std::string shown(std::string_view name) {
    return "named tile '" + shortened(name, 2 * longest_name) + "'";
}

void validate_name(const NamedTile& tile, Span<const NamedTile> before, const std::string& where) {
    if (!is_name(tile.name)) {
        throw Error(shown(tile.name) + " has no valid name", where,
                    "use up to 32 of a-z, 0-9 and _, beginning with a letter");
    }
    if (stage_from_name(tile.name)) {
        throw Error(shown(tile.name) + " has the name of a stage", where, "give it a name of its own");
    }
    if (tile.name == "sink" || tile.name == "writers") {
        throw Error(shown(tile.name) + " has the name of something else under /capture", where,
                    "give it a name of its own");
    }
    if (std::ranges::find(before, tile.name, &NamedTile::name) != before.end()) {
        throw Error(shown(tile.name) + " is declared twice", where, "give each a name of its own");
    }
}

void validate_size(const NamedTile& tile, const char* what, Axis axis, std::int64_t size,
                   const std::string& where) {
    const bool is_free = axis == Axis::feature || axis == Axis::unit;
    const std::int64_t most = is_free ? std::numeric_limits<std::int32_t>::max() : 1;
    if (size >= 1 && size <= most) return;
    throw Error(shown(tile.name) + " has a " + what + " of " + std::to_string(size) +
                    (is_free ? ", not between 1 and 2147483647" : " for an axis that the problem sizes"),
                where, naming_advice);
}

void validate_axes(const NamedTile& tile, const std::string& where) {
    const auto walks = [&](Axis axis) { return tile.rows == axis || tile.cols == axis; };
    const bool query_or_key = tile.rows == Axis::query || tile.rows == Axis::key;
    if (query_or_key && tile.rows == tile.cols) {
        throw Error(shown(tile.name) + " walks along the same axis with its rows and its columns", where,
                    naming_advice);
    }
    if (walks(Axis::query) && !tile.per_q_block) {
        throw Error(shown(tile.name) + " walks along query rows, and has no query block", where,
                    naming_advice);
    }
    if (walks(Axis::key) && !tile.per_kv_tile) {
        throw Error(shown(tile.name) + " walks along keys, and has no KV tile", where, naming_advice);
    }
}

}  // namespace

void validate(Span<const NamedTile> tiles, const std::string& where) {
    if (std::ssize(tiles) > max_named_tiles) {
        throw Error(std::to_string(tiles.size()) + " named tiles are declared, and a problem has at most " +
                        std::to_string(max_named_tiles),
                    where, "declare fewer");
    }
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        validate_name(tiles[i], tiles.first(i), where);
        validate_size(tiles[i], "row_size", tiles[i].rows, tiles[i].row_size, where);
        validate_size(tiles[i], "col_size", tiles[i].cols, tiles[i].col_size, where);
        validate_axes(tiles[i], where);
    }
}

}  // namespace tilescope
