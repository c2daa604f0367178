#include "oracle/ranks/judge_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "dump/recording/recording_view.h"
#include "dump/schema/error.h"
#include "oracle/causes/suggest.h"
#include "oracle/judge/diagnosis_bytes.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/ranks/part_rows.h"
#include "oracle/ranks/parts_found.h"

namespace tilescope {

namespace {

// Orders of computation within a step: operands arrive, stages in their order, what is merged.
constexpr int order_arrival = 0;
constexpr int order_stages = 10;
constexpr int order_merge = 100;

constexpr std::string_view operand_names[] = {"q", "k", "v"};

std::string merge_place(const Problem& problem, Stage stage, const Element& element) {
    std::string place = tensor_place_of(problem, stage, element);
    const std::int64_t position = position_of(problem.shard.q_positions, element.row);
    if (position != element.row) place += fmt::format(" (row {} of the call)", position);
    return place;
}

/// A fault with elements, without its cause.
RankFault fault_in(std::string_view stage, const StageTally& tally, std::string place, int order) {
    RankFault fault;
    fault.stage = stage;
    fault.place = std::move(place);
    fault.values = values_of(*tally.first);
    fault.wrong_share = tally.compared > 0 ? double(tally.outside) / double(tally.compared) : 1;
    fault.order = order;
    return fault;
}

void name_cause(const Diagnosis& diagnosis, RankFault& fault) {
    if (diagnosis.causes.empty()) return;
    const FoundCause& cause = diagnosis.causes.front();
    fault.cause = cause.name;
    fault.says = cause.says;
    fault.look_at = cause.look_at;
}

/// A fault that a part's own tiles have, and what its cause is looked for in.
struct UnexplainedFault {
    std::size_t fault;  ///< of RankReport::faults
    const Recording* recording;
};

/// Tells what was found of one part, and adds what is wrong with it.
class PartJudge {
 public:
    PartJudge(const RunOfRanks& run, std::size_t index, PartsFound& found, const RankOptions& options,
              RankReport& report, std::vector<UnexplainedFault>& unexplained)
        : run_(run),
          recording_(*run.parts()[index]),
          coverage_(found.coverage[std::size_t(recording_.problem().shard.rank)]),
          beside_(found.beside[index]),
          tiles_(found.tiles[index]),
          from_all_keys_(found.from_all_keys[index]),
          options_(options),
          report_(report),
          unexplained_(unexplained),
          index_(index) {}

    void judge() {
        switch (shard().kind) {
            case ShardKind::owned:
                return;
            case ShardKind::step:
                judge_coverage();
                judge_arrivals();
                judge_tiles();
                judge_merged();
                return;
            case ShardKind::received:
                judge_coverage();
                judge_received();
                judge_merged();
                return;
            case ShardKind::final:
                judge_outputs();
                return;
        }
    }

 private:
    const Shard& shard() const { return recording_.problem().shard; }
    RankPart& part() { return report_.parts[index_]; }

    void add(RankFault fault) {
        fault.part = index_;
        report_.faults.push_back(std::move(fault));
    }

    /// Keys that a step before has taken.
    void judge_coverage() {
        if (coverage_ && coverage_->step == shard().step) add_coverage(*coverage_);
    }

    void judge_arrivals() {
        for (std::size_t i = 0; i < beside_.arrivals.size(); ++i) {
            Arrival& arrival = beside_.arrivals[i];
            if (arrival.rows_not_owned > 0)
                report_.missing.push_back(fmt::format("{}: {} rows of {} are of ranks that were not recorded",
                                                      text_of_part(shard()), arrival.rows_not_owned,
                                                      operand_names[i]));
            if (arrival.tally.first) {
                const Element& first = *arrival.tally.first;
                std::string place = fmt::format("batch {}, head {}, row {}, column {}", first.tile.batch,
                                                first.tile.head, first.row, first.col);
                RankFault fault =
                    fault_in(operand_names[i], arrival.tally, std::move(place), order_arrival + int(i));
                fault.cause = arrival.cause;
                fault.says = arrival.says;
                fault.look_at = "what is sent to the next rank, and what is waited for before the kernel";
                add(std::move(fault));
            }
            part().stages.push_back({std::string(operand_names[i]), std::move(arrival.tally), true});
        }
    }

