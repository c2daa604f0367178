#include "dump/file/shard.h"

#include <string>

#include "dump/file/attributes.h"
#include "dump/schema/declarations.h"

namespace tilescope::hdf5 {

namespace {

struct ShardSize {
    const char* name;
    std::int64_t Shard::*member;
    bool is_required;  ///< without it another element would be expected
};

constexpr ShardSize sizes[] = {
    {"ranks", &Shard::ranks, false},
    {"rank", &Shard::rank, false},
    {"step", &Shard::step, false},
    {"whole_seqlen_q", &Shard::seqlen_q, true},
    {"whole_seqlen_kv", &Shard::seqlen_kv, true},
};

struct ShardPositions {
    const char* name;
    Positions Shard::*member;
};

constexpr ShardPositions position_lists[] = {{"q_positions", &Shard::q_positions},
                                             {"kv_positions", &Shard::kv_positions}};

}  // namespace

Shard read_shard(hid_t problem_group, const std::string& where) {
    Shard shard;
    for (const ShardSize& size : sizes)
        shard.*size.member = read_integer(problem_group, size.name, where).value_or(shard.*size.member);
    shard.kind = read_name<ShardKind>(problem_group, "shard", where).value_or(shard.kind);
    for (const ShardPositions& list : position_lists)
        shard.*list.member = positions_in(read_text(problem_group, list.name, where).value_or(""),
                                          where + ", attribute " + list.name);
    return shard;
}

void write_shard(hid_t problem_group, const Shard& shard) {
    if (shard == Shard()) return;
    for (const ShardSize& size : sizes) write_integer(problem_group, size.name, shard.*size.member);
    write_text(problem_group, "shard", declarations::name_of(shard.kind));
    for (const ShardPositions& list : position_lists)
        write_text(problem_group, list.name, text_of(shard.*list.member));
}

std::vector<const char*> required_of_shard(const Shard& shard) {
    std::vector<const char*> names;
    for (const ShardSize& size : sizes)
        if (size.is_required && shard.*size.member != 0) names.push_back(size.name);
    for (const ShardPositions& list : position_lists)
        if (!(shard.*list.member).empty()) names.push_back(list.name);
    return names;
}

}  // namespace tilescope::hdf5
