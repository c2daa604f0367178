#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dump/recording.h"
#include "oracle/judge/report.h"
#include "oracle/runs/pattern.h"

namespace tilescope {

/// "3", "16-31", "0, 8, 16, 24", "0-1 of every 4": those that own what is wrong.
std::string numbers_of(const ThreadSet& set);

/// What an element says about the thread that owns it.
enum class Ownership : std::uint8_t {
    wrong,
    right,
    no_matter  ///< nothing: its tile is right throughout, or a mistake may leave this value as it is
};

/// Is given an element by its row and column in its tile.
using ShowOwned = std::function<void(const TileId&, std::int64_t row, std::int64_t col, Ownership)>;
/// Shows each element of some tiles.
using ForEachOwned = std::function<void(const ShowOwned&)>;

/// The threads that own what is wrong. Nullopt where that says nothing: all threads own some of it, nearly
/// all do, or those that do are no regular part of the block.
std::optional<WrongThreads> wrong_threads(const ThreadMap& map, const ForEachOwned& for_each);

/// The same of the stage of these tiles; nullopt where its threads are not declared, too.
std::optional<WrongThreads> wrong_threads(const Recording& recording, const SeenTiles& seen);

/// "every wrong element belongs to lane 5 of every warp", of the guilty stage. "" where most threads are among them, or where
/// one run of rows says as much.
std::string threads_sentence(const Report& report, const WrongThreads& threads);

/// The elements in bad tiles that they own.
Holds owned_by(const Recording& recording, Stage stage, const WrongThreads& threads);

}  // namespace tilescope