    void judge_received() {
        MergeReport& received = beside_.received;
        if (!received.is_judged) {
            report_.missing.push_back(fmt::format("{}: no rank has computed what it received over these keys",
                                                  text_of_part(shard())));
            return;
        }
        add_merge_fault(received, recording_.problem(), RowStages{}, {"o", "lse"}, order_arrival);
        part().stages.push_back({"o", std::move(received.o), true});
        part().stages.push_back({"lse", std::move(received.lse), true});
    }

    /// As judged alone: from its own operands.
    void judge_tiles() {
        try {
            Report report = tilescope::judge(recording_, with_tiles(tiles_));
            if (report.guilty) add_tile_fault(report);
            part().report = std::move(report);
        } catch (const NoVerdict& unjudged) {
            part().report = unjudged.report();
            part().unjudged = unjudged.what();
        } catch (const Error& error) {
            part().unjudged = error.what();
        }
    }

    void add_tile_fault(Report& report) {
        const Stage guilty = *report.guilty;
        RankFault fault = fault_in(stage_info(report.problem, guilty).name, report.stage(guilty).tally,
                                   place_of(report.problem, report.threads, guilty, *report.first_divergence),
                                   order_stages + int(guilty));
        if (is_right_within_the_shard(report)) {
            fault.cause = "local_positions";
            fault.says = "rows and keys are masked by where they stand in the shard, not in the whole call";
            fault.look_at = "the positions that the causal mask compares";
        } else {
            unexplained_.push_back({report_.faults.size(), &recording_});
        }
        add(std::move(fault));
    }

    /// Whether what diverges first is right once rows and keys count within the shard.
    bool is_right_within_the_shard(const Report& report) const {
        Problem local = recording_.problem();
        local.shard.q_positions.clear();
        local.shard.kv_positions.clear();
        local.shard.seqlen_q = local.shard.seqlen_kv = 0;
        if (local == recording_.problem()) return false;
        const auto gets_further_aligned = [&](CausalAlignment alignment) {
            local.causal_alignment = alignment;
            return gets_further(local, report);
        };
        return gets_further_aligned(CausalAlignment::bottom_right) ||
               gets_further_aligned(CausalAlignment::top_left);
    }

    /// Whether what diverges first is right with another declaration.
    bool gets_further(const Problem& declared, const Report& report) const {
        JudgeOptions judge_options = options_.judge;
        judge_options.observe = {};
        judge_options.progress = {};
        try {
            const Report as_local =
                tilescope::judge(DeclaredAs(recording_, declared, recording_.units()), judge_options);
            return !as_local.guilty || *as_local.guilty > *report.guilty;
        } catch (const Error&) {
            return false;
        }
    }

    void judge_merged() {
        MergeReport& merged = beside_.merged;
        if (merged_stages(recording_) && !output_stages(recording_))
            report_.missing.push_back(
                fmt::format("{}: what was merged is not judged, since its o and lse were not recorded",
                            text_of_part(shard())));
        if (!merged.is_judged) return;
        const Problem& problem = recording_.problem();
        const auto stages = merged_stages(recording_);
        add_merge_fault(merged, problem, *stages, {merged_o_name, merged_lse_name}, order_merge);
        part().stages.push_back({merged_o_name, std::move(merged.o), false});
        part().stages.push_back({merged_lse_name, std::move(merged.lse), false});
    }

    /// One fault for o and lse together: they come out of one merge.
    void add_merge_fault(const MergeReport& merged, const Problem& problem, const RowStages& stages,
                         std::pair<const char*, const char*> names, int order) {
        const bool of_o = merged.o.first.has_value();
        const StageTally& tally = of_o ? merged.o : merged.lse;
        if (!tally.first) return;
        RankFault fault = fault_in(of_o ? names.first : names.second, tally,
                                   merge_place(problem, of_o ? stages.o : stages.lse, *tally.first), order);
        fault.cause = merged.cause;
        fault.says = merged.says;
        fault.look_at = merged.look_at;
        add(std::move(fault));
    }

