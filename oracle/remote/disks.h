#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dump/cli/paths.h"
#include "dump/recording.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// What paths are on the disks of all processes, which may be different ones.
class Disks {
 public:
    /// Collective: each process looks at its own.
    Disks(const std::vector<std::string>& paths, WorkSharing& sharing);

    /// A folder holds what any process finds in it. Of other paths than those: what this process finds.
    OnDisk at(const std::string& path) const;
    /// The processes that find the file; all where none does, since each of them then says why.
    std::vector<int> who_has(const std::string& file) const;
    /// Files that not all processes find, and the first that does.
    std::map<std::string, int> homes() const;
    /// 0 where nobody finds it.
    std::int64_t bytes_of(const std::string& file) const;
    /// Why the file cannot be judged: a process has another one of that name; "" where none has.
    std::string conflict(const std::string& file) const;

 private:
    struct Copies {
        std::vector<FileOnDisk> files;            ///< different ones
        std::vector<std::vector<int>> processes;  ///< that have each
    };
    struct Together {
        OnDisk::Kind kind = OnDisk::Kind::nothing;
        std::set<std::string> files;
        std::set<std::pair<std::string, std::string>> not_searched;
    };
    void add(const std::string& path, const OnDisk& found, int process);

    WorkSharing& sharing_;
    std::map<std::string, Together> paths_;
    std::map<std::string, Copies> files_;
};

/// The recording, from this process' disk, or through a process that finds the file. `is_tried`: as open_tried_recording()
/// opens it. Errors: Error.
std::unique_ptr<Recording> open_from(const Disks& disks, WorkSharing& sharing, const std::string& path,
                                     bool is_tried);

/// Lets others read what lies on this process' disk, and tells who judges what first. Collective, where it makes a difference.
void share_disks(const Disks& disks, WorkSharing& sharing);

}  // namespace tilescope
