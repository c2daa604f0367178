#include "oracle/runs/same_run.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>

#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"
#include "oracle/describe/element_place.h"
#include "oracle/judge/report.h"
#include "oracle/runs/places.h"
#include "oracle/runs/stages_before.h"
#include "oracle/runs/wrong_threads.h"
#include "oracle/solve/place_rule.h"

namespace tilescope {

namespace {

using nlohmann::ordered_json;

/// Rows and columns of a stage's tiles in which the two runs differ.
class ChangedPlaces {
 public:
    ChangedPlaces(const Recording& first, const Recording& second, Stage stage)
        : first_(first), second_(second), stage_(stage), shape_(tile_shape(first.problem(), stage)) {
        rows_.assign(std::size_t(shape_.rows), false);
        columns_.assign(std::size_t(shape_.cols), false);
    }

    void add_to(SameRun& runs) {
        for_each_tile([&](const TileId&, const TilePair& pair) { add(pair, runs); });
        if (const auto places = places_of(rows_)) runs.rows = to_string(*places);
        if (const auto places = places_of(columns_)) runs.columns = to_string(*places);
        runs.where = rule_of(&TilePair::differs);
        const auto map = thread_map(first_.problem(), stage_, first_.threads(), first_.name());
        if (!map || runs.tiles_changed == 0) return;
        const auto threads = wrong_threads(*map, [&](const ShowOwned& show) {
            for_each_tile([&](const TileId& tile, const TilePair& pair) { show_owned(tile, pair, show); });
        });
        if (threads && !threads->among_right_ones) runs.threads = threads->says;
    }

    /// What neither run wrote; nullopt for nothing.
    std::optional<NeverWritten> never_written() const {
        const std::string where = rule_of(&TilePair::is_unwritten_in_both);
        return where == nowhere ? std::nullopt : std::optional(NeverWritten{stage_, where});
    }

 private:
    static constexpr std::string_view nowhere = "nowhere";

    /// A tile of both runs; unwritten in one that does not have it.
    struct TilePair {
        std::vector<float> a;
        std::vector<float> b;
        TileShape extent;

        bool differs(std::size_t at) const {
            return std::bit_cast<std::uint32_t>(a[at]) != std::bit_cast<std::uint32_t>(b[at]);
        }
        bool is_unwritten_in_both(std::size_t at) const { return is_unwritten(a[at]) && is_unwritten(b[at]); }
    };
    using IsInside = bool (TilePair::*)(std::size_t) const;

    void for_each_tile(const std::function<void(const TileId&, const TilePair&)>& visit) const {
        const Problem& problem = first_.problem();
        for (std::int64_t i = 0; i < tile_count(problem, stage_); ++i) {
            const TileId tile = tile_at(problem, stage_, i);
            TilePair pair;
            pair.a.assign(std::size_t(shape_.elements()), std::bit_cast<float>(unwritten_bits));
            pair.b = pair.a;
            const bool in_first = first_.read_tile(stage_, tile, pair.a);
            if (!second_.read_tile(stage_, tile, pair.b) && !in_first) continue;
            const Problem entry = problem_of(problem, first_.side_inputs(), tile.batch);
            pair.extent = tile_extent(entry, stage_, tile);
            visit(tile, pair);
        }
    }

    /// Calls visit(row, col, whether it differs) for each element.
    template <class Visit>
    void for_each_place(const TilePair& pair, const Visit& visit) const {
        for (std::int64_t row = 0; row < pair.extent.rows; ++row)
            for (std::int64_t col = 0; col < pair.extent.cols; ++col)
                visit(row, col, pair.differs(std::size_t(row * shape_.cols + col)));
    }

