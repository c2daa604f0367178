#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/program/evaluate.h"

namespace tilescope {

/// One element of a stage.
struct StageElement {
    int stage = -1;                     ///< array
    std::vector<std::int64_t> index{};  ///< of each axis of the stage
    std::int64_t block = -1;            ///< of the axis that it goes over; -1: none
};

/// Of STAGE,INDEX,...[,BLOCK]; a state without BLOCK is that after its last one. Errors: Error naming `where` for wrong text, and
/// for an element that the call does not have.
StageElement stage_element(const ProgramCall& call, const std::string& text, const std::string& where);

/// An operation, a read or a stage that a tolerance may come from.
struct ExplainedOperation {
    int operation = 0;  ///< a node, or store_of() a stage
    int depth = 0;      ///< how many operations take it
    std::string text{};
    std::int64_t count = 0;  ///< elements of it, as the terms of a sum; 0: its value is not known
    double value = 0;        ///< where it is one
    double error = 0;        ///< what it may be off by: of several the largest
    double own = 0;          ///< the part of the error that its own rounding is
    double share = 0;        ///< the part of the element's tolerance that comes from that
    bool is_cast = false;
    bool is_step = true;  ///< false: it is the same as a line before, which has the share
};

/// What the tolerance of an element is made of, from the operation that was done last to what it reads. Lines that are exact within
/// sums, whole numbers, conditions that are certain and branches not taken, but in states, are left out.
struct ElementExplanation {
    StageElement element{};
    std::vector<ExplainedOperation> operations{};
    double expected = 0;
    double tolerance = 0;
    std::optional<double> got{};  ///< nullopt: it was not stored
};

/// Computes the element as judge_program() does, and again with roundings taken away one after the other: a share is what the
/// tolerance loses by that, so that shares add up to it. Casts come first, the last one of them before the others: without it what it was
/// given is handed on. Of the rest those that are done first come first: a share is what an operation adds to exact operands, carried on
/// to the element.
/// Errors: those of evaluate_stage().
ElementExplanation explain_stage_element(const ProgramCall& call, const StoredTiles& stored,
                                         const StageElement& element);

/// For a terminal: operations in lines of at most 110 columns, and one that sums it up.
std::string explanation_text(const Program& program, const ElementExplanation& explanation);

}  // namespace tilescope
