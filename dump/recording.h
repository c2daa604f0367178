#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dump/schema.h"
#include "dump/schema/comparison.h"
#include "dump/schema/element_writer.h"
#include "dump/schema/error.h"
#include "dump/schema/selection.h"
#include "dump/schema/side_inputs.h"
#include "dump/schema/source_line.h"
#include "dump/schema/span.h"
#include "dump/schema/thread_layout.h"

namespace tilescope {

/// Who made the recording, on what, and how. Empty strings where unknown.
struct Provenance {
    std::string producer;
    std::string kernel;
    std::string device;
    std::string compute_capability;
    std::string cuda_version;
    std::string launch;   ///< grid, block and dynamic shared memory
    std::string command;  ///< command line that records it again
    std::string time;     ///< ISO 8601, UTC
    std::string run;      ///< the same in all shards of a run on several ranks
    std::string poison;  ///< the word that shared memory was filled with before the kernel; empty: nobody did
};

/// A capture may drop more tiles than a list can hold.
inline constexpr std::int64_t max_listed_dropped = 65536;

/// Where a hook tried to write: tile, row and column as the kernel gave them, which the problem may not have.
struct OutOfRange {
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;

    TILESCOPE_EQUALITY(OutOfRange);
};

/// What the capture of a stage had no room for, and which elements were written again with other bits.
struct StageCapture {
    struct Conflict {
        TileId tile;
        std::int64_t elements = 0;  ///< writes that changed an element already written
    };
    std::vector<Conflict> conflicts;
    /// Tiles that were selected but had no room, the first max_listed_dropped of them; empty when nothing was
    /// written to such a tile.
    std::vector<TileId> dropped;
    std::int64_t elements_dropped = 0;       ///< writes to any tile that had no room
    std::int64_t elements_out_of_range = 0;  ///< writes at coordinates that the problem does not have
    /// One of them, as its hook got it; nullopt where there is none or the producer does not say.
    std::optional<OutOfRange> first_out_of_range;
    std::vector<SourceLine> hooks;  ///< that recorded something of the stage, in order of file and line
};

/// CaptureSummary::ended of a run that did not end: its process was killed, or it still runs.
inline constexpr const char* ended_running = "running";

struct CaptureSummary {
    /// Which tiles were to be recorded. Nullopt: the producer did not say; a tile that is not stored then
    /// counts as one that was not to be recorded, and not as one that is missing.
    std::optional<Selection> selection;
    std::string ended = "completed";  ///< or ended_running, or the error the run ended with
    std::array<StageCapture, stage_count> stages;
};

/// What the kernel reads. The last three are those of a backward pass: the gradient of o, and the outputs of
/// the forward pass before it.
enum class Input : std::uint8_t { q, k, v, dout, o, lse };

inline constexpr int input_count = 6;

/// Whether a recording of that direction cannot be judged without the input. The backward pass can do without
/// o where it recorded delta.
constexpr bool requires_input(Direction direction, Input input) {
    if (input <= Input::v) return true;
    return direction == Direction::backward && input != Input::o;
}

/// Outputs of another implementation on the same inputs.
struct ReferenceInfo {
    std::string name;
    bool has_o = false;
    bool has_lse = false;
    Dtype dtype_o = Dtype::f32;  ///< type in which it stored o
    LogBase lse_log_base = LogBase::e;

    bool has(Stage stage) const { return (stage == Stage::o && has_o) || (stage == Stage::lse && has_lse); }
    TILESCOPE_EQUALITY(ReferenceInfo);
};

/// Whoever judges reads the KV tiles of so many query blocks, one after the other, side by side: what a reader keeps of one for
/// the next tile it keeps of each of them.
inline constexpr std::int64_t q_blocks_side_by_side = 4;

/// What one run of a kernel left behind, wherever it is kept: in memory or in a file.
/// The const functions may be called from several threads.
class Recording {
 public:
    Recording() = default;
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    virtual ~Recording() = default;

    virtual const std::string& name() const = 0;  ///< for messages: the file's path
    virtual const Problem& problem() const = 0;
    virtual const Units& units() const = 0;
    virtual const Provenance& provenance() const = 0;
    virtual const CaptureSummary& capture() const = 0;
    /// Which threads own the elements of which stage, valid for the problem; nothing where not declared.
    virtual const ThreadLayouts& threads() const;

    /// Whether anything of `stage` was recorded.
    virtual bool has_stage(Stage stage) const = 0;
    virtual bool has_tile(Stage stage, const TileId& tile) const = 0;
    /// False only where nothing of the query block was recorded; true may be wrong. Reads no tile.
    virtual bool may_hold(const TileId& /*q_block*/) const { return true; }
    /// Reads a whole tile, row-major, padding included, as float32. `out` holds tile_shape().elements().
    /// Returns false, and leaves `out` alone, when the tile was not recorded. Errors: Error for a damaged
    /// file.
    virtual bool read_tile(Stage stage, const TileId& tile, Span<float> out) const = 0;

    /// Whether the recording says which thread wrote each element of `stage`.
    virtual bool has_writers(Stage /*stage*/) const { return false; }
    /// As read_tile(): for each element the thread whose hook wrote it first, and how many writes came.
    /// Padding has no writer.
    virtual bool read_writers(Stage /*stage*/, const TileId& /*tile*/, Span<ElementWriter> /*out*/) const {
        return false;
    }

    virtual bool has_input(Input input) const = 0;
    /// Whether it has every input that its direction requires.
    bool has_inputs() const;
    /// Reads rows [row, row + count) of one head, row-major, as the exact float32 values without descales;
    /// `head` counts KV heads for k and v. A row of lse is one number, in the units of lse_log_base. Rows
    /// count within the batch entry, wherever they lie: padded, packed one entry after the other, or in
    /// pages. Errors: Error for a damaged file.
    virtual void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                            std::int64_t count, Span<float> out) const = 0;

    virtual const SideInputs& side_inputs() const = 0;
    virtual bool has_bias() const = 0;
    /// Reads the bias of keys [first_key, first_key + out.size()) for q row `row`, in natural units.
    virtual void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                           Span<float> out) const = 0;

    /// Errors: Error when what it reads from has been written to since it was opened.
    virtual void require_unchanged() const {}

    virtual Span<const ReferenceInfo> references() const { return {}; }
    /// Reads rows [row, row + count) of output `stage`, o or lse, of one head of a reference, as the exact
    /// float32 values. Errors: Error for what the reference does not have, and for a damaged file.
    virtual void read_reference(std::size_t /*index*/, Stage /*stage*/, std::int64_t /*batch*/,
                                std::int64_t /*head*/, std::int64_t /*row*/, std::int64_t /*count*/,
                                Span<float> /*out*/) const {
        throw Error("holds no references", name(), "ask only for those of references()");
    }

 protected:
    Recording(Recording&&) = default;
};

}  // namespace tilescope
