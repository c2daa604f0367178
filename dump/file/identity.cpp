#include "dump/file/identity.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "dump/schema/error.h"

namespace tilescope {

bool same_file(const std::string& a, const std::string& b) {
    struct stat first = {};
    struct stat second = {};
    const bool a_exists = stat(a.c_str(), &first) == 0;
    const bool b_exists = stat(b.c_str(), &second) == 0;
    if (a_exists && b_exists) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    if (a_exists || b_exists) return false;
    std::error_code unknown;
    const std::filesystem::path place = std::filesystem::weakly_canonical(a, unknown);
    return !unknown && place == std::filesystem::weakly_canonical(b, unknown) && !unknown;
}

void spare_inputs(std::span<const std::string> inputs, std::span<const std::string> outputs) {
    for (const std::string& output : outputs) {
        for (const std::string& input : inputs) {
            if (output.empty() || input.empty() || !same_file(output, input)) continue;
            throw Error("is a file that is read: it would be overwritten", output,
                        "name another output file");
        }
    }
}

}  // namespace tilescope
