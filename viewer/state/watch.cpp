#include "viewer/state/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "dump/schema/error.h"
#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

constexpr double between_looks = 0.25;

std::map<std::string, FileStamp> recordings_in(const std::string& folder) {
    std::map<std::string, FileStamp> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string path = entry.path().string();
        const FileStamp stamp = stamp_of(path);
        // Writers begin with a name of their own, and an empty file is none yet.
        if (entry.path().extension() == ".h5" && stamp.bytes > 0) found[path] = stamp;
    }
    return found;
}

/// Lets go of what was removed, and of the oldest where they are more than are kept; the one that is shown keeps its place among the others.
void forget_old_ones(Watch& watch, const std::map<std::string, FileStamp>& now) {
    const std::string shown =
        watch.shown < watch.recordings.size() ? watch.recordings[watch.shown] : std::string();
    std::erase_if(watch.recordings, [&](const std::string& path) { return !now.contains(path); });
    if (watch.recordings.size() > Watch::most)
        watch.recordings.erase(watch.recordings.begin(), watch.recordings.end() - Watch::most);
    watch.shown = std::size_t(std::ranges::find(watch.recordings, shown) - watch.recordings.begin());
}

/// The recordings that are there to be shown and were not yet, oldest first.
std::vector<std::string> new_ones(Watch& watch, const std::map<std::string, FileStamp>& now) {
    std::vector<std::string> paths;
    for (const auto& [path, stamp] : now) {
        const auto before = watch.seen.find(path);
        const auto shown = watch.shown_as.find(path);
        const bool settled = before != watch.seen.end() && before->second == stamp;
        if (settled && (shown == watch.shown_as.end() || shown->second != stamp)) paths.push_back(path);
    }
    std::ranges::sort(paths, {}, [&](const std::string& path) { return now.at(path).modified; });
    return paths;
}

}  // namespace

bool look_for_recordings(App& app, double now) {
    Watch& watch = app.watch;
    if (watch.folder.empty() || (watch.begun && now - watch.looked < between_looks)) return false;
    watch.looked = now;
    if (!watch.begun && !std::filesystem::is_directory(watch.folder))
        throw Error("no such folder", "--watch " + watch.folder, "make it first, or name another one");
    watch.begun = true;
    const std::map<std::string, FileStamp> found = recordings_in(watch.folder);
    const std::vector<std::string> fresh = new_ones(watch, found);
    for (const std::string& path : fresh) {
        watch.shown_as[path] = found.at(path);
        std::erase(watch.recordings, path);
        watch.recordings.push_back(path);
    }
    watch.seen = found;
    forget_old_ones(watch, found);
    if (fresh.empty()) return false;
    watch.shown = watch.recordings.size() - 1;
    open_paths(app, {watch.recordings.back()});
    return true;
}

void walk_recordings(App& app, int step) {
    Watch& watch = app.watch;
    if (watch.folder.empty()) {
        app.notice = "no folder is watched; tile-view --watch DIR does";
        return;
    }
    const std::size_t next = watch.shown + std::size_t(std::ptrdiff_t(step));
    if (next >= watch.recordings.size()) {
        app.notice = step < 0 ? "this is the oldest that is kept" : "this is the newest";
        return;
    }
    watch.shown = next;
    open_paths(app, {watch.recordings[next]});
}

}  // namespace tilescope::viewer
