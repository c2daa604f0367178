#include "dump/cli/paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

namespace fs = std::filesystem;

/// Collects paths, each once by whatever name.
class Found {
 public:
    explicit Found(const RunOfFile& run_of_file) : run_of_file_(run_of_file) {}

    void add(const std::string& path) {
        std::error_code unknown;
        const fs::path whole = fs::weakly_canonical(path, unknown);
        if (seen_.insert(unknown ? fs::path(path) : whole).second) found_.push_back({path, {}});
    }
    void refuse(const std::string& path, const std::string& what, const std::string& what_to_do) {
        found_.push_back({path, Error(what, path, what_to_do).what()});
    }
    /// Recordings of a folder, and the runs that they are of.
    void add_all(const std::string& folder, const std::vector<std::string>& files) {
        std::map<std::string, std::vector<std::string>> runs;
        std::vector<std::string> alone;
        for (const std::string& file : files) {
            const std::string run = files.size() > 1 ? run_of_file_(file).value_or("") : "";
            (run.empty() ? alone : runs[run]).push_back(file);
        }
        for (auto& [run, shards] : runs) {
            if (shards.size() == 1) {
                alone.push_back(shards.front());
                continue;
            }
            const bool is_all = runs.size() == 1 && alone.empty();
            found_.push_back({is_all ? folder : folder + "/" + one_line(run), {}, std::move(shards)});
        }
        std::ranges::sort(alone);
        for (const std::string& file : alone) add(file);
    }
    std::vector<FoundPath> take() { return std::move(found_); }

 private:
    const RunOfFile& run_of_file_;
    std::set<fs::path> seen_;
    std::vector<FoundPath> found_;
};

FileOnDisk file_on_disk(const fs::path& path) {
    FileOnDisk file{path.string()};
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return file;
    file.bytes = status.st_size;
    file.changed = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
    return file;
}

/// Links to folders are not followed: they may lead back.
void search(const fs::path& folder, OnDisk& found) {
    std::error_code end;
    std::vector<fs::path> below;
    for (fs::directory_iterator entry(folder, end), last; !end && entry != last; entry.increment(end)) {
        std::error_code unknown;
        if (fs::is_directory(entry->symlink_status(unknown))) {
            below.push_back(entry->path());
        } else if (entry->path().extension() == ".h5" && !entry->is_directory(unknown)) {
            found.files.push_back(file_on_disk(entry->path()));
        }
    }
    if (end) found.not_searched.emplace_back(folder.string(), end.message());
    for (const fs::path& each : below) search(each, found);
}

void add_folder(const std::string& folder, const OnDisk& contents, Found& found) {
    std::vector<std::string> files;
    for (const FileOnDisk& file : contents.files) files.push_back(file.path);
    found.add_all(folder, files);
    for (const auto& [path, why] : contents.not_searched)
        found.refuse(path, "cannot be searched for recordings: " + why,
                     "give it permissions to be read, or name the recordings");
    if (contents.files.empty() && contents.not_searched.empty()) {
        found.refuse(folder, "holds no recording", "record into it, or name a folder with *.h5 files");
    }
}

std::vector<std::string> names_on(std::istream& input) {
    const std::string all(std::istreambuf_iterator<char>(input), {});
    const char end = all.find('\0') == std::string::npos ? '\n' : '\0';
    std::vector<std::string> names;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t next = std::min(all.find(end, at), all.size());
        if (next > at) names.push_back(all.substr(at, next - at));
        at = next + 1;
    }
    return names;
}

}  // namespace

OnDisk look_at(const std::string& path) {
    OnDisk found;
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) {
        found.kind = OnDisk::Kind::folder;
        search(path, found);
        std::ranges::sort(found.files, {}, &FileOnDisk::path);
        std::ranges::sort(found.not_searched);
    } else if (fs::exists(path, unknown)) {
        found.kind = OnDisk::Kind::file;
        found.files.push_back(file_on_disk(path));
    }
    return found;
}

bool is_one_file(const std::string& path, const Look& look) {
    return path != "-" && look(path).kind != OnDisk::Kind::folder;
}

std::vector<std::string> with_names(const std::vector<std::string>& paths, std::istream& input) {
    std::vector<std::string> all;
    for (const std::string& path : paths) {
        std::vector<std::string> names = {path};
        if (path == "-") names = names_on(input);
        if (names.empty()) names = {path};
        all.insert(all.end(), names.begin(), names.end());
    }
    return all;
}

std::vector<FoundPath> find_recordings(const std::vector<std::string>& paths, const RunOfFile& run_of_file,
                                       const Look& look) {
    Found found(run_of_file);
    for (const std::string& path : paths) {
        if (path == "-") {
            found.refuse("standard input", "names no recording",
                         "write the names of recordings to it, a line each");
            continue;
        }
        const OnDisk on_disk = look(path);
        if (on_disk.kind == OnDisk::Kind::folder) {
            add_folder(path, on_disk, found);
        } else {
            found.add(path);
        }
    }
    return found.take();
}

namespace {

/// Of a file that was found in one of the paths: its name below that folder, or its last one.
fs::path name_below(const std::vector<std::string>& paths, const std::string& file) {
    for (const std::string& path : paths) {
        fs::path name = fs::path(file).lexically_relative(path);
        if (!name.empty() && name != "." && *name.begin() != "..") return name;
    }
    return fs::path(file).filename();
}

}  // namespace

std::vector<FoundPath> beside(std::vector<FoundPath> found, const std::vector<std::string>& paths,
                              const std::string& other, const Look& look) {
    const OnDisk others = look(other);
    if (others.kind != OnDisk::Kind::folder) {
        for (FoundPath& one : found) {
            one.against = other;
            if (others.kind == OnDisk::Kind::nothing && !one.shards.empty())
                one.wrong = Error("is not there", other, "name the folder of another run").what();
        }
        return found;
    }
    std::vector<FoundPath> all;
    std::set<std::string> taken;
    const auto add = [&](const std::string& file) {
        const std::string against = (fs::path(other) / name_below(paths, file)).string();
        all.push_back({.path = file, .wrong = {}, .against = against});
        taken.insert(against);
    };
    for (FoundPath& one : found) {
        for (const std::string& shard : one.shards) add(shard);
        if (!one.shards.empty()) continue;
        if (one.wrong.empty())
            add(one.path);
        else
            all.push_back(std::move(one));
    }
    const auto is_folder = [&](const std::string& path) { return look(path).kind == OnDisk::Kind::folder; };
    if (std::ranges::none_of(paths, is_folder)) return all;
    for (const FileOnDisk& file : others.files)
        if (!taken.contains(file.path))
            all.push_back({file.path, Error("has nothing to be compared with", file.path,
                                            "record the same calls in both runs, or name the recordings")
                                          .what()});
    return all;
}

}  // namespace tilescope
