// How often tile-diff names the right cause: faults planted in an honest kernel on the CPU, recordings of
// faulty kernels, healthy kernels, and the time that it takes. Prints rates and a confusion matrix.

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dump/reader.h"
#include "dump/writer.h"
#include "oracle/causes/find_causes.h"
#include "oracle/causes/prediction.h"
#include "oracle/judge.h"
#include "tests/bench/bundled_faults.h"
#include "tests/bench/cause_tally.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::bench {
namespace {

using namespace tilescope::test;

struct Options {
    std::uint64_t seed = 7000000;  ///< the tests' seeds are below 1000000
    int seeds = 1;
    int healthy = 1000;
    std::vector<std::string> plants;
    std::vector<std::string> inputs;
    std::size_t every = 1;    ///< only every so many cases
    std::size_t outputs = 5;  ///< of these every so many from the outputs alone as well; 0: none
    std::string recordings;
    std::string keep;
    std::string json;
    int misses = 2;
    bool time = false;
    bool predict = false;
};

/// Judges a recording and fills in what was found.
void answer(const Recording& recording, const JudgeOptions& judging, CauseCase& result) {
    try {
        const Report report = judge(recording, judging);
        result.diverged = report.verdict == Verdict::diverged;
        if (report.guilty) result.guilty = stage_info(*report.guilty).name;
        CauseOptions options;
        options.threads = judging.threads;
        const Diagnosis diagnosis = find_causes(recording, report, options);
        for (const FoundCause& cause : diagnosis.causes)
            (cause.rank == 1 ? result.named : result.later).emplace_back(cause.name);
        if (!diagnosis.causes.empty()) {
            const FoundCause& first = diagnosis.causes.front();
            result.told = title_of(first) + (first.where.empty() ? "" : ", " + first.where);
        }
        result.cut_off = diagnosis.end.cut_off;
        if (!diagnosis.end.failed.empty()) result.error = diagnosis.end.failed.front();
    } catch (const std::exception& error) {
        result.error = error.what();
    }
}

bool is_chosen(const std::vector<std::string>& chosen, std::string_view name) {
    return chosen.empty() || std::ranges::find(chosen, name) != chosen.end();
}

/// A fault of the table, on an input, in a shape.
struct Planting {
    const MistakeInfo* mistake;
    const PlantedInput* input;
    const PlantedShape* shape;
    std::uint64_t seed;
};

std::vector<Planting> plantings(const Options& options) {
    std::vector<Planting> all;
    for (const auto family : all_mistakes()) {
        for (const MistakeInfo& mistake : family) {
            if (!is_chosen(options.plants, mistake.name)) continue;
            for (const PlantedInput& input : planted_inputs()) {
                if (!is_chosen(options.inputs, input.name)) continue;
                for (const PlantedShape& shape : planted_shapes()) {
                    // Every case has a seed of its own, whatever else is chosen.
                    const std::size_t on_input = std::size_t(mistake.mistake) * planted_inputs().size() +
                                                 std::size_t(&input - planted_inputs().data());
                    const std::size_t number =
                        on_input * planted_shapes().size() + std::size_t(&shape - planted_shapes().data());
                    for (int i = 0; i < options.seeds; ++i)
                        all.push_back({&mistake, &input, &shape,
                                       options.seed + std::uint64_t(number) * 16 + std::uint64_t(i)});
                }
            }
        }
    }
    std::vector<Planting> taken;
    for (std::size_t i = 0; i < all.size(); i += options.every) taken.push_back(all[i]);
    return taken;
}

struct PlantedResults {
    CauseCase of_tiles;
    std::optional<CauseCase> of_outputs;
};

/// Leaves the recording of a case that went wrong in a folder; none: nowhere.
void keep_missed(const std::string& folder, const Planting& planting, const CauseCase& result,
                 const Recording& recording, std::string_view of) {
    if (folder.empty() || !result.is_missed()) return;
    write_recording(fmt::format("{}/{}_{}_{}{}.h5", folder, planting.mistake->name, planting.input->name,
                                planting.shape->name, of),
                    recording);
}

PlantedResults judge_planting(const Planting& planting, bool with_outputs, const std::string& keep) {
    const MistakeInfo& mistake = *planting.mistake;
    CauseCase result;
    result.plant = mistake.name;
    result.where = fmt::format("{} {} seed {}", planting.input->name, planting.shape->name, planting.seed);
    for (const std::string_view cause : mistake.causes) {
        if (!cause.empty()) result.causes.emplace_back(cause);
    }
    const Call call = planted_call(mistake, *planting.input, *planting.shape, planting.seed);
    const KernelRun healthy = run_kernel(call);
    const KernelRun planted = run_kernel(call, {mistake.mistake});
    result.stages = guilty_stages(healthy, planted);
    result.changed = first_difference(healthy.recording, planted.recording).has_value();
    PlantedResults results{result, {}};
    if (result.changed) {
        answer(planted.recording, one_thread(), results.of_tiles);
        keep_missed(keep, planting, results.of_tiles, planted.recording, "");
    }
    if (!with_outputs) return results;
    results.of_outputs = result;
    const std::vector<Stage> outputs = {Stage::o, Stage::lse};
    const MemoryRecording healthy_outputs = with_stages(healthy.recording, outputs);
    const MemoryRecording planted_outputs = with_stages(planted.recording, outputs);
    if (const auto stage = first_difference(healthy_outputs, planted_outputs)) {
        results.of_outputs->stages = outputs;
    } else {
        results.of_outputs->changed = false;
    }
    if (results.of_outputs->changed) {
        answer(planted_outputs, one_thread(), *results.of_outputs);
        keep_missed(keep, planting, *results.of_outputs, planted_outputs, "_outputs");
    }
    return results;
}

/// Faults planted on the CPU, from all tiles and from the outputs alone.
nlohmann::json bench_plants(const Options& options) {
    const std::vector<Planting> all = plantings(options);
    std::vector<PlantedResults> results(all.size());
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < all.size(); ++i) {
        const bool with_outputs = options.outputs > 0 && i % options.outputs == 0;
        results[i] = judge_planting(all[i], with_outputs, options.keep);
    }
    CauseTally tiles("faults planted in an honest float32 kernel, all tiles recorded");
    CauseTally outputs("the same, o and lse alone");
    for (PlantedResults& result : results) {
        tiles.add(std::move(result.of_tiles));
        if (result.of_outputs) outputs.add(std::move(*result.of_outputs));
    }
    tiles.print(options.misses);
    if (options.outputs > 0) outputs.print(0);
    return {nlohmann::json::parse(tiles.to_json()), nlohmann::json::parse(outputs.to_json())};
}

