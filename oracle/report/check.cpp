#include "oracle/check.h"

#include <exception>

#include "oracle/causes/suggest.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"

namespace tilescope {

Checked check(const Recording& recording) try {
    Report report = judge(recording, {});
    report.diagnosis = causes_and_declarations(recording, report);
    return {report.verdict == Verdict::match ? 0 : 1, readable(to_text(report))};
} catch (const NoVerdict& unjudged) {
    return {2, readable(to_text(unjudged.report()))};
} catch (const std::exception& error) {
    return {2, one_line(error.what())};
}

}  // namespace tilescope
