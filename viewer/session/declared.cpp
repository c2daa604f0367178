// Recordings of declared kernels: opened, judged, and their elements beside what is expected of them.

#include "viewer/session/declared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "dump/program_file.h"
#include "dump/schema/error.h"
#include "oracle/program/find_mistakes.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

/// About 1.5 GB of memory.
constexpr std::int64_t most_elements = std::int64_t(1) << 26;
constexpr std::size_t most_worst = 500;

double times_of(const StageValues& values, std::int64_t number) {
    const StageElement element = values.at(number);
    return ProgramElement{{}, -1, element.got, element.expected, element.tolerance}.times();
}

/// The number of the tile's first element of each row along the last axis: those of a row follow each other.
template <class Use>
void for_rows(const ProgramTile& tile, const StageValues& values, const Use& use) {
    const std::size_t before = values.dims.size() - tile.indices.size();
    std::vector<std::int64_t> index(values.dims.size());
    const std::int64_t length = tile.indices.empty() ? 1 : tile.indices.back().count;
    for (std::int64_t first = 0; first < tile.size(); first += length) {
        if (before > 0) index[0] = tile.block;
        std::ranges::copy(tile.index_of(first), index.begin() + std::ptrdiff_t(before));
        use(first, values.number_of(index), length);
    }
}

void take_tile(const ObservedProgramTile& tile, StageValues& values) {
    for_rows(tile.tile, values, [&](std::int64_t first, std::int64_t to, std::int64_t length) {
        for (std::int64_t k = 0; k < length; ++k) {
            const auto from = std::size_t(first + k);
            const auto at = std::size_t(to + k);
            values.got[at] = float(tile.got[from]);
            values.expected[at] = tile.expected.value[from];
            values.tolerance[at] = tile.expected.error[from];
            values.findings[at] = tile.findings[from];
        }
    });
}

/// Of a tile that is held against what the inputs alone give: what is wrong there alone is inherited.
void take_inherited(const ObservedProgramTile& tile, StageValues& values) {
    for_rows(tile.tile, values, [&](std::int64_t first, std::int64_t to, std::int64_t length) {
        for (std::int64_t k = 0; k < length; ++k) {
            const auto from = std::size_t(first + k);
            const auto at = std::size_t(to + k);
            const bool is_wrong = tile.findings[from] == ProgramFinding::outside;
            if (!is_wrong || nobody_wrote(tile.got[from]) || values.findings[at] == ProgramFinding::outside)
                continue;
            values.inherits[at] = true;
            values.inherited.push_back({to + k, tile.expected.value[from], tile.expected.error[from]});
        }
    });
}

void find_worst(StageValues& values) {
    std::vector<std::pair<double, std::int64_t>> outside;
    for (std::size_t i = 0; i < values.findings.size(); ++i)
        if (values.findings[i] == ProgramFinding::outside)
            outside.emplace_back(-times_of(values, std::int64_t(i)), std::int64_t(i));
    const std::size_t kept = std::min(outside.size(), most_worst);
    std::ranges::partial_sort(outside, outside.begin() + std::ptrdiff_t(kept));
    for (std::size_t i = 0; i < kept; ++i) values.worst.push_back(outside[i].second);
}

/// Whether anything of it inherits.
bool inherits(const DeclaredKernel& kernel, int stage) {
    const std::vector<StageVerdict>& verdicts = kernel.report().stages;
    const auto verdict = std::ranges::find(verdicts, stage, &StageVerdict::stage);
    return verdict != verdicts.end() && verdict->inherited > 0;
}

/// What the map has of a sheet.
struct SheetFinding {
    KindFlags kinds = 0;
    float worst = 0;
};