    /// Outputs that are right from all keys are right, whatever the steps that were recorded say.
    void judge_outputs() {
        const EndToEnd all_keys = judge_end_to_end();
        const bool diverges = all_keys.is_judged && from_all_keys_.diverges();
        const bool is_right = all_keys.is_judged && !diverges;
        MergeReport& stored = beside_.merged;
        const bool left_out = coverage_ && coverage_->step < 0;
        const bool differs = stored.o.diverges() || stored.lse.diverges();
        if (is_right && (left_out || differs)) {
            report_.missing.push_back(fmt::format(
                "rank {}: its outputs are right, so not all of its steps were recorded", shard().rank));
        } else {
            if (left_out) add_coverage(*coverage_);
            if (stored.is_judged)
                add_merge_fault(stored, recording_.problem(), RowStages{}, {"o", "lse"}, order_merge);
        }
        if (stored.is_judged && !(is_right && differs)) {
            part().stages.push_back({"o", std::move(stored.o), false});
            part().stages.push_back({"lse", std::move(stored.lse), false});
        }
        if (diverges) add_end_to_end(*all_keys.report);
        if (!all_keys.is_judged) return;
        part().stages.push_back({"o from all keys", from_all_keys_.o, false});
        part().stages.push_back({"lse from all keys", from_all_keys_.lse, false});
    }

    void add_coverage(const CoverageFault& found) {
        RankFault fault;
        fault.stage = found.step < 0 ? "o" : "k";
        fault.place = found.first_key == found.last_key
                          ? fmt::format("key {} of the call", found.first_key)
                          : fmt::format("keys {}-{} of the call", found.first_key, found.last_key);
        if (found.more > 0) fault.place += fmt::format(" and {} more", found.more);
        fault.cause = found.cause;
        fault.says = found.says;
        if (found.owner >= 0) fault.says += fmt::format("; rank {} owns them", found.owner);
        fault.look_at = "which shard each step takes, and where the loop over steps begins and ends";
        fault.wrong_share = 1;
        fault.order = found.step < 0 ? order_merge - 1 : order_arrival;
        add(std::move(fault));
    }

    /// Outputs from all keys, as their owners have them.
    struct EndToEnd {
        bool is_judged = false;
        std::optional<Report> report;
    };

    EndToEnd judge_end_to_end() {
        EndToEnd found;
        if (!from_all_keys_.view) return found;
        if (!from_all_keys_.has_inputs()) {
            report_.missing.push_back(fmt::format(
                "{}: its outputs are not judged from the inputs, of which some ranks' are missing",
                text_of_part(shard())));
            return found;
        }
        try {
            found.report = tilescope::judge(*from_all_keys_.view, with_tiles(from_all_keys_.tiles));
            found.is_judged = true;
        } catch (const Error& error) {
            part().unjudged = error.what();
        }
        return found;
    }

    JudgeOptions with_tiles(const TilesFound& tiles) const {
        JudgeOptions judge_options = options_.judge;
        judge_options.tiles = &tiles;
        return judge_options;
    }

    /// What steps and merges explain is theirs.
    void add_end_to_end(Report report) {
        const bool is_known = std::ranges::any_of(report_.faults, [&](const RankFault& fault) {
            return report_.parts[fault.part].shard.rank == shard().rank;
        });
        part().inherits = is_known;
        if (is_known || !report.guilty) return;
        const Stage guilty = *report.guilty;
        RankFault fault =
            fault_in(stage_info(report.problem, guilty).name, report.stage(guilty).tally,
                     merge_place(recording_.problem(), guilty, *report.first_divergence), order_merge + 1);
        unexplained_.push_back({report_.faults.size(), from_all_keys_.view.get()});
        add(std::move(fault));
        part().report = std::move(report);
    }

