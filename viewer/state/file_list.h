#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope::viewer {

struct App;

/// The dialog that opens a recording: folders and recordings of one folder, of which typing leaves fewer.
struct FileList {
    struct Entry {
        std::string name;  ///< of a folder with a slash at its end
        bool folder = false;
    };

    /// Name of the entry that opens all recordings of the folder, as a run of several ranks.
    static constexpr std::string_view itself = "./";

    bool shown = false;
    std::filesystem::path folder;
    std::vector<Entry> entries;  ///< the folder above, the folder itself, then folders and recordings by name
    std::string refused;         ///< why the folder could not be read
    std::array<char, 512> input{};
    std::size_t chosen = 0;  ///< of those that are left
    bool fresh = false;      ///< the folder was not drawn yet
};

/// Opens the dialog in the folder of the recording that is shown, else in the working directory; closes it where it is open.
void toggle_file_list(App& app);
/// Those whose names hold what was typed, whatever the case of its letters.
std::vector<const FileList::Entry*> entries_with(const FileList& list, std::string_view typed);
/// Goes into a folder, or opens a recording and closes the dialog.
void choose_entry(App& app, const FileList::Entry& entry);
/// Takes what was typed for a path where it has a slash or begins with ~, else the chosen entry.
void enter_file_list(App& app);

}  // namespace tilescope::viewer