void map_sheets(StageValues& values) {
    const std::vector<StageDim>& dims = values.dims;
    const Sheet sheet = sheet_at(dims, std::vector<std::int64_t>(dims.size()));
    SheetMap& map = values.map;
    for (int dim = 0; dim < int(dims.size()); ++dim)
        if (dim != sheet.rows && dim != sheet.cols) map.down.push_back(dim);
    if (map.down.empty()) return;
    const auto across = dims.front().blocks ? map.down.begin() : map.down.end() - 1;
    map.across = *across;
    map.down.erase(across);
    std::int64_t rows = 1;
    for (const int dim : map.down) rows *= dims[std::size_t(dim)].extent;
    const std::int64_t cols = dims[std::size_t(map.across)].extent;
    std::vector<SheetFinding> found(std::size_t(rows * cols));
    // Row by row of the sheets, whose columns are the last dimension.
    const std::int64_t length = dims.back().extent;
    for (std::int64_t first = 0; first < std::int64_t(values.findings.size()); first += length) {
        const std::vector<std::int64_t> index = values.index_of(first);
        std::int64_t row = 0;
        for (const int dim : map.down) row = row * dims[std::size_t(dim)].extent + index[std::size_t(dim)];
        SheetFinding& finding = found[std::size_t(row * cols + index[std::size_t(map.across)])];
        for (std::int64_t i = first; i < first + length; ++i) {
            const ElementValue value = value_of(values.at(i), Quantity::over_budget, values.dtype);
            finding.kinds = KindFlags(finding.kinds | flag_of(value.kind));
            if ((value.kind == Kind::finite || value.kind == Kind::inherited) && !std::isnan(value.value))
                finding.worst = std::max(finding.worst, in_float_range(value.value));
        }
    }
    QuantityValues shown;
    for (const SheetFinding& finding : found) {
        // What may be left out, or is not judged, hides nothing that is.
        constexpr KindFlags quiet = flag_of(Kind::masked) | flag_of(Kind::indifferent) |
                                    flag_of(Kind::not_judged) | flag_of(Kind::not_captured);
        const auto loud = KindFlags(finding.kinds & ~quiet);
        shown.kinds.push_back(worst_of(loud != 0 ? loud : finding.kinds, finding.worst > 1));
        const bool has_value = shown.kinds.back() == Kind::finite || shown.kinds.back() == Kind::inherited;
        shown.values.push_back(has_value ? finding.worst : 0);
    }
    const auto picture = std::make_shared<Pyramid>(rows, cols, 1, sign_of(Quantity::over_budget));
    picture->set_tile(0, 0, rows, cols, shown.values, shown.kinds);
    picture->complete();
    map.picture = picture;
}

}  // namespace

std::vector<StageDim> dims_of(const ProgramCall& call, int stage) {
    const ProgramArray& array = call.program.array(stage);
    std::vector<StageDim> dims;
    if (array.over >= 0) dims.push_back({array.over, true, call.blocks_of(array.over)});
    for (const int index : array.indices) {
        const int axis = call.program.axis_of(index);
        dims.push_back({axis, false, call.extents[std::size_t(axis)]});
    }
    return dims;
}

Judged judged(const StageElement& element) {
    Judged result{float(element.got), element.expected, element.tolerance, Finding::match};
    switch (element.finding) {
        case ProgramFinding::not_stored:
        case ProgramFinding::left_out:
        case ProgramFinding::nothing_expected:
            result.finding = Finding::indifferent;
            break;
        case ProgramFinding::not_judged:
            result.finding = Finding::not_judged;
            break;
        case ProgramFinding::match:
            break;
        case ProgramFinding::outside:
            result.finding = nobody_wrote(element.got)                                 ? Finding::unwritten
                             : std::isnan(element.got)                                 ? Finding::nan
                             : std::isinf(element.got) || std::isinf(element.expected) ? Finding::infinite
                                                                                       : Finding::outside;
            break;
    }
    return result;
}

ElementValue value_of(const StageElement& element, Quantity quantity, Dtype dtype) {
    const Quantity computed_as = quantity_info(quantity).computed_as;
    const bool needs_stored = computed_as != Quantity::expected;
    if (needs_stored && element.finding == ProgramFinding::not_stored) return {0, Kind::not_captured};
    if (needs_stored && element.finding == ProgramFinding::left_out) return {0, Kind::masked};
    ElementValue value = tilescope::value_of(judged(element), computed_as, dtype);
    if (computed_as != Quantity::over_budget || !element.inherits) return value;
    if (value.kind != Kind::finite) value.value = std::numeric_limits<double>::quiet_NaN();
    return {value.value, Kind::inherited};
}