/// The cause of a fault on one shape, tried on the same fault with the lengths of the next shape and another seed.
nlohmann::json bench_predictions(const Options& options) {
    const std::vector<Planting> all = plantings(options);
    std::vector<std::string> said(all.size());
    std::vector<std::optional<bool>> holds(all.size());
    std::atomic<std::int64_t> cut_off = 0;
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Planting& first = all[i];
        const std::size_t shape = std::size_t(first.shape - planted_shapes().data()) + 1;
        const PlantedShape& next = planted_shapes()[shape % planted_shapes().size()];
        PlantedShape other = *first.shape;
        std::tie(other.name, other.seqlen_q, other.seqlen_kv) =
            std::tie(next.name, next.seqlen_q, next.seqlen_kv);
        const auto planted_run = [&](const PlantedShape& of, std::uint64_t seed) {
            const Call call = planted_call(*first.mistake, *first.input, of, seed);
            return run_kernel(call, {first.mistake->mistake});
        };
        const KernelRun run = planted_run(*first.shape, first.seed);
        const KernelRun second = planted_run(other, first.seed + 8);
        try {
            CauseOptions one;
            one.threads = 1;
            const Diagnosis diagnosis = find_causes(run.recording, judge(run.recording, one_thread()), one);
            const std::vector<FoundCause>& causes = diagnosis.causes;
            cut_off += diagnosis.end.cut_off;
            if (diagnosis.end.cut_off || causes.empty() || causes[0].structural) continue;
            const Prediction prediction = predict(causes[0], run.recording.problem(), second.recording,
                                                  judge(second.recording, one_thread()), one);
            if (prediction.wrong == 0) continue;
            holds[i] = prediction.holds();
            said[i] = fmt::format("{} {} {} seed {}: {} {}, of {} wrong elements on {} {} are left",
                                  first.mistake->name, first.input->name, first.shape->name, first.seed,
                                  title_of(causes[0]), causes[0].where, prediction.wrong, other.name,
                                  prediction.left);
        } catch (const Error&) {
            // What cannot be judged has no cause to try.
        }
    }
    for (std::size_t i = 0; i < all.size(); ++i)
        if (holds[i] == false) fmt::print("{}\n", said[i]);
    const auto tried = std::ranges::count_if(holds, [](const auto& one) { return one.has_value(); });
    const auto held = std::ranges::count(holds, std::optional(true));
    fmt::print(
        "\ncauses of planted faults that explain another shape as well: {} of {}; {} searches were cut off\n",
        held, tried, cut_off.load());
    return {{"tried", tried}, {"held", held}, {"cut_off", cut_off.load()}};
}

