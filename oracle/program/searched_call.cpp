#include "oracle/program/searched_call.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "oracle/formula/estimate.h"

namespace tilescope {

namespace {

/// Indices of an axis that a part of the call has, and parts that are replayed.
constexpr std::int64_t part_indices = 4;
constexpr std::size_t most_probes = 4;
constexpr std::size_t wrong_parts = 6;
constexpr std::size_t other_parts = 4;
constexpr std::int64_t most_elements_of_row = 64;
constexpr std::int64_t most_elements_of_tile = 1 << 14;
constexpr double most_healthy_elements = 1 << 22;
constexpr double most_own_states = 1 << 21;
constexpr std::size_t wrong_tiles = 5;
constexpr std::size_t other_tiles = 3;

bool is_same(const AxisRanges& one, const AxisRanges& other) {
    return std::ranges::equal(one, other, [](const AxisRange& a, const AxisRange& b) {
        return a.first == b.first && a.count == b.count;
    });
}

/// The same for the same number.
std::vector<std::int64_t> random_element(const ProgramCall& call, int stage, std::uint64_t number) {
    std::mt19937_64 random(number);
    std::vector<std::int64_t> index;
    for (const int of : call.program.array(stage).indices)
        index.push_back(
            std::int64_t(random() % std::uint64_t(call.extents[std::size_t(call.program.axis_of(of))])));
    return index;
}

}  // namespace

SearchedCall::SearchedCall(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                           const ProgramOptions& options, std::optional<Dtype> kept_as)
    : program_(call.program),
      call_{program_, call.sizes, call.extents, call.blocks, call.inputs},
      stored_(stored),
      wrong_(report.first_wrong),
      options_(options),
      verdict_(report.verdict_of(wrong_)) {
    options_.stored = &stored;
    for (const ProgramArray& array : program_.arrays) declared_starts_.push_back(array.start);
    if (kept_as) program_.arrays[std::size_t(wrong_)].dtype = *kept_as;
    choose_stages();
    find_steady();
    read_own_states();
    compute_healthy();
    choose_parts();
    for (std::vector<CallPart>* const parts : {&probes_, &rows_, &parts_, &tiles_}) {
        for (CallPart& part : *parts) look_at(part);
    }
    set_none_apart();
}

namespace {

/// The type whose numbers a formula has; float32 where it is none that can be seen in it.
Dtype type_of_numbers(const Program& program, int formula) {
    const ProgramNode& node = program.node(formula);
    switch (node.op) {
        case ProgramOp::cast:
            return Dtype(node.what);
        case ProgramOp::chosen:
        case ProgramOp::negative:
            return type_of_numbers(program, node.of[0]);
        case ProgramOp::times: {
            const ProgramNode& factor = program.node(node.of[1]);
            int exponent = 0;
            const bool is_power =
                factor.op == ProgramOp::number && std::frexp(factor.number, &exponent) == 0.5;
            return is_power ? type_of_numbers(program, node.of[0]) : Dtype::f32;
        }
        case ProgramOp::sum:
            return node.accumulation == Accumulation::fma_f16 ||
                           node.accumulation == Accumulation::tensor_core_f16
                       ? Dtype::f16
                   : node.accumulation == Accumulation::fma_bf16 ? Dtype::bf16
                                                                 : Dtype::f32;
        default:
            return Dtype::f32;
    }
}

/// Of what a stage stores.
Dtype type_of_numbers(const Program& program, const ProgramArray& stage) {
    const Dtype of_formula = type_of_numbers(program, stage.value);
    const auto digits = [](Dtype dtype) { return dtype_info(dtype).significand_bits; };
    return digits(of_formula) < digits(stage.dtype) ? of_formula : stage.dtype;
}

/// Of what each block adds to a state; float32 of anything else.
Dtype type_of_addends(const Program& program, int stage) {
    const ProgramNode& sum = program.node(program.array(stage).value);
    if (sum.op != ProgramOp::plus) return Dtype::f32;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        const ProgramNode& state = program.node(sum.of[i]);
        if (state.op == ProgramOp::read && state.what == stage)
            return type_of_numbers(program, sum.of[1 - i]);
    }
    return Dtype::f32;
}

bool is_number_of(Dtype dtype, double number) {
    return double(decode(dtype, encode(dtype, number))) == number;
}

/// A state in float32 to which numbers of a narrower type are added has that many digits more, as far as they are about as large.
constexpr int digits_of_sums = 8;

}  // namespace

