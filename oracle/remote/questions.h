#pragma once

// What one process asks another of a recording that lies on that one's disk, and what it is answered.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/remote/recording_bytes.h"

namespace tilescope {

enum class Asked : std::uint8_t {
    open,       ///< `path`; the answer is RecordingFacts
    close,      ///< what open gave the number of
    tiles,      ///< of `stage`: for each tile_at(), whether it is there, a byte each
    q_blocks,   ///< for each tile_at() of q, whether anything of it may be there
    tile,       ///< of `count` KV tiles from it on, or fewer where one cannot be read, TilesRead
    writers,    ///< its ElementWriters
    input,      ///< rows of it
    bias,       ///< `count` of them
    reference,  ///< rows of `stage`
    unchanged   ///< an Error where the file has been written to
};

struct Question {
    Asked asked = Asked::open;
    std::int64_t number = 0;  ///< of the recording
    std::string path = {};
    bool is_tried = false;  ///< as open_tried_recording() opens it
    Stage stage = Stage::q;
    Input input = Input::q;
    TileId tile = {};
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t first_key = 0;
    std::int64_t count = 0;
    std::int64_t reference = 0;
};

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Question>
void each_field(Io& io, Of& question) {
    auto& [asked, number, path, is_tried, stage, input, tile, batch, head, row, first_key, count, reference] =
        question;
    io(asked, number, path, is_tried, stage, input, tile, batch, head, row, first_key, count, reference);
}

/// Tiles one after the other.
struct TilesRead {
    std::vector<std::optional<std::vector<float>>> tiles;  ///< nullopt: it is not there
};

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, TilesRead>
void each_field(Io& io, Of& read) {
    io(read.tiles);
}

/// What whoever has not opened the file knows of it.
struct RecordingFacts {
    std::int64_t number = 0;
    Problem problem;
    Units units;
    Provenance provenance;
    CaptureSummary capture;
    ThreadLayouts threads;
    std::array<bool, stage_count> stages{};
    std::array<bool, stage_count> writers{};
    std::array<bool, input_count> inputs{};
    bool has_bias = false;
    SideInputs side_inputs;
    std::vector<ReferenceInfo> references;
};

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, RecordingFacts>
void each_field(Io& io, Of& facts) {
    auto& [number, problem, units, provenance, capture, threads, stages, writers, inputs, has_bias,
           side_inputs, references] = facts;
    io(number, problem, units, provenance, capture, threads, stages, writers, inputs, has_bias, side_inputs,
       references);
}

}  // namespace tilescope
