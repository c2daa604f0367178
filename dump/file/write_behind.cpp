#include "dump/file/write_behind.h"

#include <algorithm>
#include <system_error>

#include "dump/file/driver.h"

namespace tilescope::hdf5 {

namespace {

/// Of a buffer, unless a single room is larger: all of them stay in the processor's cache.
constexpr std::size_t usual_bytes = std::size_t(1) << 22;

constexpr std::size_t alignment = alignof(std::max_align_t);

}  // namespace

WriteBehind::~WriteBehind() {
    flush();
    if (!thread_) return;
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_->join();
}

std::byte* WriteBehind::room(std::size_t bytes) {
    filling().used = (filling().used + alignment - 1) / alignment * alignment;
    if (filling().used + bytes > filling().bytes.size() && filling().used > 0) hand_over();
    Buffer& buffer = filling();
    if (buffer.bytes.size() < bytes) buffer.bytes.resize(std::max(bytes, usual_bytes));
    return buffer.bytes.data() + buffer.used;
}

bool WriteBehind::put(std::int64_t address, const void* data, std::size_t bytes) {
    Buffer& buffer = filling();
    if (data != buffer.bytes.data() + buffer.used || bytes > buffer.bytes.size() - buffer.used) return false;
    const std::size_t begin = buffer.used;
    buffer.used += bytes;
    if (!buffer.runs.empty()) {
        Run& last = buffer.runs.back();
        if (last.end == begin && last.address + std::int64_t(last.end - last.begin) == address) {
            last.end = buffer.used;
            return true;
        }
    }
    buffer.runs.push_back({address, begin, buffer.used});
    return true;
}

int WriteBehind::flush() {
    if (filling().used > 0) hand_over();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return written_ == handed_; });
    return error_;
}

int WriteBehind::error() const {
    const std::lock_guard lock(mutex_);
    return error_;
}

void WriteBehind::start() {
    try {
        thread_.emplace([this] { write_handed(); });
    } catch (const std::system_error&) {
        // The system has none left: the calling one writes.
    }
}

void WriteBehind::hand_over() {
    if (!thread_) start();
    if (!thread_) {
        if (error_ == 0) error_ = write(filling());
        filling().used = 0;
        filling().runs.clear();
        return;
    }
    std::unique_lock lock(mutex_);
    ++handed_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return handed_ - written_ < buffers_.size(); });
    filling().used = 0;
    filling().runs.clear();
}

void WriteBehind::write_handed() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return ends_ || written_ < handed_; });
        if (written_ == handed_) return;
        const Buffer& buffer = buffers_[written_ % buffers_.size()];
        if (error_ == 0) {
            lock.unlock();
            const int error = write(buffer);
            lock.lock();
            error_ = error;
        }
        ++written_;
        changed_.notify_all();
    }
}

int WriteBehind::write(const Buffer& buffer) const {
    for (const Run& run : buffer.runs) {
        const int error =
            write_exactly(descriptor_, run.address, run.end - run.begin, buffer.bytes.data() + run.begin);
        if (error != 0) return error;
    }
    return 0;
}

}  // namespace tilescope::hdf5
