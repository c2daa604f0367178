#include "dump/schema/program.h"

#include <algorithm>
#include <utility>

#include "dump/schema/program_formula.h"
#include "dump/schema/program_hints.h"
#include "dump/schema/program_scopes.h"

namespace tilescope {

namespace {

std::string counted(std::size_t most, std::string_view what) {
    return "a program has at most " + std::to_string(most) + " " + std::string(what);
}

std::vector<std::string> dtype_names() {
    std::vector<std::string> names;
    for (const DtypeInfo& info : all_dtypes()) names.emplace_back(info.name);
    return names;
}

/// Reads the statements. Formulas of stages come last, when every name is declared: a stage may take the state of a later
/// one as it was before the block.
class ProgramReader {
 public:
    explicit ProgramReader(std::string_view text)
        : tokens_(program_tokens(text)), formulas_(program_, tokens_) {}

    Program read() {
        while (formulas_.token().kind != ProgramToken::Kind::end) statement();
        if (stages_.empty())
            throw program_error(formulas_.token().place, "it has no stage",
                                "write `stage NAME[AXES]: DTYPE = FORMULA`");
        for (const auto& [array, position] : stages_) value(array, position);
        formulas_.go_to(tokens_.size() - 1);
        for (const ProgramToken& word : outputs_) output(word);
        if (program_.outputs.empty())
            throw program_error(formulas_.token().place, "it has no output",
                                "write `output` and the names of stages");
        settle_scopes(program_);
        return std::move(program_);
    }

 private:
    void statement() {
        const ProgramToken word = formulas_.token();
        if (formulas_.passes("axes")) {
            do axis();
            while (formulas_.passes(";"));
        } else if (formulas_.passes("sizes")) {
            do declare_size(formulas_.name("a size"));
            while (formulas_.passes(","));
        } else if (formulas_.passes("input")) {
            do input();
            while (formulas_.passes(";"));
        } else if (formulas_.passes("stage")) {
            stage();
        } else if (formulas_.passes("output")) {
            do outputs_.push_back(formulas_.name("a stage"));
            while (formulas_.passes(","));
        } else {
            throw program_error(word.place, "'" + shortened(word.text) + "' begins no statement",
                                word.is(",") ? "separate axes and inputs by ;"
                                             : "begin with axes, sizes, input, stage or output");
        }
    }

    void check_new(const ProgramToken& name) const {
        const std::string_view taken = taken_program_name(name.text);
        if (!taken.empty())
            throw program_error(name.place, name.text + " is " + std::string(taken), "choose another name");
        const bool is_axis =
            std::ranges::find(program_.axes, name.text, &ProgramAxis::name) != program_.axes.end();
        if (is_size(name.text))
            throw program_error(name.place, name.text + " is a size already", "choose another name");
        if (is_axis || program_.array_named(name.text) >= 0)
            throw program_error(name.place, name.text + " is declared already", "choose another name");
    }

    bool is_size(const std::string& name) const {
        return std::ranges::find(program_.sizes, name) != program_.sizes.end();
    }

    /// An extent may have declared it already.
    void declare_size(const ProgramToken& name) {
        if (is_size(name.text)) return;
        check_new(name);
        program_.sizes.push_back(name.text);
    }

    /// Names that are new within an extent or a block declare sizes.
    int extent() {
        const std::size_t begin = formulas_.position();
        for (std::size_t i = begin;
             tokens_[i].kind == ProgramToken::Kind::word || tokens_[i].kind == ProgramToken::Kind::number ||
             tokens_[i].is("+") || tokens_[i].is("-") || tokens_[i].is("*") || tokens_[i].is("/") ||
             tokens_[i].is("%") || tokens_[i].is("(") || tokens_[i].is(")");
             ++i) {
            const ProgramToken& token = tokens_[i];
            if (token.kind != ProgramToken::Kind::word) continue;
            if (!taken_program_name(token.text).empty()) break;
            declare_size(token);
        }
        return formulas_.whole_formula("an extent");
    }

    void axis() {
        const ProgramToken name = formulas_.name("an axis");
        check_new(name);
        ProgramAxis axis{.name = name.text, .place = name.place};
        formulas_.expect(":", "between the axis and its extent");
        axis.extent = extent();
        if (formulas_.passes("by")) axis.block = extent();
        program_.axes.push_back(std::move(axis));
        if (program_.axes.size() > ProgramLimits::axes)
            throw program_error(name.place, counted(ProgramLimits::axes, "axes"), "leave some out");
    }

