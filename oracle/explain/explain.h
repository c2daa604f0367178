#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/budget_terms.h"
#include "oracle/judge/tally.h"

namespace tilescope {

/// One element of a recording. `row` is a q row (a key for k and v) and `col` a column of the whole tensor.
struct ElementPlace {
    Stage stage = Stage::q;
    TileId tile;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

/// Of STAGE,BATCH,HEAD,ROW,COL[,KV_TILE], for k and v [,Q_BLOCK]. Without KV_TILE, m, l and acc are those of
/// the last tile that the row's block sees. Errors: Error for wrong text, and for coordinates that the
/// recording's problem does not have; it names `where`, or --explain-tolerance.
ElementPlace element_place(const Recording& recording, const std::string& text, const std::string& where);
ElementPlace element_place(const Recording& recording, const std::string& text);

/// What the tolerance of one element is made of.
struct Explanation {
    Stage stage = Stage::q;
    Problem problem;
    ThreadLayouts threads;
    Element element;  ///< in the dump's units
    bool written = true;
    double lambda = 0;
    double confidence = 0;
    BudgetTerms terms;  ///< they add up to the tolerance
};

/// Judges one element as judge() does, stage-local, and takes its tolerance apart. Errors: Error where the
/// recording cannot be judged or does not hold the element's tile.
Explanation explain_tolerance(const Recording& recording, const ElementPlace& place,
                              double confidence = default_confidence);

/// For a terminal: at most 30 lines of 110 columns.
std::string to_text(const Explanation& explanation);

}  // namespace tilescope
