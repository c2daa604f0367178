#pragma once

#include <vector>

#include "oracle/heatmap/worst.h"
#include "oracle/judge.h"
#include "oracle/report/formats.h"

namespace tilescope {

/// Pictures for a report: the first wrong stage or, where nothing is wrong, the stage that is closest to its budget. Everything
/// must outlive it.
class ExhibitFinder {
 public:
    ExhibitFinder(const Recording& recording, const Recording* other, const CompareOptions& options)
        : recording_(recording), other_(other), options_(options) {}

    /// For JudgeOptions::observe of the call that makes the report.
    TileObserver observer();
    /// Collective: of what the observers of all processes were shown.
    void fold_what_it_saw(WorkSharing& sharing) { worst_.fold(sharing); }

    /// None where every bit is as expected. Errors: as judge() for what cannot be read.
    std::vector<ReportPicture> pictures(const Report& report, const JudgeOptions& options) const;

 private:
    const Recording& recording_;
    const Recording* other_;
    CompareOptions options_;
    WorstElement worst_;
    ObservedTileFunction observe_;
};

}  // namespace tilescope
