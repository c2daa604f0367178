#include "oracle/runs/pattern.h"

#include <cmath>

namespace tilescope {

namespace {

/// How often a pattern is right.
struct Agreement {
    std::int64_t agree = 0;
    std::int64_t missed = 0;  ///< wrong elements outside
    std::int64_t all = 0;

    void add(bool inside, bool wrong, bool tells, std::int64_t wrong_elements) {
        if (inside && !tells) return;
        agree += inside == wrong;
        missed += inside ? 0 : wrong_elements;
        ++all;
    }
};

bool tells_anywhere(const SeenTile& seen) {
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
            if (tells(seen, i, j)) return true;
    return false;
}

}  // namespace

bool is_computed_nan(float got) {
    return std::isnan(got) && !is_unwritten(got);
}

bool tells(const SeenTile& seen, Eigen::Index row, Eigen::Index col) {
    const double expected = seen.expected.value(row, col);
    return seen.is_wrong(row, col) || (std::isfinite(expected) && expected != 0);
}

double agreement(const SeenTiles& all, const Holds& holds, bool of_tiles) {
    Agreement found;
    for (const SeenTile* const tile : all.tiles) {
        const SeenTile& seen = *tile;
        if (of_tiles) {
            found.add(holds(seen, 0, 0), seen.is_bad(), tells_anywhere(seen), seen.wrong_elements);
            continue;
        }
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const bool wrong = seen.is_wrong(i, j);
                found.add(holds(seen, i, j), wrong, tells(seen, i, j), wrong);
            }
        }
    }
    const bool covers = found.missed * 100 <= all.wrong_elements;
    return covers && found.all > 0 ? double(found.agree) / double(found.all) : 0;
}

}  // namespace tilescope
