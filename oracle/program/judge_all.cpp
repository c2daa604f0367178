#include "oracle/program/judge_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "dump/file/identity.h"
#include "dump/program/copies.h"
#include "dump/program/paths.h"
#include "dump/schema/error.h"
#include "dump/schema/shell_word.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/program/judge_one.h"
#include "oracle/program/progress.h"
#include "oracle/program/terminal.h"
#include "oracle/report/list.h"
#include "oracle/report/npy.h"

namespace tilescope {

namespace {

const int unjudged_code = exit_code_of(Came::unjudged);

void complain(const std::string& line) {
    fmt::print(stderr, "tile-diff: {}\n", one_line(line));
}

std::string died(const std::string& recording, const std::string& how) {
    return one_line(recording + ": judging it does not end (" + how +
                    "); allow more memory and threads, or record it again");
}

/// The exit code of the work; what it throws is said in a line.
int said_in_a_line(const std::function<int()>& work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        complain("command line: not enough memory; judge fewer recordings at once, or use a larger machine");
    } catch (const std::exception& error) {
        complain(error.what());
    }
    return unjudged_code;
}

bool names_one_file(const Arguments& arguments) {
    return arguments.paths.size() == 1 && is_one_file(arguments.paths[0]);
}

/// Two bare files used to be compared; who means that shall not get two verdicts.
void require_clear(const Arguments& arguments) {
    const std::vector<std::string>& paths = arguments.paths;
    if (arguments.each || !arguments.against.empty() || paths.size() != 2) return;
    if (!std::ranges::all_of(paths, is_one_file)) return;
    const std::string a = shell_word(paths[0]);
    const std::string b = shell_word(paths[1]);
    throw Error(
        "two recordings are given, which used to compare them", a + " " + b,
        fmt::format("compare them with tile-diff --against {} {}, or judge each with tile-diff --each {} {}",
                    b, a, a, b));
}

/// Options that write what there is of one recording.
void require_one(const Arguments& arguments) {
    const std::pair<const char*, bool> of_one[] = {{"--npy", !arguments.npy.empty()},
                                                   {"--png", !arguments.png.empty()},
                                                   {"--replay-out", !arguments.replay.empty()},
                                                   {"--explain-tolerance", !arguments.element.empty()},
                                                   {"--suggest", arguments.suggest}};
    for (const auto& [option, given] : of_one)
        if (given && !names_one_file(arguments))
            throw Error("it is of one recording", option, "name one file");
}

void spare_recordings(const Arguments& arguments, const std::vector<FoundPath>& found) {
    std::vector<std::string> inputs = {arguments.against, arguments.cause_of};
    for (const FoundPath& one : found)
        if (one.wrong.empty()) {
            inputs.push_back(one.path);
            inputs.insert(inputs.end(), one.shards.begin(), one.shards.end());
        }
    std::vector<std::string> outputs = {arguments.replay, arguments.new_baseline};
    for (const ReportOutput& output : report_outputs(arguments))
        if (!output.is_stdout()) outputs.push_back(output.path);
    const auto add = [&](const auto& files) { outputs.insert(outputs.end(), files.begin(), files.end()); };
    if (!arguments.npy.empty()) add(npy_files(arguments.npy));
    if (!arguments.png.empty()) add(heatmap_files(arguments.png));
    spare_inputs(inputs, outputs);
}

/// Recordings at once and threads of each fill the cores.
int share_cores(std::size_t recordings, Arguments& arguments) {
    const int cores = std::max(int(std::thread::hardware_concurrency()), 1);
    int& threads = arguments.judge.threads;
    int jobs = arguments.jobs > 0 ? arguments.jobs : threads > 0 ? std::max(cores / threads, 1) : cores;
    jobs = int(std::min(std::size_t(jobs), std::max(recordings, std::size_t(1))));
    if (threads == 0 && jobs > 1) threads = std::max(cores / jobs, 1);
    return jobs;
}

/// What goes to stdout while recordings are judged, and after.
class Printed {
 public:
    Printed(const Arguments& arguments, const std::vector<FoundPath>& found, bool silent)
        : verbose_(arguments.verbose), quiet_(arguments.quiet), silent_(silent) {
        std::size_t longest = 0;
        for (const FoundPath& one : found) longest = std::max(longest, columns_of(one_line(one.path)));
        layout_ = list_layout(columns_of_stdout(), longest, stdout_has_colour());
    }

    void line(const Answer& answer) {
        if (silent_) return;
        const bool fine = exit_code_of(answer.judged.came) == 0;
        if (!quiet_ || !fine) write_to_stdout(list_line(answer.judged, layout_));
        if (verbose_ && !fine && !answer.text.empty()) write_to_stdout(fmt::format("\n{}\n", answer.text));
        if (answer.judged.came != Came::diverged || answer.judged.wrong_share <= worst_share_) return;
        worst_share_ = answer.judged.wrong_share;
        worst_ = answer.text;
    }

