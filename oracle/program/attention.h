#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/program/evaluate.h"

namespace tilescope {

/// What splits are merged from. Both are the same number, and mistakes that kernels make in one of them are none of the other's.
enum class MergedFrom : std::uint8_t {
    outputs,  ///< o and lse of each split
    states    ///< its m, l and acc
};

/// Attention as a recording declares it, forward or backward, as the text of a program: its stages are those of the
/// recording, in its units. nullopt: something that the language has no words for, which `why` says; of splits that are merged from
/// states, what the declaration says of their outputs.
struct AttentionProgram {
    std::optional<std::string> text;
    std::string why;
};
AttentionProgram attention_program(const Recording& recording, MergedFrom merged_from = MergedFrom::outputs);

/// The inputs of the call that a recording holds, in memory of its own.
struct AttentionInputs {
    std::map<std::string, ProgramInput> inputs;
    std::map<std::string, std::int64_t> sizes;
    std::vector<std::vector<float>> memory;
};
AttentionInputs attention_inputs(const Recording& recording);

/// The tiles of a recording as those of its program: what was not captured is not known, and what was not written is NaN.
class RecordedAttention final : public StoredTiles {
 public:
    /// Both must outlive it.
    RecordedAttention(const Recording& recording, const Program& program);

    bool has(int stage) const override;
    void read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const override;

    /// Where an element of a stage stands in the recording. `at`: its indices; `block`: of a state, otherwise -1.
    struct Place {
        TileId id;
        std::int64_t row;
        std::int64_t col;
    };
    Place place_of(Stage stage, std::span<const std::int64_t> at, std::int64_t block) const;

 private:
    const std::vector<float>& tile_of(Stage stage, const TileId& id) const;

    const Recording& recording_;
    std::vector<Problem> entries_;              ///< of each batch entry
    std::vector<std::optional<Stage>> stages_;  ///< as Program::arrays
    mutable std::mutex reading_;                ///< tiles are asked for from several threads
    mutable std::map<std::pair<Stage, TileId>, std::vector<float>> tiles_;
};

}  // namespace tilescope
