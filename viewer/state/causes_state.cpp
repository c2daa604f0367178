#include "viewer/state/causes_state.h"

#include <fmt/format.h>

namespace tilescope::viewer {

const FoundCause* chosen_cause(const App& app) {
    return app.document != nullptr ? app.document->cause(app.view.cause) : nullptr;
}

bool may_find_causes(const App& app) {
    const bool being_judged = app.document->report == nullptr && !app.status.message.empty();
    return being_judged || app.status.searching;
}

std::string why_no_causes(const App& app) {
    const Document& document = *app.document;
    if (document.pair()) return "two recordings: nothing says which of them is wrong";
    if (document.report == nullptr) return app.status.message.empty() ? "not judged" : "being judged";
    if (document.diagnosis == nullptr && app.status.never_searches)
        return "no causes are searched (--no-causes)";
    if (document.diagnosis == nullptr)
        return app.status.searching ? "looking for the cause" : "the search was stopped; F5 starts it again";
    if (!document.report->guilty) return "nothing diverges";
    if (!document.diagnosis->searched) return "no causes are known of this stage";
    return document.cause(0) == nullptr ? "no known cause explains this" : "";
}

std::string why_no_replay(const App& app, Stage stage) {
    const FoundCause* cause = chosen_cause(app);
    if (cause == nullptr) return "nothing is replayed: " + why_no_causes(app);
    if (cause->changes == nullptr)
        return fmt::format("{}: only its places are known, nothing can be replayed", headline_of(*cause));
    const Stage shown = cause->observed;
    return shown == stage ? "" : fmt::format("the replay is of {}", stage_info(app.problem(), shown).name);
}

void choose_cause(App& app, std::size_t index) {
    app.view.cause = index;
    app.session.choose_cause(index);
    const FoundCause* cause = chosen_cause(app);
    const Stage stage = cause->changes != nullptr ? cause->observed : cause->stage;
    if (app.view.stage != stage && app.has(stage)) select_stage(app, stage);
}

void walk_causes(App& app, int step) {
    if (!is_shown(app, Tab::causes)) {
        app.notice = why_no_causes(app);
        return;
    }
    if (app.view.tab != Tab::causes) {
        app.view.tab = Tab::causes;
        return;
    }
    std::size_t count = 0;
    while (app.document->cause(count) != nullptr) ++count;
    if (count == 0) return;
    choose_cause(app, (app.view.cause + count + std::size_t(std::ptrdiff_t(step))) % count);
}

}  // namespace tilescope::viewer
