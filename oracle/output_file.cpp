#include "oracle/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "dump/error.h"

namespace tilescope {

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".part" + std::to_string(::getpid())) {
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot be created");
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
}

void OutputFile::fail(const char* what) const {
    throw Error(std::string(what) + " (" + std::strerror(errno) + ")", path_,
                "choose a place that can be written");
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("cannot be written");
        bytes = bytes.subspan(std::size_t(written));
        offset += std::uint64_t(written);
    }
}

void OutputFile::write(std::string_view text) {
    write_at(0, std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::commit() {
    if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot be written");
    if (::close(std::exchange(descriptor_, -1)) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const int reason = errno;
        ::unlink(temporary_.c_str());
        errno = reason;
        fail("cannot be put in place");
    }
}

}  // namespace tilescope
