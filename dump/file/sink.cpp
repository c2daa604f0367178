#include "dump/file/sink.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "dump/file/lock.h"
#include "dump/file/output.h"
#include "dump/file/sink_image.h"
#include "dump/file/temporary.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

[[noreturn]] void refuse(std::size_t bytes, int reason, const std::string& path) {
    throw Error("no room for " + std::to_string(bytes) + " bytes: " + std::strerror(reason), path,
                "select fewer tiles, allow fewer bytes or choose another file system");
}

/// Maps the bytes so that what is written to them is in the file at once. `held` becomes a descriptor that is
/// closed with them.
MemoryBlock map_shared(int descriptor, int& held, const hdf5::SinkRoom& room, const std::string& path) {
    const std::size_t bytes = room.bytes + hdf5::sink_ending_bytes;
    // Asked first, since some file systems fill up before they fail.
    struct statvfs space = {};
    const bool known = fstatvfs(descriptor, &space) == 0 && space.f_blocks > 0;
    if (known && space.f_bavail < bytes / space.f_frsize) refuse(bytes, ENOSPC, path);
    // A page for which there is no room when it is first written would kill the process.
    const int reason = posix_fallocate(descriptor, room.offset, off_t(bytes));
    if (reason != 0) refuse(bytes, reason, path);
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, room.offset);
    if (mapped == MAP_FAILED) refuse(bytes, errno, path);
    held = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    std::shared_ptr<void> owner(mapped, [bytes, held](void* memory) {
        munmap(memory, bytes);
        if (held >= 0) close(held);
    });
    return {std::move(owner), {static_cast<std::byte*>(mapped), room.bytes}};
}

}  // namespace

SinkFile::SinkFile(const std::string& path, const CapturePlan& plan, std::size_t max_bytes,
                   const Recording& call) {
    if (plan.mode() == SinkMode::writers) {
        throw Error("a sink's file does not hold who wrote its elements", path,
                    "record writers in device memory or in mapped memory, or leave them out");
    }
    CaptureSummary capture;
    capture.selection = plan.selection();
    capture.ended = ended_running;
    TemporaryFile temporary(path);
    hdf5::SinkRoom room{plan.bytes(), max_bytes};
    hdf5::write_file(temporary, path, call, capture, &room);
    memory_ = map_shared(temporary.descriptor(), held_, room, path);
    plan.fill_unwritten(memory_.data());
    temporary.commit(TemporaryFile::Readers::owner);
}

void SinkFile::set_ended(const std::string& how) const {
    set_text(how);
    if (held_ >= 0) let_go_of_file(held_);
}

void SinkFile::set_running() const {
    if (held_ >= 0) hold_file(held_);
    set_text(ended_running);
}

void SinkFile::set_text(const std::string& how) const {
    char* const text = reinterpret_cast<char*>(memory_.data() + memory_.size());
    const std::size_t length = std::min(how.size(), hdf5::sink_ending_bytes);
    if (length == 0) return;
    // The first character last: whoever finds it finds the others.
    std::memcpy(text + 1, how.data() + 1, length - 1);
    std::memset(text + length, 0, hdf5::sink_ending_bytes - length);
    std::atomic_ref(text[0]).store(how[0], std::memory_order_release);
}

}  // namespace tilescope
