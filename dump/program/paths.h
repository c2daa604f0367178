#pragma once

#include <functional>
#include <istream>
#include <string>
#include <type_traits>
#include <vector>

#include "dump/reader.h"

namespace tilescope {

/// A recording to judge, or a path of which nothing can be judged.
struct FoundPath {
    std::string path;
    std::string wrong;  ///< one line: what, where, what to do; empty: `path` is to be judged
    std::vector<std::string> shards = {};  ///< recordings that are judged as one, of which `path` names all
};

/// From one process to another.
template <class Io, class Path>
requires std::is_same_v<std::remove_const_t<Path>, FoundPath>
void each_field(Io& io, Path& path) {
    auto& [name, wrong, shards] = path;
    io(name, wrong, shards);
}

/// Whether it is one file, and no folder or "-".
bool is_one_file(const std::string& path);

/// What the paths name, in their order: files as they are, of folders every *.h5 in them and below, sorted, and of "-" the
/// names on `input`, a line each or ended by NUL. What is named twice is there once. Recordings below a folder that are shards
/// of one run are one: the folder, or FOLDER/RUN where there is something else in it.
/// `run_of_file`: run_of(), or who has asked it before.
std::vector<FoundPath> find_recordings(
    const std::vector<std::string>& paths, std::istream& input,
    const std::function<std::string(const std::string&)>& run_of_file = run_of);

/// The recordings in those of the paths that are folders, and below, in any order.
std::vector<std::string> recordings_in_folders(const std::vector<std::string>& paths);

}  // namespace tilescope
