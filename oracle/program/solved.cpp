#include "oracle/program/solved.h"

#include <algorithm>
#include <cmath>

#include "oracle/program/grown_state.h"
#include "oracle/solve/effort.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

constexpr std::size_t most_rewrites = 48;
constexpr std::size_t most_rewrites_of_half = 6;
constexpr std::int64_t most_samples_of_half = 200;
constexpr std::int64_t most_effort_of_halves = 200'000'000;
/// Blocks of a state that are looked at of each tile: that are right, and that are wrong.
constexpr std::array<int, 2> most_blocks = {2, 4};
constexpr double broken_share = 0.002;
/// Of as many that are wrong; more of the right ones are looked at.
constexpr double right_by_chance = 0.25;

bool is_condition(ProgramOp op) {
    return op >= ProgramOp::less && op <= ProgramOp::opposite;
}

/// A tile of the wrong stage, as the kernel stored it, along axes that rise.
struct StoredTile {
    AxisRanges ranges{};
    Numbers numbers{};
    bool is_wrong = false;
};

StoredTile stored_tile(const SearchedCall& searched, const ProgramTile& tile, const ExpectedTile& expected) {
    std::vector<double> got(std::size_t(tile.size()));
    std::vector<char> known(got.size(), 0);
    searched.stored().read(tile, got, known);
    const ProgramArray& array = searched.call().program.array(tile.stage);
    StoredTile stored;
    Numbers numbers;
    for (std::size_t i = 0; i < tile.indices.size(); ++i) {
        numbers.axes.push_back(searched.call().program.axis_of(array.indices[i]));
        numbers.extents.push_back(tile.indices[i].count);
        stored.ranges[std::size_t(numbers.axes.back())] = tile.indices[i];
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
        const bool is_known = known[i] != 0 && !std::isnan(expected.value[i]) &&
                              !(searched.sets_none_apart() && std::isnan(got[i]));
        numbers.value.push_back(is_known ? got[i] : 0);
        // Infinity is that, however it is rounded.
        const double cast = std::isinf(got[i]) ? 0 : cast_bound(array.dtype, std::abs(got[i]));
        numbers.error.push_back(is_known ? expected.error[i] + cast : HUGE_VAL);
        stored.is_wrong =
            stored.is_wrong || (is_known && !is_as_expected(got[i], expected.value[i], expected.error[i]));
    }
    std::vector<int> rising = numbers.axes;
    std::ranges::sort(rising);
    std::vector<std::int64_t> extents;
    for (const int axis : rising) extents.push_back(stored.ranges[std::size_t(axis)].count);
    stored.numbers = laid_out(std::move(numbers), rising, extents);
    if (array.over >= 0)
        stored.ranges[std::size_t(array.over)] = {
            tile.block * searched.call().blocks[std::size_t(array.over)], 1};
    return stored;
}

