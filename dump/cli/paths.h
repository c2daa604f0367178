#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dump/reader.h"

namespace tilescope {

/// A recording to judge, or a path of which nothing can be judged.
struct FoundPath {
    std::string path;
    std::string wrong;  ///< one line: what, where, what to do; empty: `path` is to be judged
    std::vector<std::string> shards = {};  ///< recordings that are judged as one, of which `path` names all
    std::string against = {};              ///< a recording that it is compared with; empty: the oracle
};

/// From one process to another.
template <class Io, class Path>
requires std::is_same_v<std::remove_const_t<Path>, FoundPath>
void each_field(Io& io, Path& path) {
    auto& [name, wrong, shards, against] = path;
    io(name, wrong, shards, against);
}

/// A file, and what another one of the same name differs in.
struct FileOnDisk {
    std::string path;
    std::int64_t bytes = 0;
    std::int64_t changed = 0;  ///< when it was written to, in nanoseconds
};

/// What a path is, and what there is to judge of it.
struct OnDisk {
    enum class Kind : std::uint8_t { nothing, file, folder };
    Kind kind = Kind::nothing;
    std::vector<FileOnDisk> files;  ///< it itself, or every *.h5 in the folder and below; sorted
    std::vector<std::pair<std::string, std::string>> not_searched;  ///< folders, and why
};
OnDisk look_at(const std::string& path);
using Look = std::function<OnDisk(const std::string& path)>;

/// Whether it is one file, and no folder or "-".
bool is_one_file(const std::string& path, const Look& look = look_at);

/// The paths, and in place of "-" the names on `input`, a line each or ended by NUL; "-" where there is none.
std::vector<std::string> with_names(const std::vector<std::string>& paths, std::istream& input);

using RunOfFile = std::function<std::optional<std::string>(const std::string& path)>;

/// What the paths name, in their order: files as they are, and of folders every *.h5 in them and below, sorted. What is named
/// twice is there once. Recordings below a folder that are shards of one run are one: the folder, or FOLDER/RUN where there
/// is something else in it. `run_of_file`: run_of(), or who has asked it before.
std::vector<FoundPath> find_recordings(const std::vector<std::string>& paths,
                                       const RunOfFile& run_of_file = run_of, const Look& look = look_at);

/// What was found in the paths, each with the recording to compare it with: `other`, or, where that is a folder, the one of the
/// same name below it. A run of several ranks is then its recordings, and what only the folder has is there, too, as wrong.
std::vector<FoundPath> beside(std::vector<FoundPath> found, const std::vector<std::string>& paths,
                              const std::string& other, const Look& look = look_at);

}  // namespace tilescope