/// Healthy kernels of every arithmetic and option: nothing diverges, and no cause is named.
nlohmann::json bench_healthy(const Options& options) {
    std::vector<CauseCase> results(std::size_t(options.healthy));
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < options.healthy; ++i) {
        const std::uint64_t seed = options.seed + std::uint64_t(i);
        const Call call = random_call(InputKind(i % input_kinds), seed);
        CauseCase& result = results[std::size_t(i)];
        result.where = fmt::format("{} seed {}", to_string(InputKind(i % input_kinds)), seed);
        answer(run_kernel(call).recording, one_thread(), result);
    }
    std::int64_t diverged = 0;
    std::int64_t named = 0;
    std::int64_t errors = 0;
    std::int64_t cut_off = 0;
    for (const CauseCase& result : results) {
        diverged += result.diverged ? 1 : 0;
        named += result.named.empty() ? 0 : 1;
        errors += result.error.empty() ? 0 : 1;
        cut_off += result.cut_off ? 1 : 0;
        if (result.diverged || !result.named.empty() || !result.error.empty())
            fmt::print("healthy, {}: guilty {}, named {} {}\n", result.where, result.guilty, result.answer(),
                       result.error);
    }
    fmt::print(
        "\n{} healthy and legally varied kernels: {} diverge, {} are given a cause, {} not judged, {} "
        "searches "
        "were cut off\n",
        results.size(), diverged, named, errors, cut_off);
    return {{"healthy", results.size()},
            {"diverged", diverged},
            {"named", named},
            {"errors", errors},
            {"cut_off", cut_off}};
}

