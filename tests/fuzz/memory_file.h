#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tilescope::fuzz {

/// A file in memory that can be opened by its name, as long as it is there.
class MemoryFile {
 public:
    MemoryFile(const char* name, const std::uint8_t* data, std::size_t size)
        : descriptor_(memfd_create(name, MFD_CLOEXEC)),
          path_("/proc/self/fd/" + std::to_string(descriptor_)) {
        if (pwrite(descriptor_, data, size, 0) != ssize_t(size)) __builtin_trap();
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    const std::string& path() const { return path_; }

 private:
    int descriptor_;
    std::string path_;
};

}  // namespace tilescope::fuzz
