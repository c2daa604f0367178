#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "viewer/session/file_stamp.h"

namespace tilescope::viewer {

struct App;

/// A folder whose new recordings are shown as they appear.
struct Watch {
    std::string folder;                         ///< empty: none is watched
    std::vector<std::string> recordings;        ///< the last ones, oldest first
    std::size_t shown = 0;                      ///< of them; their count where it was removed
    std::map<std::string, FileStamp> seen;      ///< as they were when the folder was looked at last
    std::map<std::string, FileStamp> shown_as;  ///< as they were when they were taken up
    double looked = 0;                          ///< when, in seconds
    bool begun = false;

    static constexpr std::size_t most = 16;  ///< recordings that are kept
};

/// Looks into the folder, a few times a second. A file that has come, or was written anew, and then stayed the same from one look
/// to the next is opened; true where one was. Errors: Error where there is no such folder when it is looked at first.
bool look_for_recordings(App& app, double now);
/// To the recording before (-1) or after (1).
void walk_recordings(App& app, int step);

}  // namespace tilescope::viewer
