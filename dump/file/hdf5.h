#pragma once

// The HDF5 library as the reader and the writer use it: one thread at a time, ids that close themselves, and
// errors as one line instead of a printed stack.

#include <hdf5.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "dump/schema/dtype.h"

namespace tilescope::hdf5 {

/// Holds the library: not every build of HDF5 may be called from several threads. Each public function that
/// calls HDF5 starts with one; the functions of the file_* headers expect their caller to hold it. A thread
/// may hold several: write_recording reads from a recording that may be a file itself.
class Session {
 public:
    Session();
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

 private:
    H5E_auto2_t print_ = nullptr;
    void* print_data_ = nullptr;
};

/// A file can name any filter, and HDF5 would look for a plugin to load: not while this lives.
class PluginsOff {
 public:
    PluginsOff();
    ~PluginsOff();
    PluginsOff(const PluginsOff&) = delete;
    PluginsOff& operator=(const PluginsOff&) = delete;

 private:
    unsigned before_ = 0;
};

/// Owns an HDF5 id of any kind. Negative means none.
class Id {
 public:
    Id() = default;
    explicit Id(hid_t id) : id_(id) {}
    Id(Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Id& operator=(Id&& other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    ~Id() { close(); }

    hid_t get() const { return id_; }
    explicit operator bool() const { return id_ >= 0; }
    void close();

 private:
    hid_t id_ = H5I_INVALID_HID;
};

/// The innermost message of the call that just failed; "no reason given" when there is none.
std::string last_error();

/// A call of the writer failed; the message is last_error(). write_recording turns it into an Error.
struct Failure : std::runtime_error {
    Failure() : std::runtime_error(last_error()) {}
};
inline void check(herr_t result) {
    if (result < 0) throw Failure();
}
inline Id checked(hid_t id) {
    if (id < 0) throw Failure();
    return Id(id);
}

/// Properties of a new file, group or dataset: attributes and links beside its header, no time stamps.
/// Errors: Failure.
Id creation_properties(hid_t property_class);
/// Errors: Failure.
Id create_group(hid_t file, const std::string& path);

/// The file's element type of `dtype`: little-endian floats, or an unsigned byte for fp8.
Id element_type(Dtype dtype);

}  // namespace tilescope::hdf5
