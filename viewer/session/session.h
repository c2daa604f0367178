#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/heatmap/detail.h"
#include "oracle/heatmap/heatmap_image.h"
#include "oracle/heatmap/histogram.h"
#include "oracle/heatmap/pixel_history.h"
#include "oracle/heatmap/plane.h"
#include "oracle/heatmap/pyramid.h"
#include "oracle/heatmap/quantity.h"
#include "oracle/heatmap/row_trace.h"
#include "oracle/heatmap/tile_map.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/judge/report.h"
#include "viewer/session/declared.h"
#include "viewer/session/file_stamp.h"

namespace tilescope {
struct DriftRows;
}  // namespace tilescope

namespace tilescope::viewer {

struct SessionOptions {
    CompareOptions compare;
    bool search_causes = true;
    int threads = 0;                                       ///< that judge; 0: as many as there are cores
    std::int64_t picture_bytes = std::int64_t(256) << 20;  ///< of pyramids that are kept
    std::int64_t detail_bytes = std::int64_t(96) << 20;    ///< of detail tiles that are kept
};

/// What the report does not hold: how every tile fares against what the inputs alone give.
struct EndToEnd {
    explicit EndToEnd(const Problem& problem) : map(problem) {}
    TileMap map;
    std::array<std::vector<BadRow>, stage_count> bad_rows;
};

/// An open recording. Few members change: `map` fills up while tiles are judged, `report` and `end_to_end` are null
/// until all are, and `diagnosis` and `mistakes` are null until the causes were searched after that.
struct Document {
    std::string path;
    std::string other;              ///< compared with; empty: the oracle
    bool of_run = false;            ///< it was opened as a part of a run of several ranks
    std::vector<FileStamp> stamps;  ///< of both files, before they were opened
    std::shared_ptr<const Recording> recording;
    std::shared_ptr<const Recording> other_recording;
    std::shared_ptr<const Report> report;
    std::shared_ptr<const TileMap> map;
    std::shared_ptr<const EndToEnd> end_to_end;  ///< null until the report is there, and of two recordings
    std::shared_ptr<const Diagnosis> diagnosis;
    std::shared_ptr<const DeclaredKernel>
        declared;  ///< in place of all of these, of a kernel that is no attention
    std::shared_ptr<const FoundMistakes> mistakes;  ///< of that
    std::uint64_t generation = 0;                   ///< a number of its own for each opening

    const Problem& problem() const { return recording->problem(); }
    bool pair() const { return other_recording != nullptr; }
    /// Of the local one until the other is there.
    const TileMap& map_of(Reference against) const {
        return against == Reference::end_to_end && end_to_end != nullptr ? end_to_end->map : *map;
    }
    /// Those of the first wrong stage, then further ones; null past the last.
    const FoundCause* cause(std::size_t index) const;
};

/// What a frame says at the bottom.
struct Status {
    std::string message;     ///< what is done right now; empty: nothing
    double progress = 0;     ///< of it, 0 to 1
    std::string error;       ///< one line, as tile-diff prints it, without its name; until the next open() or
                             ///< dismiss_error()
    bool searching = false;  ///< causes are searched, or will be
    bool never_searches = false;  ///< as SessionOptions say
    bool idle = true;             ///< everything that panels asked for is there
    bool changed = false;         ///< a file was replaced, written or removed since it was opened
    bool gone = false;            ///< a file is not there any more
    bool written_over = false;    ///< a file was changed without being replaced: nothing more is read from it
    /// Rises when a changed file has stayed the same for a moment, so that it may be read again.
    std::uint64_t settled_changes = 0;
};

/// Opens recordings and prepares what frames show, in threads of its own. No function waits for a file or the
/// oracle: a request returns what is there already, and its threads compute the rest; the panels ask again
/// with every frame. Functions are called from one thread.
class Session {
 public:
    explicit Session(SessionOptions options = {});
    ~Session();  ///< cancels
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Opens and judges. What was open before stays until the new one can be shown, and comes back where it
    /// cannot be judged.
    void open(const std::string& path, const std::string& other = "");
    /// The same of a recording that is open already, of the file at `path`, as a part of its run.
    void open_part(const std::string& path, std::shared_ptr<const Recording> recording);
    /// Not of a part of a run.
    void reload();
    /// Stops everything that runs and drops what waits. A recording that was not judged yet stays without a
    /// report, and one whose causes were not found yet without them, until reload(). The panels go on asking
    /// for what they show with every frame: those same requests do not start the work again, and half-filled
    /// pictures stay half-filled. The first request for anything else (the user goes somewhere) starts all of
    /// it again.
    void cancel();
    void dismiss_error();

    Status status() const;
    /// Null before the first recording is open.
    std::shared_ptr<const Document> document() const;

    /// Chooses the cause that "replayed" and "unexplained" show; the first one, until this is called.
    void choose_cause(std::size_t index);

    /// Null where the document does not hold the stage, for "replayed" and "unexplained" where the chosen
    /// cause has no replay of the stage, and for what is against the inputs alone of two recordings. The newest request is served first.
    std::shared_ptr<const Pyramid> request(const Plane& plane, Quantity quantity);
    /// The tiles that `elements` touches and that are there; the others are computed, those in the middle
    /// first, and the newest rectangle before the others.
    DetailTiles request_detail(const Plane& plane, Quantity quantity, const Rect& elements);
    /// Null until it is there. So are those below.
    std::shared_ptr<const RowTrace> request_row(std::int64_t batch, std::int64_t head, std::int64_t row);
    std::shared_ptr<const PixelHistory> request_history(const HistoryPlace& place);
    std::shared_ptr<const DriftRows> request_drift(std::int64_t batch, std::int64_t head);
    /// What tile-diff --explain-tolerance says of an element, named as there; or why it says nothing.
    std::shared_ptr<const std::string> request_explanation(const std::string& element);
    /// Who wrote the elements of a tile of which the recording says so, padding included.
    std::shared_ptr<const std::vector<ElementWriter>> request_writers(Stage stage, const TileId& tile);
    std::shared_ptr<const Histogram> request_histogram(const Plane& plane, const Rect& elements,
                                                       Reference against = Reference::local);

    /// Of a declared kernel, by the generation of its document; null until they are there, and where another one is open.
    std::shared_ptr<const StageValues> request_values(std::uint64_t generation,
                                                      const StageQuestion& question);
    std::shared_ptr<const Pyramid> request_sheet(std::uint64_t generation, const SheetQuestion& question);
    std::shared_ptr<const Histogram> request_histogram(std::uint64_t generation, const SheetPart& part);

    /// Changes whenever something new can be shown: as long as it is the same, the last frame is up to date.
    std::uint64_t version() const;

 private:
    class Work;
    std::unique_ptr<Work> work_;
};

}  // namespace tilescope::viewer