/// Recordings of faulty kernels: DIR/faults.json lists {"file", "fault", "stage"} and perhaps "causes".
nlohmann::json bench_recordings(const Options& options) {
    std::ifstream file(options.recordings + "/faults.json");
    if (!file) throw std::runtime_error(options.recordings + "/faults.json: cannot be read");
    const nlohmann::json listed = nlohmann::json::parse(file);
    CauseTally tally("recordings of faulty kernels in " + options.recordings);
    for (const nlohmann::json& entry : listed) {
        CauseCase result;
        result.plant = entry.at("fault");
        result.where = entry.at("file");
        if (const auto stage = stage_from_name(entry.at("stage").get<std::string>()))
            result.stages.push_back(*stage);
        if (entry.contains("causes")) result.causes = entry.at("causes").get<std::vector<std::string>>();
        for (const BundledFault& bundled : bundled_faults) {
            if (!result.causes.empty() || bundled.fault != result.plant) continue;
            for (const std::string_view cause : bundled.causes) {
                if (!cause.empty()) result.causes.emplace_back(cause);
            }
        }
        const auto recording = open_recording(options.recordings + "/" + result.where);
        answer(*recording, {}, result);
        tally.add(std::move(result));
    }
    tally.print(100);
    return nlohmann::json::parse(tally.to_json());
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One head of 512 x 512 and of 4096 x 4096.
nlohmann::json bench_time() {
    nlohmann::json times = nlohmann::json::array();
    fmt::print("\n{:<28}{:>14}{:>11}{:>11}{:>9}\n", "one head, head_dim 64", "seqlen", "judge, s", "cause, s",
               "cut off");
    for (const std::int64_t seqlen : {512, 4096}) {
        for (const Mistake mistake :
             {Mistake::acc_not_rescaled, Mistake::k_not_transposed, Mistake::causal_top_left,
              Mistake::o_normalised_twice, Mistake::s_rows_periodic}) {
            Call call;
            Problem& p = call.problem;
            p.seqlen_q = seqlen == 512 ? 512 : 4096;
            p.seqlen_kv = seqlen;
            p.block_m = p.block_n = p.head_dim = p.head_dim_v = 64;
            p.sm_scale = 0.125;
            if (mistake == Mistake::causal_top_left) {
                p.mask = Mask::causal;
                p.seqlen_q = seqlen - 64;
            }
            call.inputs = make_inputs(p, InputKind::ramped_k, 1);
            const KernelRun run = run_kernel({p, call.arithmetic, call.inputs}, {mistake});
            const auto start = std::chrono::steady_clock::now();
            const Report report = judge(run.recording, {});
            const double judging = seconds_since(start);
            double naming = 0;
            const auto then = std::chrono::steady_clock::now();
            const Diagnosis diagnosis = find_causes(run.recording, report, {});
            naming = seconds_since(then);
            fmt::print("{:<28}{:>14}{:>11.2f}{:>11.2f}{:>9}\n", to_string(mistake),
                       fmt::format("{} x {}", p.seqlen_q, p.seqlen_kv), judging, naming,
                       diagnosis.end.cut_off ? "yes" : "");
            times.push_back({{"fault", to_string(mistake)},
                             {"seqlen", seqlen},
                             {"judge", judging},
                             {"cause", naming},
                             {"cut_off", diagnosis.end.cut_off}});
        }
    }
    return times;
}

int run(const Options& options) {
    nlohmann::json json;
    if (!options.recordings.empty()) {
        json["recordings"] = bench_recordings(options);
    } else if (options.predict) {
        json["predicted"] = bench_predictions(options);
    } else if (options.time) {
        json["time"] = bench_time();
    } else {
        json["planted"] = bench_plants(options);
        json["healthy"] = bench_healthy(options);
    }
    if (!options.json.empty()) std::ofstream(options.json) << json.dump(1) << "\n";
    return 0;
}

}  // namespace
}  // namespace tilescope::bench

int main(int argc, char** argv) {
    tilescope::bench::Options options;
    CLI::App app("How often tile-diff names the right cause of a fault.");
    app.add_option("--seed", options.seed, "first seed; those below 1000000 are the tests'")
        ->capture_default_str();
    app.add_option("--seeds", options.seeds, "seeds of each fault, input and shape")->capture_default_str();
    app.add_option("--healthy", options.healthy, "healthy and legally varied kernels")->capture_default_str();
    app.add_option("--plant", options.plants, "these faults alone");
    app.add_option("--input", options.inputs, "these inputs alone");
    app.add_option("--every", options.every, "only every so many of these cases")->capture_default_str();
    app.add_option("--outputs", options.outputs,
                   "of these every so many from o and lse alone as well; 0: none")
        ->capture_default_str();
    app.add_option("--keep", options.keep,
                   "leaves recordings of planted faults that went wrong in this folder");
    app.add_option("--recordings", options.recordings, "folder with recordings and faults.json");
    app.add_option("--misses", options.misses, "cases shown that went wrong, of each fault")
        ->capture_default_str();
    app.add_option("--json", options.json, "writes the figures to this file");
    app.add_flag("--predict", options.predict, "tries each cause on another shape instead");
    app.add_flag("--time", options.time, "measures the time instead");
    CLI11_PARSE(app, argc, argv);
    try {
        return tilescope::bench::run(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_causes: {}\n", error.what());
        return 2;
    }
}
