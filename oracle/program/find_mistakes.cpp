#include "oracle/program/find_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <ranges>
#include <utility>

#include "dump/schema/error.h"
#include "oracle/program/rewrites.h"
#include "oracle/program/tile_run.h"

namespace tilescope {

namespace {

/// Indices of an axis that a part of the call has, and parts that are replayed.
constexpr std::int64_t part_indices = 4;
constexpr std::size_t wrong_parts = 6;
constexpr std::size_t other_parts = 4;
/// Of the elements that were wrong, and of those that were right, that a mistake has to explain.
constexpr double most_of_wrong = 0.98;
constexpr double most_of_right = 0.998;
/// Work that a search does at most: about ten seconds of one core.
constexpr std::int64_t most_elements = 300'000'000;

bool reads(const Program& program, int number, int array) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && node.what == array) return true;
    return std::ranges::any_of(node.of,
                               [&](int operand) { return operand >= 0 && reads(program, operand, array); });
}

/// An element of a part, with what is known of it.
struct Looked {
    std::vector<std::int64_t> index;
    std::int64_t block = -1;
    double got = 0;
    bool is_right = false;  ///< by the program as it is
    bool is_known = true;
    double off = 0;  ///< how far it is from what that expects
    Uncertain expected{};
};

/// Where a number lies that all elements leave open, as far as they do.
struct Between {
    double low = -HUGE_VAL;
    double high = HUGE_VAL;

    void take(double one, double other) {
        low = std::max(low, std::min(one, other));
        high = std::min(high, std::max(one, other));
    }
    /// The shortest number there, and its digits; nullopt: there is none, or none that is short.
    std::optional<std::pair<double, int>> shortest() const {
        if (!(low <= high) || !std::isfinite(low) || !std::isfinite(high)) return std::nullopt;
        for (int digits = 1; digits <= 9; ++digits) {
            const double number = std::stod(fmt::format("{:.{}g}", (low + high) / 2, digits));
            if (number >= low && number <= high) return std::pair{number, digits};
        }
        return std::nullopt;
    }
};

/// A part of the call: some indices of its independent axes.
struct Part {
    AxisRanges ranges{};
    std::vector<Looked> elements;      ///< of the stage that is wrong
    std::vector<StoredStage> results;  ///< of stages that were not stored, healthy; others are empty
};

class MistakeSearch {
 public:
    MistakeSearch(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                  const ProgramOptions& options)
        : program_(call.program),
          call_{program_, call.sizes, call.extents, call.blocks, call.inputs},
          stored_(stored),
          wrong_(report.first_wrong),
          options_(options),
          report_(report),
          verdict_(report.verdict_of(wrong_)) {
        options_.stored = &stored;
    }

    FoundMistakes run() {
        choose_stages();
        choose_parts();
        for (Part& part : parts_) look_at(part);
        count();
        if (wrong_count_ == 0) return {};
        std::vector<bool> there(program_.arrays.size());
        for (std::size_t i = 0; i < there.size(); ++i)
            there[i] = !program_.arrays[i].is_stage || whole_.contains(int(i));
        for (const int stage : rewritten_) there[std::size_t(stage)] = true;
        // The stage itself first.
        for (const int stage : rewritten_ | std::views::reverse) {
            for (const ProgramRewrite& rewrite : rewrites_of(program_, stage, there)) try_out(stage, rewrite);
        }
        for (const ProgramRewrite& rewrite : with_solved_numbers()) try_out(wrong_, rewrite);
        return {best(), is_cut_off_};
    }

