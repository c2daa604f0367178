// The extension module tilescope._core: what tile-diff does, on recordings that Python hands in.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>

#include "dump/python/hook_buffers.h"
#include "dump/python/recordings.h"
#include "dump/recording.h"
#include "dump/schema/text.h"
#include "oracle/causes/suggest.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/judge.h"
#include "oracle/python/programs.h"
#include "oracle/report/npy.h"
#include "oracle/report/text.h"

namespace nb = nanobind;

namespace tilescope {

namespace {

/// Set from another Python thread, to end a search that goes on without the interpreter.
struct Cancel {
    std::atomic<bool> asked = false;

    void check() const {
        if (asked) throw std::runtime_error("cancelled");
    }
};

/// A report, as C++ has it and as Python reads it.
struct Judged {
    Report report;
    std::string text;
    std::string json;
};

Judged as_judged(Report report) {
    std::string text = readable(to_text(report));
    std::string json = to_json(report);
    return {std::move(report), std::move(text), std::move(json)};
}

Judged judge_fully(const Recording& recording, bool causes, bool search_all, int threads,
                   const Cancel& cancel) {
    JudgeOptions options;
    options.threads = threads;
    options.progress = [&](std::int64_t, std::int64_t) { cancel.check(); };
    try {
        Report report = judge(recording, options);
        if (causes) {
            CauseOptions search;
            search.threads = threads;
            if (search_all) search.effort = Effort::unbounded;
            search.check = [&] { cancel.check(); };
            report.diagnosis = causes_and_declarations(recording, report, search);
        }
        recording.require_unchanged();
        return as_judged(std::move(report));
    } catch (const NoVerdict& unjudged) {
        return as_judged(unjudged.report());
    }
}

NB_MODULE(_core, module) {
    // What an exception that nobody caught keeps alive at the end of the program is no mistake of it.
    nb::set_leak_warnings(false);
    module.attr("version") = TILESCOPE_VERSION;
    bind_recordings(module);
    bind_hook_buffers(module);
    bind_programs(module);

    nb::class_<Cancel>(module, "Cancel").def(nb::init<>()).def("ask", [](Cancel& cancel) {
        cancel.asked = true;
    });

    nb::class_<Judged>(module, "Judged")
        .def_ro("text", &Judged::text)
        .def_ro("json", &Judged::json)
        .def("write_arrays",
             [](const Judged& judged, const std::string& directory, const Recording& recording) {
                 write_npy(directory, judged.report, recording, nullptr, {});
             })
        .def("write_heatmaps",
             [](const Judged& judged, const std::string& directory, const Recording& recording) {
                 write_heatmaps(directory, judged.report, recording, nullptr, {});
             });

    module.def("judge", &judge_fully, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

}  // namespace tilescope
