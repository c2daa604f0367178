#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "oracle/causes/walk.h"
#include "oracle/program/attention.h"
#include "oracle/program/judge_program.h"

namespace tilescope {

/// A recording as its program, with what it holds. Its parts refer to each other: it stays where it is made.
struct RecordedProgram {
    RecordedProgram(const Recording& recording, Program its_program,
                    std::shared_ptr<const AttentionInputs> its_inputs)
        : program(std::move(its_program)),
          given(std::move(its_inputs)),
          call(bind_program(program, given->inputs, given->sizes)),
          stored(recording, program) {
        options.stored = &stored;
    }

    Program program;
    std::shared_ptr<const AttentionInputs> given;
    ProgramCall call;
    RecordedAttention stored;
    ProgramOptions options;
};

/// Null: the language has no words for it.
using MaybeProgram = std::unique_ptr<RecordedProgram>;
std::shared_ptr<const MaybeProgram> program_of(const CauseSearch& world,
                                               MergedFrom merged_from = MergedFrom::outputs);

/// A formula in the place of another one.
struct FormulaChange {
    std::shared_ptr<const Program> found_in;
    ProgramMistake mistake;
    std::shared_ptr<const FormulaChange>
        beside;  ///< what that program has already; null: it is the declared one
    MergedFrom merged_from = MergedFrom::outputs;  ///< of the program

    std::string name() const {
        const std::string made_in = found_in->array(mistake.stage).name;
        return "formula of " + made_in + ": " + mistake.becomes + " where " + mistake.where +
               (beside ? "; " + beside->name() : std::string());
    }
};

/// The program of another recording with that formula; nullopt: it is made in a part of another stage, or it is a store.
std::optional<Program> program_with(const FormulaChange& change, const Program& declared);

/// What a kernel with that formula makes of a stage, which is computed from the one that has it.
Change change_in(const std::shared_ptr<const FormulaChange>& formula, Stage stage);
/// The same change without the condition of places that it has; nullopt: it has none.
std::optional<Change> without_condition(const Change& change, Stage stage);

}  // namespace tilescope