 private:
    /// The wrong stage, and those that it is computed from and that were not stored.
    void choose_stages() {
        const int count = int(program_.arrays.size());
        std::vector<bool> needed(program_.arrays.size());
        std::vector<int> open{wrong_};
        while (!open.empty()) {
            const int reader = open.back();
            open.pop_back();
            if (needed[std::size_t(reader)]) continue;
            needed[std::size_t(reader)] = true;
            for (int i = 0; i < count; ++i) {
                if (program_.array(i).is_stage && !stored_.has(i) &&
                    (reads(program_, program_.array(reader).value, i) ||
                     (program_.array(reader).start >= 0 && reads(program_, program_.array(reader).start, i))))
                    open.push_back(i);
            }
        }
        for (int i = 0; i < count; ++i) {
            if (!program_.array(i).is_stage) continue;
            if (needed[std::size_t(i)]) rewritten_.push_back(i);
            if (i != wrong_ && stored_.has(i)) whole_.emplace(i, stored_stage(call_, options_, i));
        }
        // A stage that takes the state of a later one goes with it.
        goes_round_ = rewritten_.back() > wrong_;
    }

    /// Around an element: neighbours along the axes that every index goes through by itself.
    Part around(const std::vector<std::int64_t>& index) const {
        Part part;
        for (std::size_t axis = 0; axis < call_.extents.size(); ++axis)
            part.ranges[axis] = {0, call_.extents[axis]};
        const ProgramArray& array = program_.array(wrong_);
        for (const int axis : independent_axes(program_, rewritten_)) {
            for (std::size_t i = 0; i < array.indices.size(); ++i) {
                if (program_.axis_of(array.indices[i]) != axis) continue;
                const std::int64_t extent = call_.extents[std::size_t(axis)];
                const std::int64_t first =
                    std::max<std::int64_t>(0, std::min(index[i] - 1, extent - part_indices));
                part.ranges[std::size_t(axis)] = {first, std::min(part_indices, extent - first)};
            }
        }
        return part;
    }

    void choose_parts() {
        std::vector<ProgramElement> elements = verdict_.samples;
        elements.insert(elements.begin(), verdict_.worst.begin(), verdict_.worst.end());
        const auto add = [&](const Part& part) {
            const bool is_new = std::ranges::none_of(parts_, [&](const Part& other) {
                return std::ranges::equal(part.ranges, other.ranges,
                                          [](const AxisRange& a, const AxisRange& b) {
                                              return a.first == b.first && a.count == b.count;
                                          });
            });
            if (is_new) parts_.push_back(part);
        };
        for (const ProgramElement& element : elements) {
            if (parts_.size() < wrong_parts) add(around(element.index));
        }
        std::mt19937_64 random(1);
        for (std::size_t i = 0; i < other_parts; ++i) {
            std::vector<std::int64_t> index;
            for (const int of : program_.array(wrong_).indices)
                index.push_back(
                    std::int64_t(random() % std::uint64_t(call_.extents[std::size_t(program_.axis_of(of))])));
            add(around(index));
        }
    }

    /// What the program as it is says of a part.
    void look_at(Part& part) {
        const ObserveTile observe = [&](const ProgramTile& tile, const ExpectedTile& expected) {
            if (tile.stage != wrong_) return;
            std::vector<double> got(std::size_t(tile.size()));
            std::vector<char> known(got.size(), 0);
            stored_.read(tile, got, known);
            for (std::size_t i = 0; i < got.size(); ++i)
                part.elements.push_back(
                    {tile.index_of(std::int64_t(i)),
                     tile.block,
                     got[i],
                     known[i] == 0 || is_as_expected(got[i], expected.value[i], expected.error[i]),
                     known[i] != 0,
                     std::abs(got[i] - expected.value[i]),
                     {expected.value[i], expected.error[i]}});
        };
        TileRun run = run_of(part, observe);
        run.run(rewritten_);
        part.results.resize(program_.arrays.size());
        for (const int stage : rewritten_) part.results[std::size_t(stage)] = run.stored(stage);
    }

    void count() {
        for (const Part& part : parts_) {
            for (const Looked& element : part.elements)
                (element.is_right ? right_count_ : wrong_count_) += element.is_known ? 1 : 0;
        }
    }

