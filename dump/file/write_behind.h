#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace tilescope::hdf5 {

/// Writes to a file in a thread of its own, many small pieces at once: HDF5 takes about as long to place a
/// chunk as the system takes to write it. All functions are called by one thread.
class WriteBehind {
 public:
    explicit WriteBehind(int descriptor) : descriptor_(descriptor) {}
    /// Waits for what was put.
    ~WriteBehind();
    WriteBehind(const WriteBehind&) = delete;
    WriteBehind& operator=(const WriteBehind&) = delete;

    /// Memory for what is put next, aligned for any number; valid until the next call of room() or flush().
    std::byte* room(std::size_t bytes);
    /// Takes the bytes, if they are the first ones of the room, to be written at `address`; they stay as they
    /// are until the next room(). Returns false, and takes nothing, when they lie elsewhere.
    bool put(std::int64_t address, const void* data, std::size_t bytes);
    /// Waits until everything is written. Returns errno of the first error; 0: there was none.
    int flush();
    /// The same without waiting: an error until now. Nothing is written after one.
    int error() const;

 private:
    /// Bytes that go one after the other.
    struct Run {
        std::int64_t address = 0;
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    struct Buffer {
        std::vector<std::byte> bytes;
        std::size_t used = 0;
        std::vector<Run> runs;
    };

    Buffer& filling() { return buffers_[handed_ % buffers_.size()]; }
    void start();
    void hand_over();
    void write_handed();
    int write(const Buffer& buffer) const;

    int descriptor_;
    // The thread has those numbered [written_, handed_), modulo their number; handed_ is being filled.
    std::array<Buffer, 3> buffers_;
    std::size_t handed_ = 0;
    std::size_t written_ = 0;
    int error_ = 0;
    bool ends_ = false;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<std::thread> thread_;
};

}  // namespace tilescope::hdf5