bool LostDigits::lacks(double number) const {
    if (carried == 0) return is_number_of(type, number);
    int exponent = 0;
    const double whole =
        std::ldexp(std::frexp(number, &exponent), dtype_info(type).significand_bits + carried);
    return whole == std::trunc(whole);
}

std::optional<LostDigits> SearchedCall::lost_digits() const {
    const Dtype dtype = type_of_numbers(program_, program_.array(wrong_));
    const auto digits_of = [](Dtype of) { return dtype_info(of).significand_bits; };
    if (const int digits = digits_of(declared_type_) - digits_of(dtype); digits > 0)
        return LostDigits{dtype, digits};
    const Dtype addends = type_of_addends(program_, wrong_);
    const int digits = digits_of(dtype) - digits_of(addends) - digits_of_sums;
    if (digits <= 0 || digits_of(addends) >= digits_of(declared_addends_)) return std::nullopt;
    return LostDigits{addends, digits, digits_of_sums};
}

void SearchedCall::choose_stages() {
    declared_type_ = type_of_numbers(program_, program_.array(wrong_));
    declared_addends_ = type_of_addends(program_, wrong_);
    rewritten_ = computed_for(program_, &stored_, wrong_);
    known_ = stored_stages(call_, options_, stored_beside(program_, stored_, wrong_));
    goes_round_ = rewritten_.back() > wrong_;
}

/// What is as quickly computed as found again is none of them.
void SearchedCall::find_steady() {
    const std::size_t count = program_.nodes.size();
    std::vector<char> are_computed(count, 0);
    steady_.resize(count);
    const auto is_computed = [&](int node) { return node >= 0 && are_computed[std::size_t(node)] != 0; };
    // Operands come before what is done with them.
    for (std::size_t i = 0; i < count; ++i) {
        const ProgramNode& node = program_.nodes[i];
        const bool is_read = node.op == ProgramOp::read;
        const bool is_of_stage = is_read && std::ranges::find(rewritten_, node.what) != rewritten_.end();
        are_computed[i] = is_of_stage || std::ranges::any_of(node.of, is_computed) ||
                          (is_read && std::ranges::any_of(node.list, is_computed));
        const bool is_leaf =
            node.op == ProgramOp::number || node.op == ProgramOp::size || node.op == ProgramOp::axis;
        steady_[i] = !is_leaf && are_computed[i] == 0;
    }
}

double SearchedCall::elements_of(int stage) const {
    const ProgramArray& array = program_.array(stage);
    double elements = array.over < 0 ? 1 : double(call_.blocks_of(array.over) + 1);
    for (const int index : array.indices)
        elements *= double(call_.extents[std::size_t(program_.axis_of(index))]);
    return elements;
}

/// A formula with another index may go on from them anywhere.
void SearchedCall::read_own_states() {
    if (program_.array(wrong_).over < 0 || goes_round_ || elements_of(wrong_) > most_own_states) return;
    own_states_ = std::move(stored_stages(call_, options_, std::array{wrong_}).at(wrong_));
}

/// A formula with another index may read them anywhere.
void SearchedCall::compute_healthy() {
    AxisRanges all{};
    for (std::size_t axis = 0; axis < call_.extents.size(); ++axis) all[axis] = {0, call_.extents[axis]};
    double elements = 0;
    for (const int stage : rewritten_) elements += elements_of(stage);
    if (rewritten_.size() < 2 || goes_round_ || elements > most_healthy_elements) return;
    const ObserveTile ignore = [](const ProgramTile&, const ExpectedTile&) {};
    TileRun run = run_of(all, ignore);
    run.run(rewritten_);
    for (const int stage : rewritten_) healthy_.emplace(stage, run.stored(stage));
}

/// Around an element: neighbours along the axes that every index goes through by itself, so many of each.
CallPart SearchedCall::around(const std::vector<std::int64_t>& index, std::int64_t most) const {
    CallPart part;
    for (std::size_t axis = 0; axis < call_.extents.size(); ++axis)
        part.ranges[axis] = {0, call_.extents[axis]};
    const ProgramArray& array = program_.array(wrong_);
    // Where whole stages are known it does not matter what others of the part's stages have.
    const std::vector<int> axes = healthy_.empty() ? independent_axes(program_, rewritten_)
                                                   : independent_axes_of(program_, rewritten_, wrong_);
    for (const int axis : axes) {
        for (std::size_t i = 0; i < array.indices.size(); ++i) {
            if (program_.axis_of(array.indices[i]) != axis) continue;
            const std::int64_t extent = call_.extents[std::size_t(axis)];
            const std::int64_t before = most > 1 ? 1 : 0;
            const std::int64_t first = std::max<std::int64_t>(0, std::min(index[i] - before, extent - most));
            part.ranges[std::size_t(axis)] = {first, std::min(most, extent - first)};
        }
    }
    return part;
}