    /// The result times a number, or with one more term, where that is the same for all that is wrong.
    std::vector<ProgramRewrite> with_solved_numbers() {
        Between factor;
        Between term;
        std::int64_t wrong = 0;
        for (const Part& part : parts_) {
            for (const Looked& element : part.elements) {
                const auto [value, error] = element.expected;
                if (!element.is_known || element.is_right || !std::isfinite(error) ||
                    !std::isfinite(element.off))
                    continue;
                ++wrong;
                // Both were rounded as they were stored.
                const Dtype dtype = program_.array(wrong_).dtype;
                const double of_got = cast_bound(dtype, std::abs(element.got));
                const double of_value = error + cast_bound(dtype, std::abs(value));
                term.take(element.got - value - of_got - of_value, element.got - value + of_got + of_value);
                if (!(std::abs(value) > of_value)) continue;
                const double ratio = element.got / value;
                const double off = (of_got + std::abs(ratio) * of_value) / (std::abs(value) - of_value);
                factor.take(ratio - off, ratio + off);
            }
        }
        // Of one element any number is right.
        if (wrong < 4) return {};
        const int value = program_.array(wrong_).value;
        std::vector<ProgramRewrite> all;
        const auto add = [&](ProgramOp op, const Between& between) {
            const std::optional<std::pair<double, int>> number = between.shortest();
            if (!number) return;
            program_.nodes.push_back({.op = ProgramOp::number, .number = number->first});
            program_.nodes.push_back({.op = op, .of = {value, int(program_.nodes.size()) - 1, -1}});
            all.push_back(
                {int(program_.nodes.size()) - 1, std::nullopt, 10 + 3.4 * number->second, "number"});
        };
        add(ProgramOp::times, factor);
        add(ProgramOp::plus, term);
        return all;
    }

    TileRun run_of(const Part& part, const ObserveTile& observe) const {
        TileRun run(call_, options_, part.ranges, observe);
        for (const auto& [stage, stored] : whole_) run.know(stage, stored);
        return run;
    }

    void try_out(int stage, const ProgramRewrite& rewrite) {
        if (elements_computed() - begun_ > most_elements) {
            is_cut_off_ = true;
            return;
        }
        ProgramArray& array = program_.arrays[std::size_t(stage)];
        const int value = std::exchange(array.value, rewrite.value);
        const Dtype dtype = std::exchange(array.dtype, rewrite.dtype.value_or(array.dtype));
        Outcome outcome;
        try {
            outcome = outcome_of(stage);
        } catch (const Error&) {
            // It needs too much memory at once.
            is_cut_off_ = true;
        }
        array.value = value;
        array.dtype = dtype;
        if (!outcome.is_possible) return;
        ProgramMistake mistake{.stage = stage,
                               .slot = rewrite.slot,
                               .becomes = program_text(program_, rewrite.value),
                               .bits = rewrite.bits + (stage == wrong_ ? 0 : 2)};
        if (rewrite.dtype)
            mistake.becomes = std::string(dtype_info(*rewrite.dtype).name) + ": " + mistake.becomes;
        mistake.healthy = double(right_count_) / double(right_count_ + wrong_count_);
        if (outcome.broken > 0) {
            const std::optional<Rule> rule = rule_of(outcome);
            if (!rule) return;
            mistake.where = rule->text;
            mistake.bits += rule->bits;
            outcome.broken = rule->broken;
        }
        mistake.explained =
            1 - double(outcome.broken + outcome.unexplained) / double(right_count_ + wrong_count_);
        found_.push_back({std::move(mistake), rewrite.value, rewrite.dtype.value_or(array.dtype)});
    }

    struct Found {
        ProgramMistake mistake;
        int value = -1;
        Dtype dtype = Dtype::f32;
    };