    Dtype dtype() {
        if (!formulas_.passes(":")) return Dtype::f32;
        const ProgramToken word = formulas_.name("a dtype");
        const std::optional<Dtype> dtype = dtype_from_name(word.text);
        if (!dtype)
            throw program_error(word.place, "'" + shortened(word.text) + "' is no dtype",
                                program_hint(word.text, "write one of " + joined(dtype_names(), ", ")));
        return *dtype;
    }

    ProgramArray declared(const ProgramToken& name) {
        check_new(name);
        ProgramArray array{.name = name.text, .place = name.place};
        if (formulas_.passes("[")) array.indices = formulas_.index_list();
        return array;
    }

    void add_input(ProgramArray array) {
        if (!stages_.empty())
            throw program_error(array.place, "an input stands behind a stage",
                                "declare inputs before stages");
        array.dtype = dtype();
        program_.arrays.push_back(std::move(array));
        if (program_.arrays.size() > ProgramLimits::inputs)
            throw program_error(program_.arrays.back().place, counted(ProgramLimits::inputs, "inputs"),
                                "leave some out");
    }

    void input() {
        add_input(declared(formulas_.name("an input")));
        if (formulas_.passes("scale")) add_input(declared(formulas_.name("a scale")));
    }

    void stage() {
        ProgramArray array = declared(formulas_.name("a stage"));
        array.is_stage = true;
        if (formulas_.passes("over")) {
            const ProgramToken word = formulas_.name("an axis");
            const auto axis = std::ranges::find(program_.axes, word.text, &ProgramAxis::name);
            if (axis == program_.axes.end())
                throw program_error(word.place, "'" + shortened(word.text) + "' is no axis",
                                    "declare it among the axes");
            array.over = int(axis - program_.axes.begin());
            array.backwards = formulas_.passes("backwards");
            if (formulas_.token().is(","))
                throw program_error(formulas_.token().place, "a state goes over one axis",
                                    "make one axis of both, whose indices are t / cols and t % cols");
        }
        array.dtype = dtype();
        formulas_.expect("=", "between a stage and its formula");
        const int number = int(program_.arrays.size());
        stages_.emplace_back(number, formulas_.position());
        if (stages_.size() > ProgramLimits::stages)
            throw program_error(array.place, counted(ProgramLimits::stages, "stages"), "leave some out");
        program_.arrays.push_back(std::move(array));
        while (formulas_.token().kind != ProgramToken::Kind::end && !begins_statement(formulas_.token()))
            formulas_.go_to(formulas_.position() + 1);
        ends_.push_back(formulas_.position());
    }

    void value(int array, std::size_t position) {
        formulas_.go_to(position);
        const int value = formulas_.real_formula();
        int start = -1;
        if (formulas_.passes("from")) start = formulas_.real_formula();
        ProgramArray& stage = program_.arrays[std::size_t(array)];
        if (start < 0 && stage.over >= 0) start = formulas_.add({.is_whole = true, .place = stage.place});
        if (start >= 0 && stage.over < 0)
            throw program_error(program_.node(start).place,
                                stage.name + " goes over no axis and starts from nothing",
                                "write `over AXIS` behind its indices");
        stage.value = value;
        stage.start = start;
        if (formulas_.position() != ends_[std::size_t(array) - std::size_t(stages_.front().first)])
            throw program_error(formulas_.token().place,
                                "'" + shortened(formulas_.token().text) + "' does not go on from there",
                                program_hint(formulas_.token().text, "write one formula for a stage"));
    }

    void output(const ProgramToken& word) {
        const int array = program_.array_named(word.text);
        if (array < 0 || !program_.array(array).is_stage)
            throw program_error(word.place, "'" + shortened(word.text) + "' is no stage",
                                "name stages that the kernel stores");
        if (std::ranges::find(program_.outputs, array) != program_.outputs.end())
            throw program_error(word.place, word.text + " is an output already", "leave it out");
        program_.outputs.push_back(array);
    }

    Program program_;
    std::vector<ProgramToken> tokens_;
    ProgramFormulaReader formulas_;
    std::vector<std::pair<int, std::size_t>> stages_;  ///< with where their formulas begin
    std::vector<std::size_t> ends_;                    ///< and where they end
    std::vector<ProgramToken> outputs_;
};

}  // namespace

int Program::array_named(std::string_view name) const {
    const auto found = std::ranges::find(arrays, name, &ProgramArray::name);
    return found == arrays.end() ? -1 : int(found - arrays.begin());
}

Program parse_program(std::string_view text) {
    if (text.size() > ProgramLimits::text_bytes)
        throw Error("it has " + std::to_string(text.size()) + " bytes", "program",
                    "write at most " + std::to_string(ProgramLimits::text_bytes));
    return ProgramReader(text).read();
}

}  // namespace tilescope
