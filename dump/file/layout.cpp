#include "dump/file/layout.h"

#include <vector>

namespace tilescope::layout {

namespace {

constexpr ProvenanceAttribute provenance[] = {
    {"producer", &Provenance::producer},
    {"kernel", &Provenance::kernel},
    {"device", &Provenance::device},
    {"compute_capability", &Provenance::compute_capability},
    {"cuda_version", &Provenance::cuda_version},
    {"launch", &Provenance::launch},
    {"command", &Provenance::command},
    {"time", &Provenance::time},
    {"run", &Provenance::run},
    {"poison", &Provenance::poison},
};

constexpr ThreadAttribute threads[] = {
    {"lanes", &ThreadLayout::lanes},           {"lane_columns", &ThreadLayout::lane_columns},
    {"group_rows", &ThreadLayout::group_rows}, {"group_cols", &ThreadLayout::group_cols},
    {"groups", &ThreadLayout::groups},         {"split_groups", &ThreadLayout::split_groups},
};

constexpr InputInfo inputs[] = {
    {Input::q, "q", "/inputs/q", 4}, {Input::k, "k", "/inputs/k", 4},
    {Input::v, "v", "/inputs/v", 4}, {Input::dout, "dout", "/inputs/dout", 4},
    {Input::o, "o", "/inputs/o", 4}, {Input::lse, "lse", "/inputs/lse", 3},
};

constexpr DescaleInfo descales[] = {
    {"/inputs/descale_q", &SideInputs::descale_q, &Problem::heads, &Problem::seqlen_q, &Problem::head_dim},
    {"/inputs/descale_k", &SideInputs::descale_k, &Problem::heads_kv, &Problem::seqlen_kv,
     &Problem::head_dim},
    {"/inputs/descale_v", &SideInputs::descale_v, &Problem::heads_kv, &Problem::seqlen_kv,
     &Problem::head_dim_v},
};

}  // namespace

std::string writers_of(const StageInfo& info) {
    return std::string(path::writers) + "/" + std::string(info.name);
}

std::span<const ProvenanceAttribute> provenance_attributes() {
    return provenance;
}
std::span<const ThreadAttribute> thread_attributes() {
    return threads;
}
std::span<const InputInfo> all_inputs() {
    return inputs;
}
std::span<const DescaleInfo> all_descales() {
    return descales;
}

}  // namespace tilescope::layout