    /// What a rewrite makes of the elements.
    struct Outcome {
        bool is_possible = false;
        std::int64_t unexplained = 0;  ///< wrong before, and still
        std::int64_t broken = 0;       ///< right before, and wrong with it
        std::vector<const Looked*> changed_rightly;
        std::vector<const Looked*> changed_wrongly;
    };

    Outcome outcome_of(int stage) {
        Outcome outcome;
        for (const Part& part : parts_) {
            std::size_t next = 0;
            const ObserveTile observe = [&](const ProgramTile& tile, const ExpectedTile& expected) {
                if (tile.stage != wrong_) return;
                for (std::size_t i = 0; i < expected.value.size() && next < part.elements.size();
                     ++i, ++next) {
                    const Looked& element = part.elements[next];
                    if (!element.is_known) continue;
                    // What is within a tolerance only because that became wider is not explained.
                    const bool is_right = is_as_expected(element.got, expected.value[i], expected.error[i]) &&
                                          (element.is_right || !(expected.error[i] >= element.off));
                    if (!element.is_right && !is_right) ++outcome.unexplained;
                    if (!element.is_right && is_right) outcome.changed_rightly.push_back(&element);
                    if (element.is_right && !is_right) outcome.changed_wrongly.push_back(&element);
                }
            };
            TileRun run = run_of(part, observe);
            for (int i = 0; i < stage && !goes_round_; ++i) {
                if (!part.results[std::size_t(i)].states.empty()) run.know(i, part.results[std::size_t(i)]);
            }
            run.run(rewritten_);
            if (double(outcome.unexplained) > (1 - most_of_wrong) * double(wrong_count_)) return outcome;
        }
        outcome.broken = std::int64_t(outcome.changed_wrongly.size());
        outcome.is_possible = true;
        if (double(outcome.broken) <= (1 - most_of_right) * double(right_count_)) outcome.broken = 0;
        return outcome;
    }

    struct Rule {
        std::string text;
        double bits = 0;
        std::int64_t broken = 0;
    };

    /// A condition of one coordinate that holds of the elements that are wrong, and of none that it would break.
    std::optional<Rule> rule_of(const Outcome& outcome) const {
        const ProgramArray& array = program_.array(wrong_);
        std::optional<Rule> best;
        const auto look = [&](const std::string& name, std::int64_t extent, std::int64_t block,
                              const auto& number_of) {
            const auto holds_apart = [&](const auto& condition) {
                std::int64_t broken = 0;
                for (const Looked* const element : outcome.changed_rightly) {
                    if (!condition(number_of(*element))) return std::int64_t(-1);
                }
                for (const Looked* const element : outcome.changed_wrongly)
                    broken += condition(number_of(*element)) ? 1 : 0;
                return broken;
            };
            const auto offer = [&](const std::string& text, double bits, const auto& condition) {
                const std::int64_t broken = holds_apart(condition);
                if (broken < 0 || double(broken) > (1 - most_of_right) * double(right_count_)) return;
                if (!best || bits < best->bits) best = {text, bits, broken};
            };
            std::int64_t least = extent;
            std::int64_t most = 0;
            for (const Looked* const element : outcome.changed_rightly) {
                least = std::min(least, number_of(*element));
                most = std::max(most, number_of(*element));
            }
            const double bits = 4 + std::log2(double(extent) + 1);
            if (least == most)
                offer(name + " == " + std::to_string(least), bits,
                      [=](std::int64_t x) { return x == least; });
            if (least > 0)
                offer(name + " >= " + std::to_string(least), bits,
                      [=](std::int64_t x) { return x >= least; });
            if (most + 1 < extent)
                offer(name + " < " + std::to_string(most + 1), bits,
                      [=](std::int64_t x) { return x <= most; });
            for (std::int64_t by :
                 {std::int64_t(2), std::int64_t(4), std::int64_t(8), std::int64_t(16), block}) {
                if (by < 2 || by >= extent) continue;
                const std::int64_t rest = least % by;
                offer(name + " % " + std::to_string(by) + " == " + std::to_string(rest), bits + 4,
                      [=](std::int64_t x) { return x % by == rest; });
            }
        };
        for (std::size_t i = 0; i < array.indices.size(); ++i) {
            const auto axis = std::size_t(program_.axis_of(array.indices[i]));
            look(program_.axes[axis].name, call_.extents[axis], call_.blocks[axis],
                 [i](const Looked& element) { return element.index[i]; });
        }
        if (array.over >= 0)
            look(program_.axes[std::size_t(array.over)].name + " / " +
                     std::to_string(call_.blocks[std::size_t(array.over)]),
                 call_.blocks_of(array.over), 0, [](const Looked& element) { return element.block; });
        return best;
    }

