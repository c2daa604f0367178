// The file of settings that tile-view finds: what it makes of it can be kept, and is the same when it is read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/memory_file.h"
#include "viewer/state/settings.h"

namespace {

using tilescope::viewer::Settings;

// Text that is no UTF-8 is kept as text that is.
bool same(const Settings& a, const Settings& b) {
    bool same = a.recent.size() == b.recent.size() && a.width == b.width && a.height == b.height &&
                a.tile_grid == b.tile_grid && a.mask_edges == b.mask_edges && a.warp_lines == b.warp_lines &&
                a.history == b.history && a.warp_rows == b.warp_rows && a.lane_columns == b.lane_columns &&
                a.shares == b.shares;
    for (std::size_t i = 0; i < a.scales.size(); ++i) {
        const auto& [kind, colours, clip, automatic, low, high] = a.scales[i];
        const auto& other = b.scales[i];
        same = same && kind == other.kind && colours == other.colours && clip == other.clip &&
               automatic == other.automatic && low == other.low && high == other.high;
    }
    return same;
}

/// Where settings are kept; the process ends with it.
std::string kept_file() {
    std::string folder = (std::filesystem::temp_directory_path() / "tilescope-fuzz-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    return folder + "/view.json";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tilescope;
    static const std::string kept = kept_file();
    const fuzz::MemoryFile file("view.json", data, size);
    const Settings settings = viewer::load_settings(file.path());
    viewer::save_settings(kept, settings);
    if (!same(viewer::load_settings(kept), settings)) __builtin_trap();
    return 0;
}
