#pragma once

#include <optional>
#include <vector>

#include "oracle/heatmap/plane.h"
#include "viewer/session/session.h"
#include "viewer/state/bad_places.h"

namespace tilescope::viewer {

struct RowKinds {
    std::vector<BadPlace> places;
    bool by_tile = false;  ///< of rows whose tiles hold the kind: there are too many pictures to look into
    bool complete = true;  ///< false: the pictures that say what the rows hold are being made; ask again
};

/// find_bad_places(), of whose rows those stay that hold an element of the kind themselves, as the pictures
/// of difference / budget show it. Conflicts are known by tile alone.
RowKinds keep_rows_of_kind(Session& session, const Document& document, const BadList& list);

/// Pictures that are asked for at once: more would push each other out of the session's memory.
inline constexpr std::size_t most_pictures = 32;
/// Whether something of the kind diverges in a part of a picture of difference / budget.
bool diverges(const Summary& found, BadFilter filter);

struct FirstBad {
    bool complete = true;                 ///< false: a picture that says it is being made; ask again
    std::optional<PlaceInPlane> element;  ///< nullopt: not to be found, or in too many pictures
};

/// The first element of a bad row, in order of KV tiles, or of a bad tile, in order of rows, that diverges
/// and is of the list's kind. Where pictures hold blocks of elements, the first of its block.
FirstBad first_bad_element(Session& session, const Document& document, const BadList& list,
                           const BadPlace& place);

}  // namespace tilescope::viewer