std::int64_t StageValues::number_of(const std::vector<std::int64_t>& index) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) number = number * dims[i].extent + index[i];
    return number;
}

std::vector<std::int64_t> StageValues::index_of(std::int64_t number) const {
    std::vector<std::int64_t> index(dims.size());
    for (std::size_t i = dims.size(); i > 0; --i) {
        index[i - 1] = number % dims[i - 1].extent;
        number /= dims[i - 1].extent;
    }
    return index;
}

StageElement StageValues::at(std::int64_t number) const {
    const auto i = std::size_t(number);
    return {got[i], expected[i], tolerance[i], findings[i], !inherits.empty() && inherits[i]};
}

const InheritedElement& StageValues::end_to_end(std::int64_t number) const {
    return *std::ranges::lower_bound(inherited, number, {}, &InheritedElement::number);
}

StageElement StageValues::at(const Sheet& sheet, std::int64_t row, std::int64_t col) const {
    std::vector<std::int64_t> index = sheet.index;
    if (sheet.rows >= 0) index[std::size_t(sheet.rows)] = row;
    if (sheet.cols >= 0) index[std::size_t(sheet.cols)] = col;
    return at(number_of(index));
}

StageValues stage_values(const DeclaredKernel& kernel, const StageQuestion& question,
                         const std::function<void()>& check) {
    const int stage = question.stage;
    StageValues values;
    values.dims = dims_of(kernel.call(), stage);
    values.dtype = kernel.program().array(stage).dtype;
    double elements = 1;
    for (const StageDim& dim : values.dims) elements *= double(dim.extent);
    if (elements > double(most_elements)) {
        values.refused = fmt::format("{} has more elements than can be shown; tile-diff judges them",
                                     kernel.program().array(stage).name);
        return values;
    }
    const auto count = std::size_t(elements);
    values.got.resize(count);
    values.expected.assign(count, std::numeric_limits<double>::quiet_NaN());
    values.tolerance.resize(count);
    values.findings.assign(count, ProgramFinding::not_stored);
    const auto observe = [&](bool from_inputs, const ObserveProgramTile& take) {
        ProgramOptions options;
        options.from_inputs = from_inputs;
        observe_stage(kernel.call(), CheckedTiles(kernel.recorded.stored, check), options, stage,
                      [&](const ObservedProgramTile& tile) {
                          check();
                          take(tile);
                      });
    };
    try {
        observe(question.against == Reference::end_to_end,
                [&](const ObservedProgramTile& tile) { take_tile(tile, values); });
        if (question.against == Reference::local && inherits(kernel, stage)) {
            values.inherits.resize(count);
            observe(true, [&](const ObservedProgramTile& tile) { take_inherited(tile, values); });
            std::ranges::sort(values.inherited, {}, &InheritedElement::number);
        }
    } catch (const Error& error) {
        values.refused = one_line(error.what());
        return values;
    }
    find_worst(values);
    map_sheets(values);
    return values;
}

Sheet sheet_at(const std::vector<StageDim>& dims, std::vector<std::int64_t> index) {
    const int count = int(dims.size());
    const int axes = count - int(std::ranges::count(dims, true, &StageDim::blocks));
    Sheet sheet;
    if (axes >= 2) {
        sheet.rows = count - 2;
        sheet.cols = count - 1;
    } else {
        sheet.rows = axes == 1 ? count - 1 : -1;
        sheet.cols = count > axes ? 0 : -1;
    }
    for (const int dim : {sheet.rows, sheet.cols})
        if (dim >= 0) index[std::size_t(dim)] = 0;
    sheet.index = std::move(index);
    return sheet;
}