    /// Which elements are inside: a rule, "everywhere", "nowhere", or "" where no short rule tells.
    std::string rule_of(IsInside is_inside) const {
        constexpr std::int64_t most_places = 60'000;
        constexpr std::size_t coordinates = std::size_t(ElementPlace::col) + 1;
        const std::int64_t elements = tile_count(first_.problem(), stage_) * shape_.elements();
        const std::int64_t step = elements / most_places + 1;
        std::vector<LabelledPlace> places;
        std::int64_t seen = 0;
        std::int64_t inside = 0;
        for_each_tile([&](const TileId& tile, const TilePair& pair) {
            for (std::int64_t row = 0; row < pair.extent.rows; ++row) {
                for (std::int64_t col = 0; col < pair.extent.cols; ++col) {
                    const bool is_in = (pair.*is_inside)(std::size_t(row * shape_.cols + col));
                    inside += is_in;
                    // What is not one of a few is told by some of it.
                    if (seen++ % step != 0 && (!is_in || std::ssize(places) > most_places)) continue;
                    LabelledPlace place;
                    std::ranges::copy(std::array{tile.batch, tile.head, tile.q_block, tile.kv_tile, row, col},
                                      place.at.begin());
                    place.inside = is_in;
                    places.push_back(place);
                }
            }
        });
        if (inside == 0) return std::string(nowhere);
        const std::int64_t exceptions = inside / 500;  // such as elements that are the same by chance
        if (seen - inside <= exceptions) return "everywhere";
        const auto rule = find_place_rule(places, coordinates, exceptions);
        std::array<std::string_view, coordinates> names;
        for (std::size_t at = 0; at < coordinates; ++at) names[at] = place_name(ElementPlace(at), stage_);
        return rule ? rule->text(names) : "";
    }

    void add(const TilePair& pair, SameRun& runs) {
        std::int64_t changed = 0;
        for_each_place(pair, [&](std::int64_t row, std::int64_t col, bool differs) {
            if (!differs) return;
            ++changed;
            rows_[std::size_t(row)] = columns_[std::size_t(col)] = true;
        });
        ++runs.tiles;
        runs.tiles_changed += changed > 0;
        runs.tiles_filled += changed > 0 && changed == pair.extent.elements();
    }

    void show_owned(const TileId& tile, const TilePair& pair, const ShowOwned& show) const {
        bool is_bad = false;
        for_each_place(pair, [&](std::int64_t, std::int64_t, bool differs) { is_bad = is_bad || differs; });
        const Ownership same = is_bad ? Ownership::right : Ownership::no_matter;
        for_each_place(pair, [&](std::int64_t row, std::int64_t col, bool differs) {
            show(tile, row, col, differs ? Ownership::wrong : same);
        });
    }

    const Recording& first_;
    const Recording& second_;
    Stage stage_;
    TileShape shape_;
    std::vector<bool> rows_;
    std::vector<bool> columns_;
};

std::string place_of(const SameRun& runs, const StageDifference& stage) {
    Element element;
    element.tile = stage.first->tile;
    element.row = stage.first->row;
    element.col = stage.first->col;
    return tensor_place_of(runs.problem, stage.stage, element);
}

/// Of inputs, which have as many elements as they like: head by head.
class InputComparison {
 public:
    InputComparison(const Recording& first, const Recording& second, Input input)
        : first_(first), second_(second), shape_(input_shape(first.problem(), input)) {
        result_.input = input;
    }

    std::optional<InputDifference> run() {
        const Problem& problem = first_.problem();
        for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
            const Problem entry = problem_of(problem, first_.side_inputs(), batch);
            const std::int64_t rows = result_.input == Input::q ? entry.seqlen_q : entry.seqlen_kv;
            for (std::int64_t head = 0; head < shape_.heads; ++head) compare(batch, head, rows);
        }
        return result_.changed == 0 ? std::nullopt : std::optional(result_);
    }

 private:
    void compare(std::int64_t batch, std::int64_t head, std::int64_t rows) {
        std::vector<float> a(std::size_t(rows * shape_.cols));
        std::vector<float> b(a.size());
        first_.read_input(result_.input, batch, head, 0, rows, a);
        second_.read_input(result_.input, batch, head, 0, rows, b);
        std::vector<bool> differ(static_cast<std::size_t>(rows), false);
        const std::int64_t before = result_.changed;
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) continue;
            const std::int64_t row = std::int64_t(i) / shape_.cols;
            differ[std::size_t(row)] = true;
            if (result_.changed++ > 0) continue;
            result_.batch = batch;
            result_.head = head;
            result_.row = row;
            result_.col = std::int64_t(i) % shape_.cols;
            result_.first_run = a[i];
            result_.second_run = b[i];
        }
        result_.compared += std::ssize(a);
        if (before > 0 || result_.changed == 0) return;
        if (const auto places = places_of(differ)) result_.rows = to_string(*places);
    }

    const Recording& first_;
    const Recording& second_;
    ArrayShape shape_;
    InputDifference result_;
};

std::string place_of(const InputDifference& arrived) {
    return fmt::format("batch {}, head {}, row {}, column {}", arrived.batch, arrived.head, arrived.row,
                       arrived.col);
}

