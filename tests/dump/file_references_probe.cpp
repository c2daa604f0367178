// For the test in Python: what the reader makes of the references of a file.
//   file_references_probe list PATH                                       their infos as JSON
//   file_references_probe rows PATH INDEX o|lse BATCH HEAD FIRST COUNT    rows as float32 bits
// Exit 2, and one line, when something is refused.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "dump/file_reader.h"

namespace tilescope::test {
namespace {

int list(const Recording& recording) {
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

int rows(const Recording& recording, char** arguments) {
    const Stage stage = stage_from_name(arguments[1]).value();
    const std::int64_t count = std::atoll(arguments[5]);
    const std::int64_t cols = stage == Stage::o ? recording.problem().head_dim_v : 1;
    std::vector<float> values(static_cast<std::size_t>(count * cols));
    recording.read_reference(static_cast<std::size_t>(std::atoll(arguments[0])), stage,
                             std::atoll(arguments[2]), std::atoll(arguments[3]), std::atoll(arguments[4]),
                             count, values);
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
    return 0;
}

int run(int count, char** arguments) {
    const std::string name = count > 2 ? arguments[1] : "";
    if (name == "list" && count == 3) return list(*open_recording(arguments[2]));
    if (name == "rows" && count == 9) return rows(*open_recording(arguments[2]), arguments + 3);
    std::fputs("usage: see the top of file_references_probe.cpp\n", stderr);
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