std::int64_t length_of(const std::vector<StageDim>& dims, int dim) {
    return dim < 0 ? 1 : dims[std::size_t(dim)].extent;
}

std::shared_ptr<const Pyramid> picture_of(const StageValues& values, const SheetQuestion& question) {
    // A whole number of cells of level 0.
    constexpr std::int64_t band = 256;
    const Sheet& sheet = question.sheet;
    const std::int64_t rows = length_of(values.dims, sheet.rows);
    const std::int64_t cols = length_of(values.dims, sheet.cols);
    const auto picture =
        std::make_shared<Pyramid>(rows, cols, (rows + band - 1) / band, sign_of(question.quantity));
    QuantityValues shown;
    for (std::int64_t first = 0; first < rows; first += band) {
        const std::int64_t last = std::min(first + band, rows);
        shown.values.clear();
        shown.kinds.clear();
        for (std::int64_t row = first; row < last; ++row) {
            for (std::int64_t col = 0; col < cols; ++col) {
                const ElementValue value =
                    value_of(values.at(sheet, row, col), question.quantity, values.dtype);
                shown.values.push_back(std::isnan(value.value) ? 0 : in_float_range(value.value));
                shown.kinds.push_back(value.kind);
            }
        }
        picture->set_tile(first, 0, last - first, cols, shown.values, shown.kinds);
    }
    picture->complete();
    return picture;
}

Histogram histogram_of(const StageValues& values, const SheetPart& part) {
    Histogram histogram;
    for (std::int64_t row = part.elements.first_row; row < part.elements.last_row; ++row) {
        for (std::int64_t col = part.elements.first_col; col < part.elements.last_col; ++col) {
            const StageElement element = values.at(part.sheet, row, col);
            const auto value = [&](Quantity quantity) { return value_of(element, quantity, values.dtype); };
            add_element({.dumped = value(Quantity::dumped),
                         .expected = value(Quantity::expected),
                         .over_budget = value(Quantity::over_budget)},
                        histogram);
        }
    }
    return histogram;
}

bool Session::Work::is_declared(const Opening& what) {
    return what.recording == nullptr && what.other.empty() && holds_program(what.path);
}

void Session::Work::judge_declared(const Opening& what, std::uint64_t ticket) {
    std::shared_ptr<Document> opened = begin_document(what);
    ProgramRecording read = read_program_recording(what.path);
    check(ticket);
    begin(judging, "judging " + what.path);
    const ProgramJudging how{.causes = false, .check = [this, ticket] { check(ticket); }};
    opened->declared = std::make_shared<const DeclaredKernel>(what.path, std::move(read), how);
    const std::scoped_lock lock(mutex);
    check(ticket);
    publish(opened, {});
}

std::shared_ptr<const StageValues> Session::Work::known_values(const StageQuestion& question) {
    const std::scoped_lock lock(mutex);
    auto values = stage_values.ask(question);
    // They were forgotten, and are asked for again.
    if (values == nullptr) throw Cancelled();
    return values;
}

FoundMistakes Session::Work::find_declared_mistakes(const Document& of, std::uint64_t ticket) {
    const DeclaredKernel& kernel = *of.declared;
    const CheckedTiles stored(kernel.recorded.stored, [this, ticket] { check(ticket); });
    return find_all_mistakes(kernel.call(), stored, kernel.report());
}

std::shared_ptr<const StageValues> Session::request_values(std::uint64_t generation,
                                                           const StageQuestion& question) {
    return work_->ask_declared(generation, work_->stage_values, question);
}

std::shared_ptr<const Pyramid> Session::request_sheet(std::uint64_t generation,
                                                      const SheetQuestion& question) {
    const auto answer = work_->ask_declared(generation, work_->sheets, question);
    return answer == nullptr ? nullptr : *answer;
}

std::shared_ptr<const Histogram> Session::request_histogram(std::uint64_t generation, const SheetPart& part) {
    return work_->ask_declared(generation, work_->sheet_histograms, part);
}

}  // namespace tilescope::viewer