/// What a step has read of other ranks. Errors: Error where it differs and nothing was sent.
std::optional<InputDifference> compare_inputs(const Recording& first, const Recording& second) {
    const Shard& shard = first.problem().shard;
    const bool was_sent = shard.is_part() && shard.kind == ShardKind::step && shard.step > 0;
    for (const Input input : {Input::q, Input::k, Input::v}) {
        if (!first.has_input(input) || !second.has_input(input)) continue;
        const std::optional<InputDifference> difference = InputComparison(first, second, input).run();
        if (difference && was_sent) return difference;
        if (difference)
            throw Error(
                fmt::format("/inputs/{} differs from {}", input_name(difference->input), second.name()),
                first.name(), "compare two runs with the same inputs");
    }
    return std::nullopt;
}

std::string name_of(const SameRun& runs, Stage stage) {
    return std::string(stage_info(runs.problem, stage).name);
}

/// What is known of where it differs, and of what was never written.
std::string places_text(const SameRun& runs) {
    std::string text = fmt::format("  {} of {} tiles differ, {} of them in every element{}{}{}\n",
                                   runs.tiles_changed, runs.tiles, runs.tiles_filled,
                                   runs.rows.empty() ? "" : "; rows " + runs.rows + " of the tile",
                                   runs.columns.empty() ? "" : "; columns " + runs.columns,
                                   runs.threads.empty() ? "" : "; " + runs.threads);
    if (!runs.where.empty() && runs.where != "everywhere") text += fmt::format("  where {}\n", runs.where);
    for (const NeverWritten& unwritten : runs.never_written) {
        const bool is_ruled = !unwritten.where.empty() && unwritten.where != "everywhere";
        text += fmt::format("  read before it was written: {}{}, which no thread wrote\n",
                            name_of(runs, unwritten.stage), is_ruled ? " where " + unwritten.where : "");
    }
    return text;
}

/// In some lines, as a cause of a report.
std::string cause_text(const SameRun& runs) {
    if (runs.arrived) {
        const Shard& shard = runs.problem.shard;
        const std::string rows =
            runs.arrived->rows.empty()
                ? ""
                : fmt::format("  rows {} of head {}\n", runs.arrived->rows, runs.arrived->head);
        return fmt::format(
            "cause: transfer_incomplete in {}: what rank {} read at step {} differs from run to run: it was "
            "read before all of it had arrived, or sent before all of it was there\n{}  look at: what is "
            "sent to the next rank, and what is waited for before "
            "the kernel\n",
            input_name(runs.arrived->input), shard.rank, shard.step, rows);
    }
    if (runs.changed() == nullptr) return "";
    if (runs.inherits())
        return "no cause: what was received, and outputs at the end, come out of steps, which say what "
               "differs first\n";
    const std::string stage = name_of(runs, runs.changed()->stage);
    if (runs.is_poisoned)
        return fmt::format(
            "cause: read_before_written in {}: memory was filled otherwise before one of the runs (tile-run "
            "poison), and it shows\n{}"
            "  look at: memory that is read before it is written\n"
            "  a race may look the same: tile-run repeat, which fills memory alike, tells\n",
            stage, places_text(runs));
    return fmt::format(
        "cause: racing in {}, or read_before_written: it differs from run to run with the same inputs\n{}"
        "  look at: the barrier before it is read and before it is written again, and memory that is read "
        "before it is written\n"
        "  to tell them apart: tile-run poison, which fills memory in different ways, and tile-run repeat, "
        "which does not\n",
        stage, places_text(runs));
}

/// Racing and read_before_written, which two recordings tell apart only where memory was filled otherwise.
ordered_json causes_json(const SameRun& runs) {
    if (!runs.diverges() || runs.inherits()) return ordered_json::array();
    if (runs.arrived)
        return {{{"name", "transfer_incomplete"},
                 {"family", "race"},
                 {"rank", 1},
                 {"stage", input_name(runs.arrived->input)},
                 {"first", place_of(*runs.arrived)},
                 {"rows", runs.arrived->rows}}};
    ordered_json unwritten = ordered_json::array();
    for (const NeverWritten& place : runs.never_written)
        unwritten.push_back({{"stage", name_of(runs, place.stage)}, {"where", place.where}});
    const ordered_json race = {{"name", "racing"}, {"family", "race"}, {"rank", runs.is_poisoned ? 2 : 1}};
    const ordered_json read = {{"name", "read_before_written"}, {"family", "unwritten / stale"}, {"rank", 1}};
    ordered_json causes = ordered_json::array();
    for (ordered_json cause : runs.is_poisoned ? std::array{read, race} : std::array{race, read}) {
        cause.update({{"stage", name_of(runs, runs.changed()->stage)},
                      {"first", place_of(runs, *runs.changed())},
                      {"tiles", runs.tiles},
                      {"tiles_changed", runs.tiles_changed},
                      {"tiles_filled", runs.tiles_filled},
                      {"rows", runs.rows},
                      {"columns", runs.columns},
                      {"where", runs.where},
                      {"never_written", unwritten},
                      {"threads", runs.threads}});
        causes.push_back(std::move(cause));
    }
    return causes;
}

}  // namespace

