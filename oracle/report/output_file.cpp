#include "oracle/report/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dump/schema/error.h"

namespace tilescope {

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(file_.descriptor(), bytes.data(), bytes.size(), off_t(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            throw Error(std::string("cannot be written: ") + std::strerror(errno), path_,
                        "choose another output file");
        }
        bytes = bytes.subspan(std::size_t(written));
        offset += std::uint64_t(written);
    }
}

void OutputFile::write(std::string_view text) {
    write_at(0, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace tilescope
