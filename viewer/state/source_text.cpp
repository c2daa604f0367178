#include "viewer/state/source_text.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <tuple>

#include "dump/schema/text.h"
#include "viewer/state/app.h"
#include "viewer/state/selection.h"

namespace tilescope::viewer {

namespace {

constexpr std::uintmax_t largest_source = std::uintmax_t(4) << 20;
constexpr std::size_t spaces_of_tab = 4;

/// A line as it is drawn: tabs as spaces, what a terminal does not show as '?'.
std::string shown_line(const std::string& line) {
    std::string text;
    for (const char letter : line) {
        if (letter == '\t')
            text.append(spaces_of_tab - text.size() % spaces_of_tab, ' ');
        else if (letter != '\r')
            text += letter;
    }
    return one_line(text);
}

void read_lines(SourceText& text) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(text.path, error);
    if (error || size > largest_source) {
        text.refused = error ? error.message() : "it is larger than 4 MiB";
        return;
    }
    std::ifstream file(text.path);
    for (std::string line; std::getline(file, line);) text.lines.push_back(shown_line(line));
    if (file.bad() || text.lines.empty()) text.refused = "it cannot be read";
}

void add_with_those_above(std::vector<std::filesystem::path>& folders, std::filesystem::path folder) {
    while (true) {
        if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
        if (folder == folder.parent_path()) return;
        folder = folder.parent_path();
    }
}

}  // namespace

std::vector<std::filesystem::path> source_folders(const App& app) {
    if (!app.source.folder.empty()) return {app.source.folder};
    std::vector<std::filesystem::path> folders;
    std::error_code error;
    const std::filesystem::path recording = std::filesystem::absolute(shown_document(app).path, error);
    if (!error) add_with_those_above(folders, recording.parent_path());
    const std::filesystem::path here = std::filesystem::current_path(error);
    if (!error) add_with_those_above(folders, here);
    return folders;
}

SourceText find_source(const std::vector<std::filesystem::path>& folders, const std::string& named) {
    SourceText text;
    text.named = named;
    for (const std::filesystem::path& folder : folders) {
        std::error_code error;
        if (!std::filesystem::is_regular_file(folder / named, error)) continue;
        text.path = folder / named;
        read_lines(text);
        break;
    }
    return text;
}

std::vector<SourceLine> shown_hooks(const App& app) {
    std::vector<SourceLine> hooks =
        app.shows_declared() ? app.declared.kernel().recorded.stored.hooks(app.declared.stage)
                             : app.document->recording->capture().stages[std::size_t(app.view.stage)].hooks;
    std::ranges::sort(hooks, {}, [](const SourceLine& hook) { return std::tie(hook.file, hook.line); });
    return hooks;
}

const SourceText& source_of(App& app, const SourceLine& hook) {
    SourceView& source = app.source;
    const std::string& path = shown_document(app).path;
    if (source.text.named != hook.file || source.beside != path) {
        source.beside = path;
        source.text = find_source(source_folders(app), hook.file);
        source.scrolled_to = 0;
    }
    return source.text;
}

}  // namespace tilescope::viewer
