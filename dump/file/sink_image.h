#pragma once

// The memory of a running kernel's sink, kept in the file: dataset /capture/sink.

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dump/file/check.h"
#include "dump/file/output.h"
#include "dump/recording.h"
#include "dump/recording/capture_plan.h"

namespace tilescope::hdf5 {

/// A multiple of the pages of every machine with a GPU.
inline constexpr std::size_t sink_alignment = std::size_t(1) << 16;

/// Behind the image: how the run ended, filled with zeros; nothing but zeros while it runs.
inline constexpr std::size_t sink_ending_bytes = 256;

/// Makes `access` place the image at a multiple of sink_alignment. Errors: Failure.
void align_sink_image(hid_t access, const SinkRoom& room);
/// Sets room.offset. Errors: Failure.
void create_sink_image(hid_t file, SinkRoom& room);

/// An image whose declarations have been checked against the file and the plan. Its tiles are read when asked
/// for: another process may be writing them.
class SinkImage {
 public:
    /// Puts what its counters say and how the run ended into `capture`. Errors: Error for counters and tables
    /// that are not the plan's, and a file that has become shorter.
    SinkImage(CapturePlan plan, const StoredArray& image, const InputFile& file, CaptureSummary& capture);

    /// Reads a tile. False, with `out` left alone, when nothing of it was written. Errors: Error when the
    /// file has become shorter.
    bool read_tile(const InputFile& file, Stage stage, const TileId& tile, std::span<float> out) const;

 private:
    void check_tables(std::span<const std::byte> head, const Sink& sink) const;
    void read(const InputFile& file, std::int64_t offset, std::span<std::byte> out) const;

    CapturePlan plan_;
    std::string where_;
    std::int64_t offset_ = 0;
    std::array<std::int64_t, stage_count> tiles_ = {};  ///< where a stage's tiles begin, in the image
};

/// Opens the image; null when the file has none. `tiles_stored` is what the datasets of the stages hold,
/// `capture` what the file's attributes say. Errors: as SinkImage, and Error for an image of another problem
/// or selection than the file's, and for tiles beside it.
std::unique_ptr<SinkImage> open_sink_image(const InputFile& file, const Problem& problem,
                                           const std::array<std::int64_t, stage_count>& tiles_stored,
                                           CaptureSummary& capture);

}  // namespace tilescope::hdf5
