#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dump/file/temporary.h"

namespace tilescope {

/// A report or array that is written in any order and appears whole, by commit(), or not at all.
/// Errors: every function throws Error when the file system refuses, or the path is no regular file.
class OutputFile {
 public:
    explicit OutputFile(const std::string& path) : path_(path), file_(path) {}

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    void write(std::string_view text);  ///< the whole content
    void commit() { file_.commit(); }

 private:
    std::string path_;
    TemporaryFile file_;
};

}  // namespace tilescope
