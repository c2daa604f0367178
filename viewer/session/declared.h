#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oracle/heatmap/histogram.h"
#include "oracle/heatmap/pyramid.h"
#include "oracle/heatmap/quantity.h"
#include "oracle/program/judge_recording.h"

namespace tilescope::viewer {

/// A declared kernel that was read and judged. What explains it is found later.
struct DeclaredKernel {
    /// Errors: those of judge_program_recording().
    DeclaredKernel(const std::string& path, ProgramRecording read, const ProgramJudging& how)
        : recording(std::move(read)),
          judged(judge_program_recording(path, recording, how)),
          recorded(recording) {}

    const ProgramRecording recording;
    const JudgedProgram judged;
    const RecordedCall recorded;

    const Program& program() const { return recorded.program; }
    const ProgramCall& call() const { return recorded.call; }
    const ProgramReport& report() const { return judged.report; }
};

/// What the elements of a stage are counted along: the blocks of the axis that it carries its state over, then its own axes.
struct StageDim {
    int axis = -1;
    bool blocks = false;  ///< of the axis, in place of its indices
    std::int64_t extent = 1;
    bool operator==(const StageDim&) const = default;
};
std::vector<StageDim> dims_of(const ProgramCall& call, int stage);

/// How an element came out.
struct StageElement {
    double got = 0;  ///< where something was stored
    double expected = 0;
    double tolerance = 0;
    ProgramFinding finding = ProgramFinding::not_stored;
    bool inherits = false;  ///< it agrees with the stages before it, and not with what the inputs alone give
};
/// In the words that reports of attention have. What was not stored is indifferent.
Judged judged(const StageElement& element);
/// By what the quantity is computed as: the element was held against one reference.
ElementValue value_of(const StageElement& element, Quantity quantity, Dtype dtype);

/// The elements of a stage, held against what the stored stages before it give, or the inputs alone.
struct StageQuestion {
    int stage = -1;
    Reference against = Reference::local;
    bool operator==(const StageQuestion&) const = default;
};

/// A matrix of a stage: its last two axes, or the only one beside the blocks of its state. A dimension that there is none of is -1.
struct Sheet {
    int rows = -1;  ///< number of a dimension
    int cols = -1;
    std::vector<std::int64_t> index;  ///< of the other dimensions; 0 along these two
    bool operator==(const Sheet&) const = default;
};
/// The one through an element.
Sheet sheet_at(const std::vector<StageDim>& dims, std::vector<std::int64_t> index);
/// Elements along one of its dimensions.
std::int64_t length_of(const std::vector<StageDim>& dims, int dim);

/// The sheets of a stage, those after the blocks of its state across; without these those along the last of the other dimensions.
struct SheetMap {
    int across = -1;                         ///< number of a dimension; -1: there is one sheet
    std::vector<int> down;                   ///< the others, as they lie in memory
    std::shared_ptr<const Pyramid> picture;  ///< over budget: an element for each sheet, as bad as its worst
};

/// What is expected end to end of an element that inherits.
struct InheritedElement {
    std::int64_t number = 0;
    double expected = 0;
    double tolerance = 0;
};

/// All elements of a stage, row-major along dims_of().
struct StageValues {
    std::vector<StageDim> dims;
    Dtype dtype = Dtype::f32;
    std::vector<float> got;
    std::vector<double> expected;
    std::vector<double> tolerance;
    std::vector<ProgramFinding> findings;
    std::vector<std::int64_t> worst;  ///< numbers of those outside, most times their tolerance first
    /// Whether each inherits, and those that do, rising; both are empty where none does.
    std::vector<bool> inherits;
    std::vector<InheritedElement> inherited;
    SheetMap map{};
    std::string refused{};  ///< why there are none

    std::int64_t number_of(const std::vector<std::int64_t>& index) const;
    std::vector<std::int64_t> index_of(std::int64_t number) const;
    StageElement at(std::int64_t number) const;
    /// Of one that inherits.
    const InheritedElement& end_to_end(std::int64_t number) const;
    /// At a row and column of a sheet.
    StageElement at(const Sheet& sheet, std::int64_t row, std::int64_t col) const;
};
StageValues stage_values(const DeclaredKernel& kernel, const StageQuestion& question,
                         const std::function<void()>& check);

struct SheetQuestion {
    StageQuestion of;
    Sheet sheet;
    Quantity quantity = Quantity::over_budget;
    bool operator==(const SheetQuestion&) const = default;
};
std::shared_ptr<const Pyramid> picture_of(const StageValues& values, const SheetQuestion& question);

/// Some rows and columns of a sheet.
struct SheetPart {
    StageQuestion of;
    Sheet sheet;
    Rect elements;
    bool operator==(const SheetPart&) const = default;
};
Histogram histogram_of(const StageValues& values, const SheetPart& part);

}  // namespace tilescope::viewer