/// The element, and those beside it along the last index, if a replay may be of some of these alone.
CallPart SearchedCall::row_around(const std::vector<std::int64_t>& index) const {
    CallPart row = around(index, 1);
    if (index.empty()) return row;
    const int last = program_.axis_of(program_.array(wrong_).indices.back());
    AxisRange& range = row.ranges[std::size_t(last)];
    const std::int64_t extent = call_.extents[std::size_t(last)];
    if (range.count > 1) return row;
    range.count = std::min(most_elements_of_row, extent);
    range.first = std::min(range.first, extent - range.count);
    return row;
}

/// A tile around an element: of axes that are cut one block, or more where there is room; of others an index.
CallPart SearchedCall::tile_around(const std::vector<std::int64_t>& index) const {
    CallPart tile;
    for (std::size_t axis = 0; axis < call_.extents.size(); ++axis)
        tile.ranges[axis] = {0, call_.extents[axis]};
    const ProgramArray& array = program_.array(wrong_);
    const std::vector<int> independent = independent_axes(program_, rewritten_);
    std::int64_t size = 1;
    for (const int of : array.indices) size *= call_.extents[std::size_t(program_.axis_of(of))];
    for (const bool cuts_blocks : {false, true}) {
        for (std::size_t i = 0; i < array.indices.size() && size > most_elements_of_tile; ++i) {
            const auto axis = std::size_t(program_.axis_of(array.indices[i]));
            const bool is_cut = program_.axes[axis].block >= 0;
            if (is_cut != cuts_blocks || std::ranges::find(independent, int(axis)) == independent.end())
                continue;
            const std::int64_t block = is_cut ? call_.blocks[axis] : 1;
            const std::int64_t first = index[i] / block * block;
            size /= tile.ranges[axis].count;
            tile.ranges[axis] = {first, std::min(block, call_.extents[axis] - first)};
            size *= tile.ranges[axis].count;
        }
    }
    return tile;
}

void SearchedCall::choose_parts() {
    const auto add = [](CallPart part, std::vector<CallPart>& to) {
        const bool is_new = std::ranges::none_of(
            to, [&](const CallPart& other) { return is_same(part.ranges, other.ranges); });
        if (is_new) to.push_back(std::move(part));
    };
    std::vector<ProgramElement> elements = verdict_.samples;
    for (const ProgramElement& element : elements) {
        if (tiles_.size() < wrong_tiles) add(tile_around(element.index), tiles_);
    }
    // The worst ones may be all of one kind.
    const auto add_probe = [&](const std::vector<std::int64_t>& index) {
        add(around(index, 1), probes_);
        add(row_around(index), rows_);
    };
    add_probe(verdict_.worst.front().index);
    for (std::size_t i = 0; i + 1 < most_probes && !elements.empty(); ++i)
        add_probe(elements[i * (elements.size() - 1) / (most_probes - 2)].index);
    elements.insert(elements.begin(), verdict_.worst.begin(), verdict_.worst.end());
    for (const ProgramElement& element : elements) {
        if (parts_.size() < wrong_parts) add(around(element.index, part_indices), parts_);
    }
    for (std::size_t i = 0; i < other_parts; ++i)
        add(around(random_element(call_, wrong_, i), part_indices), parts_);
    for (std::size_t i = 0; i < other_tiles; ++i)
        add(tile_around(random_element(call_, wrong_, 100 + i)), tiles_);
}