    /// Whether stages that were right would not be, with the mistake in what they take as well.
    bool is_contradicted(const Found& found) {
        const int stage = found.mistake.stage;
        const bool has_others = std::ranges::any_of(report_.stages, [&](const StageVerdict& other) {
            return other.stage != wrong_ && other.outside == 0 && other.stage > stage &&
                   takes_part_in(stage, other.stage);
        });
        if (stage == wrong_ || !has_others || !found.mistake.where.empty()) return false;
        ProgramArray& array = program_.arrays[std::size_t(stage)];
        const int value = std::exchange(array.value, found.value);
        const Dtype dtype = std::exchange(array.dtype, found.dtype);
        const ProgramReport with = judge_program(call_, stored_, options_);
        array.value = value;
        array.dtype = dtype;
        return std::ranges::any_of(with.stages, [&](const StageVerdict& verdict) {
            return verdict.outside > 0 && report_.verdict_of(verdict.stage).outside == 0;
        });
    }

    /// Whether a stage is computed from another, directly or by way of what was not stored.
    bool takes_part_in(int stage, int reader) const {
        if (reads(program_, program_.array(reader).value, stage)) return true;
        for (int i = 0; i < reader; ++i) {
            if (i != stage && program_.array(i).is_stage && !stored_.has(i) &&
                reads(program_, program_.array(reader).value, i) && takes_part_in(stage, i))
                return true;
        }
        return false;
    }

    std::vector<ProgramMistake> best() {
        std::ranges::stable_sort(found_, {}, [](const Found& found) { return found.mistake.bits; });
        std::vector<ProgramMistake> all;
        for (const Found& found : found_) {
            const ProgramMistake& mistake = found.mistake;
            if (!all.empty() && (mistake.bits > all.front().bits + 1 || all.size() == 4)) break;
            const bool is_told = std::ranges::any_of(all, [&](const ProgramMistake& other) {
                return other.stage == mistake.stage && other.becomes == mistake.becomes &&
                       other.where == mistake.where;
            });
            if (!is_told && !is_contradicted(found)) all.push_back(mistake);
        }
        return all;
    }

    Program program_;
    ProgramCall call_;
    const StoredTiles& stored_;
    int wrong_;
    ProgramOptions options_;
    const ProgramReport& report_;
    const StageVerdict& verdict_;
    std::vector<int> rewritten_;
    bool goes_round_ = false;
    std::int64_t begun_ = elements_computed();
    bool is_cut_off_ = false;
    std::map<int, StoredStage> whole_;  ///< as it was stored
    std::vector<Part> parts_;
    std::int64_t wrong_count_ = 0;
    std::int64_t right_count_ = 0;
    std::vector<Found> found_;
};

}  // namespace

FoundMistakes find_mistakes(const ProgramCall& call, const StoredTiles& stored, const ProgramReport& report,
                            ProgramOptions options) {
    if (report.first_wrong < 0) return {};
    try {
        return MistakeSearch(call, stored, report, options).run();
    } catch (const Error&) {
        // What is wrong is known: that a search for more takes too much memory is no reason to leave it out.
        return {.is_cut_off = true};
    }
}

}  // namespace tilescope