    const RunOfRanks& run_;
    const Recording& recording_;
    const std::optional<CoverageFault>& coverage_;  ///< of its rank
    HeldAgainst& beside_;
    const TilesFound& tiles_;
    const FromAllKeys& from_all_keys_;
    const RankOptions& options_;
    RankReport& report_;
    std::vector<UnexplainedFault>& unexplained_;
    std::size_t index_;
};

void add_missing(const RunOfRanks& run, RankReport& report) {
    for (std::int64_t rank = 0; rank < run.ranks(); ++rank) {
        const auto steps = run.steps_of(rank);
        if (steps.empty() && run.final_of(rank) == nullptr) {
            report.missing.push_back(fmt::format("rank {} was not recorded", rank));
            continue;
        }
        std::int64_t expected = 0;
        for (const Recording* const step : steps) {
            const std::int64_t recorded = step->problem().shard.step;
            if (recorded == expected + 1)
                report.missing.push_back(fmt::format("rank {}, step {} was not recorded", rank, expected));
            else if (recorded > expected)
                report.missing.push_back(
                    fmt::format("rank {}, steps {}-{} were not recorded", rank, expected, recorded - 1));
            expected = recorded + 1;
        }
        if (run.owned_by(rank) == nullptr)
            report.missing.push_back(fmt::format("rank {}: what it owns was not recorded", rank));
    }
}

/// Each by one of the processes, with all of its threads.
void explain(const std::vector<UnexplainedFault>& unexplained, const RankOptions& options,
             WorkSharing& sharing, RankReport& report) {
    if (!options.search_causes) {
        for (const UnexplainedFault& one : unexplained) report.faults[one.fault].searched = false;
        return;
    }
    constexpr int one_at_a_time = 1;
    std::vector<WorkSharing::Stretch> stretches;
    for (const UnexplainedFault& one : unexplained)
        stretches.push_back({1, sharing.home_of(one.recording->name())});
    std::vector<Diagnosis> found =
        share_pieces<Diagnosis>(stretches, one_at_a_time, sharing, [&](std::int64_t i) {
            const UnexplainedFault& one = unexplained[std::size_t(i)];
            const RankPart& part = report.parts[report.faults[one.fault].part];
            return causes_and_declarations(*one.recording, *part.report, options.causes);
        });
    for (std::size_t i = 0; i < unexplained.size(); ++i) {
        RankFault& fault = report.faults[unexplained[i].fault];
        name_cause(found[i], fault);
        report.parts[fault.part].report->diagnosis = std::move(found[i]);
    }
}

auto order_of(const RankReport& report, const RankFault& fault) {
    const Shard& shard = report.parts[fault.part].shard;
    const std::int64_t step =
        shard.kind == ShardKind::final ? std::numeric_limits<std::int64_t>::max() : shard.step;
    return std::tuple(step, fault.order, shard.rank);
}

}  // namespace

RankReport judge_ranks(const RunOfRanks& run, const std::string& name, const RankOptions& options) {
    RankReport report;
    report.recording = name;
    report.run = run.id();
    report.ranks = run.ranks();
    report.whole = run.whole();
    for (const auto& recording : run.parts())
        report.parts.push_back({recording->name(), recording->problem().shard, {}, std::nullopt, ""});
    SharingOr sharing(options.judge.sharing);
    PartsFound found = nothing_of_parts(run, options.judge, *sharing);
    std::vector<std::size_t> all(report.parts.size());
    std::iota(all.begin(), all.end(), std::size_t(0));
    // Who looks on is shown each of them as soon as it is judged.
    if (!options.judged) judge_parts(run, all, options.judge, *sharing, found);
    std::vector<UnexplainedFault> unexplained;
    // First of all, since the rest of what is not judged comes from it.
    add_missing(run, report);
    // Steps first: what they explain is not blamed on the outputs.
    for (const bool of_outputs : {false, true}) {
        for (const std::size_t i : all) {
            if ((report.parts[i].shard.kind == ShardKind::final) != of_outputs) continue;
            if (options.judged) judge_parts(run, std::span(&i, 1), options.judge, *sharing, found);
            PartJudge(run, i, found, options, report, unexplained).judge();
            if (!options.judged) continue;
            explain(std::exchange(unexplained, {}), options, *sharing, report);
            options.judged(report, i);
        }
    }
    explain(unexplained, options, *sharing, report);
    std::ranges::stable_sort(report.faults, {},
                             [&](const RankFault& fault) { return order_of(report, fault); });
    if (report.diverges()) return report;
    if (report.compared() == 0)
        throw Error("nothing of the run could be compared", name,
                    "record inputs, outputs or tiles of each rank's steps");
    for (const RankPart& part : report.parts)
        if (report.unjudged.empty() && !part.unjudged.empty()) report.unjudged = part.unjudged;
    if (report.unjudged.empty() && !report.missing.empty())
        report.unjudged = report.missing.front() + "; what was recorded matches";
    return report;
}

}  // namespace tilescope