/// What the program as it is says of a part.
void SearchedCall::look_at(CallPart& part) const {
    const ProgramArray& array = program_.array(wrong_);
    const ObserveTile observe = [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (tile.stage != wrong_) return;
        std::vector<double> got(std::size_t(tile.size()));
        std::vector<char> known(got.size(), 0);
        stored_.read(tile, got, known);
        for (std::size_t i = 0; i < got.size(); ++i) {
            const bool is_right =
                known[i] == 0 || is_as_expected(got[i], expected.value[i], expected.error[i]);
            LookedElement& element = part.elements.emplace_back(
                LookedElement{{},
                              got[i],
                              is_right,
                              known[i] != 0,
                              !is_right && std::isnan(got[i]) && !std::isnan(expected.value[i]),
                              std::abs(got[i] - expected.value[i])});
            const std::vector<std::int64_t> index = tile.index_of(std::int64_t(i));
            for (std::size_t k = 0; k < index.size(); ++k)
                element.at[std::size_t(program_.axis_of(array.indices[k]))] = std::int32_t(index[k]);
            if (array.over >= 0)
                element.at[std::size_t(array.over)] =
                    std::int32_t(tile.block * call_.blocks[std::size_t(array.over)]);
        }
    };
    TileRun run = run_of(part.ranges, observe);
    run.run(rewritten_);
    if (!healthy_.empty()) return;
    part.results.resize(program_.arrays.size());
    for (const int stage : rewritten_) part.results[std::size_t(stage)] = run.stored(stage);
}

void SearchedCall::set_none_apart() {
    std::array<std::int64_t, 2> counts{};
    for (const CallPart& tile : tiles_) {
        for (const LookedElement& element : tile.elements) {
            if (!element.is_right) ++counts[element.is_none ? 1 : 0];
        }
    }
    sets_none_apart_ = counts[0] > 0 && counts[1] > 0;
    if (!sets_none_apart_) return;
    for (std::vector<CallPart>* const parts : {&probes_, &rows_, &parts_, &tiles_}) {
        for (CallPart& part : *parts) {
            for (LookedElement& element : part.elements)
                element.is_known = element.is_known && !element.is_none;
        }
    }
}

bool SearchedCall::is_kept_wider() const {
    const Dtype dtype = program_.array(wrong_).dtype;
    return dtype != Dtype::f32 && std::ranges::any_of(tiles_, [&](const CallPart& tile) {
               return std::ranges::any_of(tile.elements, [&](const LookedElement& element) {
                   return element.is_known && !element.is_right && std::isfinite(element.got) &&
                          !is_number_of(dtype, element.got);
               });
           });
}

/// What is stored of a state holds what it begins with as well.
bool SearchedCall::starts_are_declared() const {
    for (std::size_t i = 0; i < declared_starts_.size(); ++i)
        if (program_.arrays[i].start != declared_starts_[i]) return false;
    return true;
}

const StoredStage& SearchedCall::started(int stage, const StoredStage& stored) const {
    const int start = program_.array(stage).start;
    if (start == declared_starts_[std::size_t(stage)]) return stored;
    const auto [found, is_new] = started_.try_emplace(start, stored);
    if (is_new) start_anew(call_, stage, found->second);
    return found->second;
}

TileRun SearchedCall::run_of(const AxisRanges& ranges, const ObserveTile& observe) const {
    TileRun run(call_, options_, ranges, observe);
    for (const auto& [stage, stored] : known_) run.know(stage, started(stage, stored));
    if (own_states_ && program_.array(wrong_).start == declared_starts_[std::size_t(wrong_)])
        run.read_stored(wrong_, *own_states_);
    return run;
}

namespace {

/// Bits by which an element is nearer to what a mistake expects, within an error, than it was.
double evidence_of(double off, double error) {
    constexpr double most = 16;
    const double times = off / error;
    return std::isfinite(times) ? std::clamp(std::log2(times), 0.0, most) : most;
}

/// The same where the kernel has taken the end of an interval: few of its numbers are at one.
double evidence_of_end(double got, Uncertain expected) {
    const double off = distance_from(expected.value, expected.error, got);
    const bool is_at_end = off < std::abs(got - expected.value);
    return is_at_end ? evidence_of(expected.error, std::max(off, 4 * u_f32 * std::abs(got))) : 0;
}

/// What overflows and what is no number is so by many formulas; minus infinity is what masks leave.
bool is_telling(double got) {
    return std::isfinite(got) || (std::isinf(got) && got < 0);
}

/// What the rewritten program expects of an element.
void look(const LookedElement& element, Uncertain expected, const std::optional<LostDigits>& lost,
          RewriteOutcome& outcome) {
    if (!element.is_known) {
        outcome.apart += element.is_none ? 1 : 0;
        outcome.apart_right +=
            element.is_none && std::isnan(expected.value) && std::isfinite(expected.error) ? 1 : 0;
        return;
    }
    ++(element.is_right ? outcome.right : outcome.wrong);
    const bool is_of_type = !lost || !std::isfinite(element.got) || lost->lacks(element.got);
    const bool is_near = is_as_expected(element.got, expected.value, expected.error) && is_of_type;
    // Of what is computed from what nobody knows, as beyond an array, nothing is expected.
    const bool is_open = std::isnan(expected.value) && std::isinf(expected.error);
    const bool is_right = is_near || (std::isnan(element.got) && std::isnan(expected.value) && !is_open);
    if (element.is_right) {
        if (!is_right) (is_open ? outcome.right_open : outcome.broken).push_back(&element);
    } else if (is_near && lost && expected.error >= element.off) {
        // Every other number ends in other digits.
        outcome.explained.push_back(&element);
        outcome.evidence += lost->digits;
    } else if (is_near && expected.error >= element.off) {
        // Within a tolerance only because that became wider.
        ++outcome.swallowed;
    } else if (is_right) {
        outcome.explained.push_back(&element);
        if (is_telling(element.got))
            outcome.evidence +=
                std::max(evidence_of(element.off, expected.error), evidence_of_end(element.got, expected));
    } else {
        ++(is_open ? outcome.open : outcome.unexplained);
    }
}

}  // namespace

