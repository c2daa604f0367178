#include "dump/program/paths.h"

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
    explicit Found(const std::function<std::string(const std::string&)>& run_of_file)
        : run_of_file_(run_of_file) {}

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
            const std::string run = files.size() > 1 ? run_of_file_(file) : "";
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
    const std::function<std::string(const std::string&)>& run_of_file_;
    std::set<fs::path> seen_;
    std::vector<FoundPath> found_;
};

struct FolderContents {
    std::vector<std::string> files;
    std::vector<std::pair<std::string, std::string>> not_searched;  ///< folders, and why
};

/// Links to folders are not followed: they may lead back.
void search(const fs::path& folder, FolderContents& contents) {
    std::error_code end;
    std::vector<fs::path> below;
    for (fs::directory_iterator entry(folder, end), last; !end && entry != last; entry.increment(end)) {
        std::error_code unknown;
        if (fs::is_directory(entry->symlink_status(unknown))) {
            below.push_back(entry->path());
        } else if (entry->path().extension() == ".h5" && !entry->is_directory(unknown)) {
            contents.files.push_back(entry->path().string());
        }
    }
    if (end) contents.not_searched.emplace_back(folder.string(), end.message());
    for (const fs::path& each : below) search(each, contents);
}

void add_folder(const std::string& folder, Found& found) {
    FolderContents contents;
    search(folder, contents);
    std::ranges::sort(contents.files);
    std::ranges::sort(contents.not_searched);
    found.add_all(folder, contents.files);
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

bool is_folder(const std::string& path) {
    std::error_code unknown;
    return fs::is_directory(path, unknown);
}

void add_path(const std::string& path, Found& found) {
    if (is_folder(path)) {
        add_folder(path, found);
    } else {
        found.add(path);
    }
}

}  // namespace

bool is_one_file(const std::string& path) {
    return path != "-" && !is_folder(path);
}

std::vector<std::string> recordings_in_folders(const std::vector<std::string>& paths) {
    FolderContents contents;
    for (const std::string& path : paths)
        if (path != "-" && is_folder(path)) search(path, contents);
    return contents.files;
}

std::vector<FoundPath> find_recordings(const std::vector<std::string>& paths, std::istream& input,
                                       const std::function<std::string(const std::string&)>& run_of_file) {
    Found found(run_of_file);
    for (const std::string& path : paths) {
        if (path != "-") {
            add_path(path, found);
            continue;
        }
        const std::vector<std::string> names = names_on(input);
        if (names.empty())
            found.refuse("standard input", "names no recording",
                         "write the names of recordings to it, a line each");
        for (const std::string& name : names) add_path(name, found);
    }
    return found.take();
}

}  // namespace tilescope
