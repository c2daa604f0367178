#include "viewer/state/declared_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "oracle/describe/changed_slot.h"
#include "viewer/state/app.h"

namespace tilescope::viewer {

namespace {

/// As DeclaredState counts.
constexpr std::array state_words = {
    DeclaredWord{"right", "all of it is within its tolerances"},
    DeclaredWord{"-", "not stored: it is computed along, from the stages before it"},
    DeclaredWord{"not judged", "stored, and no tolerance tells anything of it"},
    DeclaredWord{"inherited", "right, given the stages before it as they were stored, and wrong end to end"},
    DeclaredWord{"wrong too", "wrong by itself as well, given the stages before it as they were stored"},
    DeclaredWord{"guilty", "the first stage that is wrong, given the stages before it as they were stored"},
};

std::string assigned(const Program& program, int stage, bool is_said_of_stage, const std::string& formula) {
    return fmt::format("{}{}{}", program.array(stage).name, is_said_of_stage ? " " : " = ", formula);
}

MistakeWords words_of(const Program& program, const FoundMistakes& found, const ProgramMistake& mistake) {
    const ProgramArray& array = program.array(mistake.stage);
    MistakeWords words;
    words.stage = mistake.stage;
    words.declared =
        mistake.is_start
            ? assigned(program, mistake.stage, true, "from " + program_text(program, array.start))
            : assigned(program, mistake.stage, false, program_text(program, array.value));
    words.instead = assigned(program, mistake.stage, is_said_of_stage(mistake), mistake.becomes);
    if (!mistake.where.empty()) words.instead += ", where " + mistake.where;
    words.is_perhaps = is_mostly_open(mistake);
    const std::vector<ChangedSlot> slots = slots_of(found, mistake);
    if (!slots.empty()) {
        words.says = said_of(slots);
        words.look_at = look_at_of(slots);
    }
    words.evidence = evidence_text(mistake);
    return words;
}

std::string healthy_headline(const ProgramReport& report) {
    std::int64_t compared = 0;
    std::int64_t not_judged = 0;
    double closest = 0;
    for (const StageVerdict& verdict : report.stages) {
        compared += verdict.compared;
        not_judged += verdict.not_judged;
        closest = std::max(closest, verdict.budget_used);
    }
    std::string line =
        fmt::format("match: {} elements of {} stage{}, at most {:.3g} of their tolerance", compared,
                    report.stages.size(), report.stages.size() == 1 ? "" : "s", closest);
    if (not_judged > 0) line += fmt::format("; {} are not judged", not_judged);
    return line;
}

}  // namespace

std::vector<MistakeWords> mistakes_of(const Document& document) {
    if (document.mistakes == nullptr) return {};
    std::vector<MistakeWords> words;
    const auto add = [&](const FoundMistakes& found) {
        for (const ProgramMistake& mistake : found.mistakes)
            words.push_back(words_of(document.declared->program(), found, mistake));
    };
    add(*document.mistakes);
    for (const FoundMistakes& other : document.mistakes->then) add(other);
    return words;
}

std::string why_no_mistakes(const App& app) {
    const Document& document = *app.declared.document;
    if (document.declared->report().first_wrong < 0) return "nothing diverges: there is nothing to explain";
    if (document.mistakes == nullptr) {
        if (app.status.never_searches) return "mistakes are not looked for: --no-causes";
        return app.status.searching ? "looking for what explains it"
                                    : "the search was cancelled, F5 begins it again";
    }
    if (!document.mistakes->mistakes.empty()) return "";
    const std::string& where = document.mistakes->wrong_where;
    return std::string(document.mistakes->is_cut_off ? "nothing was found before the search was cut off"
                                                     : "no change of a formula explains it") +
           (where.empty() ? ""
                          : fmt::format(": it is {} where {}, and right elsewhere",
                                        word_of_wrong(*document.mistakes), where));
}

std::string heading_of(const Program& program, int stage) {
    const ProgramArray& array = program.array(stage);
    std::string axes;
    for (const int index : array.indices)
        axes += (axes.empty() ? "" : ", ") + program.axes[std::size_t(program.axis_of(index))].name;
    std::string text = array.name + (axes.empty() ? "" : "[" + axes + "]");
    if (array.over >= 0)
        text += fmt::format(" over {}{}", program.axes[std::size_t(array.over)].name,
                            array.backwards ? " backwards" : "");
    return fmt::format("{}: {}", text, dtype_info(array.dtype).name);
}

std::string formula_of(const Program& program, int stage) {
    const ProgramArray& array = program.array(stage);
    std::string text = program_text(program, array.value);
    if (array.start >= 0) text += " from " + program_text(program, array.start);
    return text;
}

std::string extents_text(const ProgramCall& call) {
    std::string text;
    for (std::size_t i = 0; i < call.extents.size(); ++i) {
        text += fmt::format("{}{} {}", text.empty() ? "" : "  ", call.program.axes[i].name, call.extents[i]);
        if (call.blocks[i] < call.extents[i]) text += fmt::format(" by {}", call.blocks[i]);
    }
    return text;
}

std::string declared_headline(const App& app) {
    const Document& document = *app.declared.document;
    const ProgramReport& report = document.declared->report();
    if (report.first_wrong < 0) return healthy_headline(report);
    const StageVerdict& verdict = report.verdict_of(report.first_wrong);
    const std::string wrong = fmt::format("{} is wrong in {} of {} elements",
                                          document.declared->program().array(report.first_wrong).name,
                                          verdict.outside, verdict.compared);
    const std::vector<MistakeWords> found = mistakes_of(document);
    if (found.empty()) return fmt::format("{}: {}", wrong, why_no_mistakes(app));
    const MistakeWords& first = found.front();
    if (first.says.empty()) return fmt::format("{}: instead {}", wrong, first.instead);
    // The mistake may be in a stage before it that was not stored.
    const bool is_its_own = first.stage == report.first_wrong;
    return fmt::format("{}: {} {}", wrong,
                       is_its_own ? "it" : document.declared->program().array(first.stage).name, first.says);
}

std::string sheet_text(const App& app) {
    const std::vector<StageDim> dims = dims_shown(app);
    const Sheet sheet = sheet_shown(app);
    const Program& program = app.declared.kernel().program();
    std::string at;
    std::string block;
    for (int dim = 0; dim < int(dims.size()); ++dim) {
        if (dim == sheet.rows || dim == sheet.cols) continue;
        const StageDim& along = dims[std::size_t(dim)];
        const std::string& name = program.axes[std::size_t(along.axis)].name;
        const std::int64_t index = sheet.index[std::size_t(dim)];
        if (along.blocks)
            block = fmt::format(", after block {} of {}", index, name);
        else
            at += fmt::format("{}{} {}", at.empty() ? " at " : ", ", name, index);
    }
    return app.declared.array().name + at + block;
}

DeclaredWord word_of(DeclaredState state) {
    return state_words[static_cast<std::size_t>(state)];
}

std::string word_in_chain(const DeclaredKernel& kernel, int stage) {
    const DeclaredState state = state_of(kernel, stage);
    const std::vector<int> from =
        state == DeclaredState::inherited ? wrong_before(kernel, stage) : std::vector<int>();
    return from.empty() ? std::string(word_of(state).word)
                        : "from " + kernel.program().array(from.back()).name;
}

}  // namespace tilescope::viewer
