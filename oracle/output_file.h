#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilescope {

/// A file that appears whole or not at all: written beside its name, renamed by commit(), removed otherwise.
/// Errors: every function throws Error when the file system refuses.
class OutputFile {
 public:
    explicit OutputFile(std::string path);
    ~OutputFile();
    OutputFile(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    OutputFile& operator=(OutputFile&&) = delete;

    const std::string& path() const { return path_; }
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    void write(std::string_view text);  ///< the whole content
    void commit();

 private:
    [[noreturn]] void fail(const char* what) const;

    std::string path_;
    std::string temporary_;
    int descriptor_ = -1;
};

}  // namespace tilescope