SameRun compare_same_run(const Recording& first, const Recording& second) {
    SameRun runs;
    runs.first = first.name();
    runs.second = second.name();
    runs.problem = first.problem();
    const auto poisons = [](const Recording& run) {
        const std::string& command = run.provenance().command;
        // The second as older recordings have it.
        return command.find("tile-run poison ") != std::string::npos ||
               command.find("--poison") != std::string::npos;
    };
    runs.is_poisoned =
        poisons(first) != poisons(second) || first.provenance().poison != second.provenance().poison;
    runs.stages = compare_runs(first, second);
    runs.arrived = compare_inputs(first, second);
    if (const StageDifference* changed = runs.changed()) {
        ChangedPlaces(first, second, changed->stage).add_to(runs);
        for (const Stage stage : stages_before(runs.problem.direction, changed->stage)) {
            auto unwritten = ChangedPlaces(first, second, stage).never_written();
            if (unwritten) runs.never_written.push_back(std::move(*unwritten));
        }
    }
    return runs;
}

std::string summary_of(const SameRun& runs) {
    if (runs.arrived)
        return fmt::format("diverged: {} is the first that differs from run to run, at {}: {} and {}",
                           input_name(runs.arrived->input), place_of(*runs.arrived),
                           digits_of(double(runs.arrived->first_run)),
                           digits_of(double(runs.arrived->second_run)));
    const StageDifference* const changed = runs.changed();
    if (changed == nullptr)
        return fmt::format("match: {} elements have the same bits in both", count_compared(runs.stages));
    return fmt::format("diverged: {} is the first stage that differs from run to run, at {}: {} and {}",
                       stage_info(runs.problem, changed->stage).name, place_of(runs, *changed),
                       digits_of(double(changed->first->first_run)),
                       digits_of(double(changed->first->second_run)));
}

std::string to_text(const SameRun& runs) {
    std::string text =
        fmt::format("{}  and {}, of the same run\n\n{:<8} {:>12} {:>12}  {}\n", one_line(runs.first),
                    one_line(runs.second), "stage", "compared", "changed", "first");
    const auto row = [&](const std::string& name, std::int64_t compared, std::int64_t changed,
                         const std::string& first) {
        text += fmt::format("{:<8} {:>12} {:>12}  {}\n", name, compared, changed, first);
    };
    if (runs.arrived)
        row(fmt::format("input {}", input_name(runs.arrived->input)), runs.arrived->compared,
            runs.arrived->changed, place_of(*runs.arrived));
    for (const StageDifference& stage : runs.stages) {
        const std::string name(stage_info(runs.problem, stage.stage).name);
        row(name, stage.compared, stage.changed, stage.first ? place_of(runs, stage) : "");
    }
    return text + "\n" + cause_text(runs) + summary_of(runs) + "\n";
}

std::string to_json(const SameRun& runs) {
    ordered_json json;
    json["report_version"] = 1;  // report_version of oracle/report/text.h
    json["verdict"] = runs.diverges() ? "diverged" : "match";
    json["recording"] = runs.first;
    json["other"] = runs.second;
    if (runs.arrived)
        json["arrived"] = {{"name", input_name(runs.arrived->input)},
                           {"compared", runs.arrived->compared},
                           {"changed", runs.arrived->changed},
                           {"first", place_of(*runs.arrived)}};
    json["stages"] = ordered_json::array();
    for (const StageDifference& stage : runs.stages) {
        json["stages"].push_back(
            {{"name", stage_info(runs.problem, stage.stage).name},
             {"compared", stage.compared},
             {"changed", stage.changed},
             {"first", stage.first ? ordered_json(place_of(runs, stage)) : ordered_json()}});
    }
    json["causes"] = causes_json(runs);
    json["summary"] = summary_of(runs);
    return json.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
