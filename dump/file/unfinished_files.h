#pragma once

#include <string>

namespace tilescope {

/// From now on SIGHUP, SIGINT and SIGTERM remove the files that this process has not finished, and then end
/// it as they do by default. Those that are ignored or have a handler are left alone. For main(): a library
/// does not decide about signals, and what stays without this is removed by the next writer of the same name.
void remove_unfinished_files_on_signals();

/// A file that is removed when such a signal ends the process, for as long as this lives.
class UnfinishedFile {
 public:
    UnfinishedFile() = default;
    ~UnfinishedFile() { finish(); }
    UnfinishedFile(const UnfinishedFile&) = delete;
    UnfinishedFile& operator=(const UnfinishedFile&) = delete;

    /// Before the file is created. Only so many files at a time are noted: of more, the next writer removes
    /// the rest.
    void note(const std::string& path);
    void finish();

 private:
    int slot_ = -1;
};

}  // namespace tilescope
