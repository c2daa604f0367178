#include "dump/file/saved_name.h"

#include <filesystem>

namespace tilescope {

namespace {

const std::string mark = ".process";

}  // namespace

std::string process_in_name(long process) {
    return mark + std::to_string(process);
}

std::string path_in_every_run(const std::string& path) {
    const std::filesystem::path whole(path);
    const std::string stem = whole.stem().string();
    const std::size_t at = stem.rfind(mark);
    if (at == std::string::npos || at + mark.size() == stem.size()) return path;
    if (stem.find_first_not_of("0123456789", at + mark.size()) != std::string::npos) return path;
    const std::string folder = path.substr(0, path.size() - whole.filename().string().size());
    return folder + stem.substr(0, at) + whole.extension().string();
}

}  // namespace tilescope
