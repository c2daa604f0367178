#include "dump/file/shard.h"

#include <string>

#include "dump/file/attributes.h"
#include "dump/schema/declarations.h"

namespace tilescope::hdf5 {

Shard read_shard(hid_t problem_group, const std::string& where) {
    Shard shard;
    for (const ShardSize& size : shard_sizes)
        shard.*size.member = read_integer(problem_group, size.name, where).value_or(shard.*size.member);
    shard.kind = read_name<ShardKind>(problem_group, "shard", where).value_or(shard.kind);
    for (const ShardPositions& list : shard_positions)
        shard.*list.member = positions_in(read_text(problem_group, list.name, where).value_or(""),
                                          where + ", attribute " + list.name);
    return shard;
}

void write_shard(hid_t problem_group, const Shard& shard) {
    if (shard == Shard()) return;
    for (const ShardSize& size : shard_sizes) write_integer(problem_group, size.name, shard.*size.member);
    write_text(problem_group, "shard", declarations::name_of(shard.kind));
    for (const ShardPositions& list : shard_positions)
        write_text(problem_group, list.name, text_of(shard.*list.member));
}

std::vector<const char*> shard_attributes() {
    std::vector<const char*> names = {"shard"};
    for (const ShardSize& size : shard_sizes) names.push_back(size.name);
    for (const ShardPositions& list : shard_positions) names.push_back(list.name);
    return names;
}

std::vector<const char*> required_of_shard(const Shard& shard) {
    std::vector<const char*> names;
    for (const ShardSize& size : shard_sizes)
        if (size.is_required && shard.*size.member != 0) names.push_back(size.name);
    for (const ShardPositions& list : shard_positions)
        if (!(shard.*list.member).empty()) names.push_back(list.name);
    return names;
}

}  // namespace tilescope::hdf5
