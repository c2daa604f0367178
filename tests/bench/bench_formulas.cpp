// What the search for formulas makes of recordings of attention, by itself, without the causes that have names.

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "oracle/program/attention.h"
#include "oracle/program/find_mistakes.h"
#include "oracle/program/judge_program.h"
#include "tests/oracle/planted_calls.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope {
namespace {

struct FormulaTally {
    int recordings = 0;
    int said = 0;        ///< as a program
    int same_stage = 0;  ///< first wrong, as the formulas of the judge have it
    int described = 0;
    double seconds = 0;  ///< judging and searching

    void add(const FormulaTally& other) {
        recordings += other.recordings;
        said += other.said;
        same_stage += other.same_stage;
        described += other.described;
        seconds += other.seconds;
    }
};

/// What is told of a recording, a line each, and its tally.
struct Told {
    FormulaTally tally;
    std::string text;
};

Told told_of(const std::string& name, const Recording& recording) {
    Told told{{.recordings = 1}, {}};
    const AttentionProgram declared = attention_program(recording);
    if (!declared.text) return {told.tally, fmt::format("{}: not said: {}\n", name, declared.why)};
    told.tally.said = 1;
    const Program program = parse_program(*declared.text);
    const AttentionInputs given = attention_inputs(recording);
    const ProgramCall call = bind_program(program, given.inputs, given.sizes);
    const RecordedAttention stored(recording, program);
    const auto begun = std::chrono::steady_clock::now();
    const ProgramReport report = judge_program(call, stored);
    const FoundMistakes found = find_mistakes(call, stored, report);
    told.tally.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    const std::string wrong = report.first_wrong < 0 ? "" : program.array(report.first_wrong).name;
    const std::optional<Stage> guilty = judge(recording, test::one_thread()).guilty;
    const std::string expected = guilty ? std::string(stage_info(*guilty).name) : "";
    told.tally.same_stage = wrong == expected ? 1 : 0;
    told.tally.described = found.mistakes.empty() ? 0 : 1;
    told.text = fmt::format("{}: {}{}\n", name, wrong.empty() ? "match" : wrong,
                            wrong == expected ? "" : ", and the judge says " + expected);
    for (const ProgramMistake& mistake : found.mistakes)
        told.text += fmt::format("  {} = {}{}\n", program.array(mistake.stage).name, mistake.becomes,
                                 mistake.where.empty() ? "" : "   where " + mistake.where);
    return told;
}

std::string line_of(const FormulaTally& tally) {
    return fmt::format(
        "{} recordings, {} said as a program, {} with the same first wrong stage, {} described, {:.1f} s",
        tally.recordings, tally.said, tally.same_stage, tally.described, tally.seconds);
}

void tally_recordings(const std::vector<std::string>& paths) {
    FormulaTally all;
    for (const std::string& path : paths) {
        try {
            const Told told = told_of(path, *open_recording(path));
            fmt::print("{}", told.text);
            all.add(told.tally);
        } catch (const Error& error) {
            fmt::print("{}\n", error.what());
        }
    }
    fmt::print("{}\n", line_of(all));
}

/// Every so many of the faults that are planted in an honest kernel, as bench_causes draws them.
void tally_planted(std::size_t every, std::uint64_t seed, const std::vector<std::string>& plants) {
    struct Planting {
        const test::MistakeInfo* mistake;
        const test::PlantedInput* input;
        const test::PlantedShape* shape;
    };
    std::vector<Planting> taken;
    std::size_t number = 0;
    for (const auto family : test::all_mistakes()) {
        for (const test::MistakeInfo& mistake : family) {
            for (const test::PlantedInput& input : test::planted_inputs()) {
                for (const test::PlantedShape& shape : test::planted_shapes()) {
                    const bool is_chosen =
                        plants.empty() || std::ranges::find(plants, mistake.name) != plants.end();
                    if (number++ % every == 0 && is_chosen) taken.push_back({&mistake, &input, &shape});
                }
            }
        }
    }
    std::vector<Told> told(taken.size());
#pragma omp parallel for schedule(dynamic)
    for (std::size_t i = 0; i < taken.size(); ++i) {
        const auto& [mistake, input, shape] = taken[i];
        const test::Call call = test::planted_call(*mistake, *input, *shape, seed + i * 16);
        const test::KernelRun healthy = test::run_kernel(call);
        const test::KernelRun planted = test::run_kernel(call, {mistake->mistake});
        if (!test::first_difference(healthy.recording, planted.recording)) continue;
        try {
            told[i] =
                told_of(fmt::format("{} {} {}", mistake->name, input->name, shape->name), planted.recording);
        } catch (const Error& error) {
            told[i] = {{.recordings = 1}, error.what()};
        }
    }
    FormulaTally all;
    std::map<std::string_view, FormulaTally> by_mistake;
    for (std::size_t i = 0; i < taken.size(); ++i) {
        fmt::print("{}", told[i].text);
        all.add(told[i].tally);
        by_mistake[taken[i].mistake->name].add(told[i].tally);
    }
    for (const auto& [name, tally] : by_mistake) fmt::print("{:32} {}\n", name, line_of(tally));
    fmt::print("{}\n", line_of(all));
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    std::vector<std::string> paths;
    std::vector<std::string> plants;
    std::size_t every = 0;
    std::uint64_t seed = 7000000;
    CLI::App app("What the search for formulas describes of attention, without the causes that have names.");
    app.add_option("RECORDING", paths, "recordings of attention");
    app.add_option("--planted", every, "every so many of the planted faults instead");
    app.add_option("--seed", seed, "of these")->capture_default_str();
    app.add_option("--plant", plants, "these of them alone");
    CLI11_PARSE(app, argc, argv);
    if (every > 0)
        tilescope::tally_planted(every, seed, plants);
    else
        tilescope::tally_recordings(paths);
    return 0;
}
