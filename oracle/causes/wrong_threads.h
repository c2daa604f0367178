#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "oracle/causes/diagnosis.h"
#include "oracle/causes/pattern.h"

namespace tilescope {

/// How an element fares among those that show who owns what is wrong.
enum class Ownership : std::uint8_t {
    wrong,
    right,
    no_matter  ///< in a tile where all is right, or one that a mistake may leave as it is
};

/// Is given an element by its row and column in its tile.
using ShowOwned = std::function<void(const TileId&, std::int64_t row, std::int64_t col, Ownership)>;
/// Shows each element of some tiles.
using ForEachOwned = std::function<void(const ShowOwned&)>;

/// The threads that own what is wrong: nullopt where all do, where those that do not are few, and where they
/// are no regular part of the block.
std::optional<WrongThreads> wrong_threads(const ThreadMap& map, const ForEachOwned& for_each);

/// The same of the stage that is observed; nullopt where its threads are not declared, too.
std::optional<WrongThreads> wrong_threads(const World& world, const Evidence& evidence);

/// The elements in bad tiles that they own.
Holds owned_by(const World& world, const Evidence& evidence, const WrongThreads& threads);

}  // namespace tilescope