void SearchedCall::replay(const CallPart& part, int stage, const LookAtElement& look) const {
    std::size_t next = 0;
    const ObserveTile observe = [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (tile.stage != wrong_) return;
        for (std::size_t i = 0; i < expected.value.size() && next < part.elements.size(); ++i, ++next)
            look(part.elements[next], {expected.value[i], expected.error[i]});
    };
    TileRun run = run_of(part.ranges, observe);
    if (starts_are_declared()) run.remember({&steady_, &part.remembered});
    for (const int i : rewritten_) {
        if (i >= stage || goes_round_) break;
        run.know(i, healthy_.empty() ? part.results[std::size_t(i)] : healthy_.at(i));
    }
    run.run(rewritten_);
}

void SearchedCall::look_at_rows(int stage, std::size_t most, const LookAtElement& look) const {
    for (std::size_t i = 0; i < std::min(rows_.size(), most); ++i) replay(rows_[i], stage, look);
}

void SearchedCall::look_at_parts(int stage, const LookAtElement& look) const {
    for (const CallPart& part : parts_) replay(part, stage, look);
}

bool SearchedCall::explains_a_probe(int stage, double share) const {
    // What explains all but few elements explains one of the first two.
    const bool is_of_all = share >= most_of_wrong;
    RewriteOutcome outcome;
    const std::optional<LostDigits> lost = lost_digits();
    const auto add = [&](const LookedElement& element, Uncertain expected) {
        look(element, expected, lost, outcome);
    };
    for (const CallPart& probe : probes_) {
        replay(probe, stage, add);
        if (!outcome.explained.empty()) return true;
        if (is_of_all && outcome.unexplained + outcome.swallowed > 1) return false;
    }
    return outcome.wrong == 0;
}

RewriteOutcome SearchedCall::outcome_in(const std::vector<CallPart>& parts, int stage, double share) const {
    RewriteOutcome outcome;
    double wrong = 0;
    for (const CallPart& part : parts) {
        for (const LookedElement& element : part.elements)
            wrong += element.is_known && !element.is_right ? 1 : 0;
    }
    if (wrong == 0) return outcome;
    const std::optional<LostDigits> lost = lost_digits();
    const auto add = [&](const LookedElement& element, Uncertain expected) {
        look(element, expected, lost, outcome);
    };
    for (const CallPart& part : parts) {
        replay(part, stage, add);
        if (double(outcome.unexplained) > (1 - share) * wrong) return outcome;
    }
    // As where a cast may go either way.
    if (3 * outcome.swallowed > std::ssize(outcome.explained)) outcome.unexplained += outcome.swallowed;
    outcome.is_possible =
        double(outcome.open) <= most_open * wrong && double(outcome.unexplained) <= (1 - share) * wrong;
    return outcome;
}

bool SearchedCall::takes_part_in(int stage, int reader) const {
    if (reads(program_, program_.array(reader).value, stage)) return true;
    for (int i = 0; i < reader; ++i) {
        if (i != stage && program_.array(i).is_stage && !stored_.has(i) &&
            reads(program_, program_.array(reader).value, i) && takes_part_in(stage, i))
            return true;
    }
    return false;
}

}  // namespace tilescope
