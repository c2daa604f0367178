#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "dump/schema/source_line.h"

namespace tilescope::viewer {

struct App;

/// The file of a hook: where it is, and its lines.
struct SourceText {
    std::string named;           ///< as the recording has it; empty: nothing was looked for
    std::filesystem::path path;  ///< empty: it was not found
    std::vector<std::string> lines;
    std::string refused;  ///< why a file that is there is not shown
};

/// What the Source tab shows.
struct SourceView {
    std::filesystem::path folder;  ///< of --source
    std::string beside;            ///< the recording that `text` was looked for beside
    SourceText text;
    std::size_t chosen = 0;       ///< hook of the stage
    std::size_t scrolled_to = 0;  ///< line that was brought into view
};

/// Folders below which files of hooks are looked for, nearest first: the one of --source alone where it was given, else those
/// that hold the recording, then the working directory and those that hold it.
std::vector<std::filesystem::path> source_folders(const App& app);
/// The file that a hook names: at its path below one of the folders. Files above 4 MiB are refused.
SourceText find_source(const std::vector<std::filesystem::path>& folders, const std::string& named);
/// Hooks that recorded the stage on screen, by file and line.
std::vector<SourceLine> shown_hooks(const App& app);
/// The same for one of them, read once for each recording.
const SourceText& source_of(App& app, const SourceLine& hook);

}  // namespace tilescope::viewer