    void summary(std::span<const JudgedRecording> all, double seconds, std::size_t left) const {
        if (silent_ || quiet_) return;
        if (!verbose_ && !worst_.empty()) write_to_stdout("\n" + worst_);
        const std::string stopped = left == 0 ? "" : fmt::format("; stopped before {} more", left);
        write_to_stdout(fmt::format("\n{}; {:.2f} s{}\n", counts_text(count_judged(all)), seconds, stopped));
    }

 private:
    bool verbose_;
    bool quiet_;
    bool silent_;
    ListLayout layout_;
    double worst_share_ = -1;
    std::string worst_;
};

/// The report of one recording.
void print_alone(const Answer& answer, const Arguments& arguments, const std::vector<FoundPath>& found) {
    if (arguments.quiet) {
        Printed(arguments, found, false).line(answer);
    } else {
        write_to_stdout(answer.text);
    }
}

/// Everything that goes to files once all of them are judged.
class Conclusion {
 public:
    explicit Conclusion(const JudgePlan& plan) : plan_(plan) {
        reports_.open(plan.outputs);
        if (!plan.arguments.new_baseline.empty()) new_baseline_.emplace(plan.arguments.new_baseline);
    }

    ReportFiles& reports() { return reports_; }

    void write_baseline(std::span<const JudgedRecording> all) {
        for (const std::string& line : outdated_lines(plan_.baseline, all)) complain(line);
        if (!new_baseline_) return;
        new_baseline_->write(baseline_text(all, plan_.baseline));
        new_baseline_->commit();
    }

 private:
    const JudgePlan& plan_;
    ReportFiles reports_;
    std::optional<OutputFile> new_baseline_;
};

int judge_alone(const JudgePlan& plan, const std::vector<FoundPath>& found, const Answer& answer,
                Conclusion& conclusion) {
    const int code = exit_code_of(answer.judged.came);
    try {
        conclusion.write_baseline(std::span(&answer.judged, 1));
        conclusion.reports().write_alone(answer.reports);
        if (!conclusion.reports().to_stdout()) print_alone(answer, plan.arguments, found);
    } catch (const std::exception& error) {
        // One line says enough.
        if (code != unjudged_code) complain(error.what());
        return unjudged_code;
    }
    return code;
}

int judge_found(const JudgePlan& plan, const std::vector<FoundPath>& found, int jobs) {
    const auto start = std::chrono::steady_clock::now();
    Conclusion conclusion(plan);
    Printed printed(plan.arguments, found, plan.alone || conclusion.reports().to_stdout());
    Progress progress("judging", "recordings");
    std::vector<JudgedRecording> all;
    std::optional<Answer> alone;
    const auto work = [&](std::size_t i) {
        const FoundPath& one = found[i];
        return packed(one.wrong.empty() ? judge_one(one, plan) : cannot_judge(one.path, one.wrong, plan));
    };
    const auto take = [&](std::size_t i, const CopyEnd& end) {
        Answer answer =
            end.said ? unpacked(*end.said) : cannot_judge(found[i].path, died(found[i].path, end.how), plan);
        progress.clear();
        if (!answer.complaint.empty()) complain(answer.complaint);
        all.push_back(answer.judged);
        printed.line(answer);
        if (!plan.alone) conclusion.reports().add(answer.reports);
        if (plan.alone) alone = std::move(answer);
        progress.update(std::int64_t(all.size()), std::int64_t(found.size()));
        return !plan.arguments.fail_fast || exit_code_of(all.back().came) == 0;
    };
    run_copies(found.size(), jobs, work, take);
    progress.clear();
    if (alone) return judge_alone(plan, found, *alone, conclusion);

    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    printed.summary(all, seconds.count(), found.size() - all.size());
    conclusion.write_baseline(all);
    conclusion.reports().write(all);
    return exit_code_of(all);
}

}  // namespace

int judge_all(const Arguments& arguments) {
    return said_in_a_line([&] {
        require_clear(arguments);
        require_one(arguments);
        const std::vector<FoundPath> found = find_recordings(arguments.paths, std::cin);
        spare_recordings(arguments, found);
        JudgePlan plan{arguments, report_outputs(arguments), read_baseline(arguments.baseline),
                       names_one_file(arguments)};
        const int jobs = share_cores(found.size(), plan.arguments);
        return judge_found(plan, found, jobs);
    });
}

int ask_one(const Arguments& arguments) {
    return said_in_a_line([&] {
        require_one(arguments);
        return answer_question(arguments.paths[0], arguments);
    });
}

int give_up_asking(const Arguments& arguments, const std::string& how) {
    complain(died(arguments.paths[0], how));
    return unjudged_code;
}

}  // namespace tilescope
