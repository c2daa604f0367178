#pragma once

#include <istream>
#include <string>
#include <vector>

namespace tilescope {

/// A recording to judge, or a path of which nothing can be judged.
struct FoundPath {
    std::string path;
    std::string wrong;  ///< one line: what, where, what to do; empty: `path` is to be judged
    std::vector<std::string> shards = {};  ///< recordings that are judged as one, of which `path` names all
};

/// Whether it is one file, and no folder or "-".
bool is_one_file(const std::string& path);

/// What the paths name, in their order: files as they are, of folders every *.h5 in them and below, sorted, and of "-" the
/// names on `input`, a line each or ended by NUL. What is named twice is there once. Recordings below a folder that are shards
/// of one run are one: the folder, or FOLDER/RUN where there is something else in it.
std::vector<FoundPath> find_recordings(const std::vector<std::string>& paths, std::istream& input);

}  // namespace tilescope