std::vector<ProgramRewrite> rewrites_from(const FormulaSamples& samples, Program& program, std::size_t most) {
    RewriteOffers offers(program, samples);
    for (const auto& [number, of] : samples.nodes()) {
        if (of.wrong < fewest_places) continue;
        const ProgramOp op = program.node(number).op;
        if (is_condition(op)) {
            offer_conditions(offers, of);
            continue;
        }
        offer_functions(offers, of);
        offer_operands(offers, of);
        if (op != ProgramOp::read && !is_reduction(op) && number != program.array(of.stage).value) continue;
        offer_indices(offers, of);
        offer_tile_maps(offers, of);
        offer_flat_reads(offers, of);
    }
    for (const auto& [number, of] : samples.sums()) {
        offer_functions_of_terms(offers, of);
        if (program.node(number).op != ProgramOp::sum) {
            offer_bounds(offers, of);
            continue;
        }
        offer_weights(offers, of);
        offer_casts_of_some(offers, of);
        offer_bounds(offers, of);
    }
    std::vector<ProgramRewrite> found = offers.take();
    const double places = 4 + std::log2(double(samples.nodes().size() + samples.sums().size()) + 1);
    for (ProgramRewrite& rewrite : found) rewrite.bits += places;
    std::ranges::stable_sort(found, {}, &ProgramRewrite::bits);
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace

namespace {

/// What the kernel computes once, and the formula has at both ends of what its own choice leaves.
void collect_alike(const Program& program, int number, int like, std::vector<int>& alike) {
    if (are_alike(program, number, like)) {
        if (std::ranges::find(alike, number) == alike.end()) alike.push_back(number);
        return;
    }
    for (const int operand : program.node(number).of) {
        if (operand >= 0) collect_alike(program, operand, like, alike);
    }
}

bool has_choice(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    return node.op == ProgramOp::between || std::ranges::any_of(node.of, [&](int operand) {
               return operand >= 0 && has_choice(program, operand);
           });
}

}  // namespace

void RewriteOffers::add(int stage, int node, int instead, double bits, const char* slot) {
    int formula = program_.array(stage).value;
    std::vector<int> alike;
    if (has_choice(program_, formula)) collect_alike(program_, formula, node, alike);
    for (const int one : alike) formula = build_.with_node(formula, one, node);
    found_.push_back({stage, build_.with_node(formula, node, instead), std::nullopt, bits, slot});
    if (program_.node(node).op != ProgramOp::read) return;
    // What is loaded once stands at all places of the formula that read it.
    std::vector<int> loads;
    collect_alike(program_, formula, node, loads);
    if (loads.size() < 2) return;
    for (const int load : loads) formula = build_.with_node(formula, load, instead);
    found_.push_back({stage, formula, std::nullopt, bits, slot});
}

namespace {

/// What the node is where these values are needed, and not where they would break it: below a number, or above it.
std::optional<FoundCondition> condition_by_value(ProgramBuilder& build, const NodeSamples& of,
                                                 const std::vector<double>& values) {
    std::vector<double> inside;
    std::vector<double> outside;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const NodeSample& sample = of.samples[i];
        if (sample.is_wrong == sample.agrees(values[i]))
            (sample.is_wrong ? inside : outside).push_back(sample.right);
    }
    if (std::ssize(inside) < fewest_places || std::ssize(outside) < fewest_places) return std::nullopt;
    const auto [least_in, most_in] = std::ranges::minmax(inside);
    const auto [least_out, most_out] = std::ranges::minmax(outside);
    const bool is_below = most_in < least_out;
    if (!is_below && !(most_out < least_in)) return std::nullopt;
    const double low = is_below ? most_in : most_out;
    const double high = is_below ? least_out : least_in;
    if (!std::isfinite(low) || !std::isfinite(high)) return std::nullopt;
    const KnownNumber bound = simplest_number((low + high) / 2, (high - low) / 2, {});
    return FoundCondition{
        build.of_two(is_below ? ProgramOp::less : ProgramOp::more, of.node, build.real(bound.value)),
        bits_of_real + (bound.is_round ? 0 : bits_of_real_that_is_not_round)};
}

/// That a state grew in the block where these values are needed, and stayed as it was where they would break what is right.
std::optional<FoundCondition> condition_by_state(const FormulaSamples& samples, ProgramBuilder& build,
                                                 const NodeSamples& of, const std::vector<double>& values) {
    const Program& program = samples.call().program;
    for (int array = 0; array < of.stage; ++array) {
        const ProgramArray& state = program.array(array);
        const auto is_known = [&](int index) {
            return std::ranges::find(of.axes, program.axis_of(index)) != of.axes.end();
        };
        const bool is_in_block = state.over >= 0 && (state.over == program.array(of.stage).over ||
                                                     std::ranges::find(of.axes, state.over) != of.axes.end());
        if (!is_in_block || !std::ranges::all_of(state.indices, is_known)) continue;
        bool is_whole = true;  // What is not known did not stay as it was.
        std::array<std::array<std::int64_t, 2>, 2> counts{};
        for (std::size_t i = 0; i < values.size(); ++i) {
            const NodeSample& sample = of.samples[i];
            if (sample.is_wrong != sample.agrees(values[i])) continue;
            const double after = samples.state_at(of, sample, array, ProgramState::after);
            const double before = samples.state_at(of, sample, array, ProgramState::before);
            is_whole = is_whole && !std::isnan(after) && !std::isnan(before);
            ++counts[sample.is_wrong ? 1 : 0][after > before ? 1 : 0];
        }
        if (!is_whole) continue;
        for (const std::size_t grew : {1, 0}) {
            const bool is_it = double(counts[1][1 - grew]) <= unexplained_share * double(counts[1][grew]) &&
                               double(counts[0][grew]) <= broken_share * double(counts[0][1 - grew]);
            if (!is_it) continue;
            return FoundCondition{state_condition(build, array, grew == 1), bits_of_state};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<RewriteOffers::Outcome> RewriteOffers::outcome_of(const NodeSamples& of,
                                                                const std::vector<double>& values) {
    Outcome outcome;
    std::int64_t unexplained = 0;
    std::int64_t open = 0;  ///< beyond what is known
    std::int64_t right_open = 0;
    std::int64_t broken = 0;
    for (std::size_t i = 0; i < of.samples.size(); ++i) {
        if (std::isnan(values[i])) ++(of.samples[i].is_wrong ? open : right_open);
    }
    // Of what nobody knows a number of a narrow type is right now and then.
    const bool is_chance = double(right_open) <= right_by_chance * double(open);
    for (std::size_t i = 0; i < of.samples.size(); ++i) {
        const NodeSample& sample = of.samples[i];
        const bool agrees = sample.agrees(values[i]);
        if (std::isnan(values[i]) && !sample.is_wrong && is_chance) continue;
        if (sample.is_wrong && !agrees && !std::isnan(values[i])) ++unexplained;
        if (!sample.is_wrong && !agrees) ++broken;
        if (sample.is_wrong == agrees) outcome.places.push_back({sample.at, agrees});
    }
    if (double(unexplained) > unexplained_share * double(of.wrong) ||
        double(open) > most_open * double(of.wrong))
        return std::nullopt;
    // Of two mistakes each leaves some right by chance.
    const double by_chance = of.right < of.wrong ? broken_by_chance * double(of.wrong) : 0;
    outcome.breaks_nothing = double(broken) <= std::max(by_chance, broken_share * double(of.right));
    return outcome;
}

void RewriteOffers::offer_everywhere(const NodeSamples& of, int instead, const std::vector<double>& values,
                                     double bits, const char* slot) {
    const std::optional<Outcome> outcome = outcome_of(of, values);
    if (outcome && outcome->breaks_nothing) add(of.stage, of.node, instead, bits, slot);
}

void RewriteOffers::add_start(int stage, int instead, double bits) {
    found_.push_back({stage, instead, std::nullopt, bits, "start", false, true});
}

void RewriteOffers::offer(const NodeSamples& of, int instead, const std::vector<double>& values, double bits,
                          const char* slot) {
    const std::optional<Outcome> outcome = outcome_of(of, values);
    if (!outcome) return;
    if (outcome->breaks_nothing) return add(of.stage, of.node, instead, bits, slot);
    const std::vector<LabelledIndices>& places = outcome->places;
    std::optional<FoundCondition> condition = find_condition(samples_.call(), build_, places, numbers_of(of));
    if (!condition && !is_condition(program_.node(of.node).op))
        condition = condition_by_value(build_, of, values);
    if (!condition && !is_condition(program_.node(of.node).op))
        condition = condition_by_state(samples_, build_, of, values);
    if (!condition) return;
    if (!is_condition(program_.node(of.node).op))
        return add(of.stage, of.node, build_.chosen(instead, condition->node, of.node),
                   bits + condition->bits, slot);
    const auto is_always = [&](double truth) {
        return std::ranges::all_of(values, [=](double value) { return value == truth; });
    };
    const int elsewhere = build_.add({.op = ProgramOp::opposite, .of = {condition->node, -1, -1}});
    const int here = is_always(1) ? condition->node : build_.both(instead, condition->node);
    const int other = is_always(0) ? build_.both(of.node, elsewhere)
                                   : build_.of_two(ProgramOp::either, here,
                                                   is_always(1) ? of.node : build_.both(of.node, elsewhere));
    add(of.stage, of.node, other, bits + condition->bits, slot);
}

SolvedRewrites::SolvedRewrites(SearchedCall& searched) : searched_(searched), samples_(searched.call()) {
    const int wrong = searched.wrong();
    for (const CallPart& part : searched.tiles()) {
        const TileRun* current = nullptr;
        std::array<int, 2> blocks{};
        observers_.emplace_back([&](const ProgramTile& tile, const ExpectedTile& expected) {
            if (tile.stage != wrong) return;
            const StoredTile stored = stored_tile(searched, tile, expected);
            const std::size_t kind = stored.is_wrong ? 1 : 0;
            if (++blocks[kind] > most_blocks[kind]) return;
            samples_.take({searched.call(), current->view(), current->model_of(wrong), searched.rewritten()},
                          wrong, stored.ranges, std::max<std::int64_t>(tile.block, 0), stored.numbers);
        });
        runs_.push_back(searched.run_of(part.ranges, observers_.back()));
        current = &runs_.back();
        runs_.back().run(searched.rewritten());
    }
}

std::vector<ProgramRewrite> SolvedRewrites::all() const {
    return rewrites_from(samples_, searched_.program(), most_rewrites);
}

std::vector<ProgramRewrite> SolvedRewrites::of_halves() const {
    const Program& program = searched_.program();
    const ProgramArray& array = program.array(searched_.wrong());
    std::vector<int> axes;
    for (const int index : array.indices) axes.push_back(program.axis_of(index));
    std::vector<ProgramRewrite> found;
    Effort effort(most_effort_of_halves);
    Effort* const above = spending_on();
    try {
        const Spending counted(&effort);
        for (const PlaceNumber& number : place_numbers(program, axes)) {
            if (number.kind != PlaceNumber::Kind::within) add_halves(number, found);
        }
    } catch (const EffortUsedUp&) {
        // Those that were found will do.
    }
    if (above != nullptr) above->note(effort.spent());
    return found;
}

void SolvedRewrites::add_halves(const PlaceNumber& number, std::vector<ProgramRewrite>& found) const {
    const bool is_index = number.kind == PlaceNumber::Kind::index;
    for (const std::int64_t step : {1, 8}) {
        for (std::int64_t side = 0; side < 2 && (is_index || step == 1); ++side) {
            const auto is_inside = [&](const AxisIndices& at) {
                return number.of(searched_.call(), at) / step % 2 == side;
            };
            for (ProgramRewrite& rewrite : rewrites_from(samples_.at(is_inside, most_samples_of_half),
                                                         searched_.program(), most_rewrites_of_half))
                found.push_back(std::move(rewrite));
        }
    }
}

}  // namespace tilescope
