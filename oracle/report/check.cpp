#include "oracle/check.h"

#include <exception>

#include "oracle/causes/find_causes.h"
#include "oracle/causes/suggest.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"

namespace tilescope {

Checked check(const Recording& recording) try {
    Report report = judge(recording, {});
    if (report.verdict == Verdict::diverged) {
        report.diagnosis = find_causes(recording, report, {});
        report.diagnosis.suggestion = suggest_declarations(recording, report, 0);
    }
    return {report.verdict == Verdict::match ? 0 : 1, readable(to_text(report))};
} catch (const NoVerdict& unjudged) {
    return {2, readable(to_text(unjudged.report()))};
} catch (const std::exception& error) {
    return {2, one_line(error.what())};
}

}  // namespace tilescope
