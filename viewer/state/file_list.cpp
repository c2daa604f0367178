#include "viewer/state/file_list.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

#include "viewer/state/app.h"
#include "viewer/window/input.h"

namespace tilescope::viewer {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> endings = {".h5", ".hdf5", ".he5"};

std::vector<FileList::Entry> entries_of(const fs::path& folder, std::error_code& error) {
    std::vector<FileList::Entry> entries;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        std::error_code ignored;  // of a link that leads nowhere
        std::string name = at->path().filename().string();
        const bool is_folder = at->is_directory(ignored);
        if (name.starts_with('.') ||
            (!is_folder &&
             std::ranges::find(endings, lower_case(at->path().extension().string())) == endings.end()))
            continue;
        if (is_folder) name += '/';
        entries.push_back({std::move(name), is_folder});
    }
    const auto recordings = std::ranges::count(entries, false, &FileList::Entry::folder);
    std::ranges::sort(entries, [](const FileList::Entry& a, const FileList::Entry& b) {
        return a.folder != b.folder ? a.folder : a.name < b.name;
    });
    if (recordings > 1) entries.insert(entries.begin(), {std::string(FileList::itself), true});
    if (folder.has_relative_path()) entries.insert(entries.begin(), {"../", true});
    return entries;
}

void show_folder(FileList& list, const fs::path& folder) {
    std::error_code error;
    list.folder = fs::absolute(folder, error).lexically_normal();
    if (!list.folder.has_filename() && list.folder.has_relative_path())
        list.folder = list.folder.parent_path();
    list.entries = entries_of(list.folder, error);
    list.refused = error ? error.message() : "";
    list.input.fill(0);
    list.chosen = 0;
    list.fresh = true;
}

void open_file(App& app, const fs::path& path) {
    app.files.shown = false;
    open_paths(app, {path.string()});
}

}  // namespace

void toggle_file_list(App& app) {
    app.files.shown = !app.files.shown;
    if (!app.files.shown) return;
    std::error_code error;
    const fs::path shown(app.shown_files.first);
    show_folder(app.files,
                shown.empty() ? fs::current_path(error) : fs::absolute(shown, error).parent_path());
}

std::vector<const FileList::Entry*> entries_with(const FileList& list, std::string_view typed) {
    std::vector<const FileList::Entry*> found;
    for (const FileList::Entry& entry : list.entries)
        if (lower_case(entry.name).find(lower_case(typed)) != std::string::npos) found.push_back(&entry);
    return found;
}

void choose_entry(App& app, const FileList::Entry& entry) {
    const fs::path path =
        entry.name == "../" ? app.files.folder.parent_path() : app.files.folder / entry.name;
    if (entry.name == FileList::itself) return open_file(app, app.files.folder);
    if (entry.folder) return show_folder(app.files, path);
    open_file(app, path);
}

void enter_file_list(App& app) {
    FileList& list = app.files;
    const std::string typed(list.input.data());
    const char* home = std::getenv("HOME");
    if (typed.find('/') != std::string::npos || typed.starts_with('~')) {
        const bool at_home = typed.starts_with('~') && home != nullptr;
        // What is absolute stands for itself.
        const fs::path path =
            at_home ? fs::path(home + typed.substr(1)) : (list.folder / typed).lexically_normal();
        std::error_code error;
        if (fs::is_directory(path, error)) return show_folder(list, path);
        return open_file(app, path);
    }
    const auto found = entries_with(list, typed);
    if (!found.empty()) choose_entry(app, *found[std::min(list.chosen, found.size() - 1)]);
}

}  // namespace tilescope::viewer
