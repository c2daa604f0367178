#include "oracle/cli/judge_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "dump/cli/copies.h"
#include "dump/cli/paths.h"
#include "dump/file/identity.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/schema/shell_word.h"
#include "oracle/cli/judge_one.h"
#include "oracle/cli/progress.h"
#include "oracle/cli/terminal.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/remote/disks.h"
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

/// The exit code of the work; what it throws is said in a line, by the first process.
int said_in_a_line(WorkSharing* sharing, const std::function<int()>& work) {
    const auto say = [&](const std::string& line) {
        const std::string who = sharing == nullptr ? "" : sharing->blamed();
        if (sharing == nullptr || sharing->process() == 0) complain(who.empty() ? line : who + ": " + line);
    };
    try {
        return work();
    } catch (const std::bad_alloc&) {
        say("command line: not enough memory; judge fewer recordings at once, or use a larger machine");
    } catch (const std::exception& error) {
        say(error.what());
    }
    return unjudged_code;
}

bool names_one_file(const Arguments& arguments, const Look& look = look_at) {
    return arguments.paths.size() == 1 && is_one_file(arguments.paths[0], look);
}

/// Two bare files used to be compared; who means that shall not get two verdicts.
void require_clear(const Arguments& arguments, const Look& look) {
    const std::vector<std::string>& paths = arguments.paths;
    if (arguments.each || !arguments.against.empty() || paths.size() != 2) return;
    if (!is_one_file(paths[0], look) || !is_one_file(paths[1], look)) return;
    const std::string a = shell_word(paths[0]);
    const std::string b = shell_word(paths[1]);
    throw Error(
        "two recordings are given, which used to compare them", a + " " + b,
        fmt::format("compare them with tile-diff --against {} {}, or judge each with tile-diff --each {} {}",
                    b, a, a, b));
}

/// Options that write what there is of one recording.
void require_one(const Arguments& arguments, const Look& look = look_at) {
    const std::pair<const char*, bool> of_one[] = {{"--npy", !arguments.npy.empty()},
                                                   {"--png", !arguments.png.empty()},
                                                   {"--replay-out", !arguments.replay.empty()},
                                                   {"--explain-tolerance", !arguments.element.empty()},
                                                   {"--print-program", arguments.print_program},
                                                   {"--suggest", arguments.suggest}};
    for (const auto& [option, given] : of_one)
        if (given && !names_one_file(arguments, look))
            throw Error("it is of one recording", option, "name one file");
}

void spare_recordings(const Arguments& arguments, const std::vector<FoundPath>& found) {
    std::vector<std::string> inputs = {arguments.cause_of};
    for (const FoundPath& one : found)
        if (one.wrong.empty()) {
            inputs.push_back(one.path);
            inputs.push_back(one.against);
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
        if (answer.judged.came != Came::diverged || (worst_ && !is_worse(answer.judged, *worst_))) return;
        worst_ = answer.judged;
        text_of_worst_ = answer.text;
    }

    void summary(std::span<const JudgedRecording> all, double seconds, std::size_t left) const {
        if (silent_ || quiet_) return;
        if (!verbose_ && worst_) write_to_stdout("\n" + text_of_worst_);
        const std::string stopped = left == 0 ? "" : fmt::format("; stopped before {} more", left);
        write_to_stdout(fmt::format("\n{}; {:.2f} s{}\n", counts_text(count_judged(all)), seconds, stopped));
    }

 private:
    bool verbose_;
    bool quiet_;
    bool silent_;
    ListLayout layout_;
    std::optional<JudgedRecording> worst_;
    std::string text_of_worst_;
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
        if (!plan.arguments.new_baseline.empty()) OutputFile(plan.arguments.new_baseline);
    }

    ReportFiles& reports() { return reports_; }

    void write_baseline(std::span<const JudgedRecording> all) {
        for (const std::string& line : outdated_lines(plan_.baseline, all)) complain(line);
        if (plan_.arguments.new_baseline.empty()) return;
        OutputFile file(plan_.arguments.new_baseline);
        file.write(baseline_text(all, plan_.baseline));
        file.commit();
    }

 private:
    const JudgePlan& plan_;
    ReportFiles reports_;
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

/// Says how each came out, in their order, and all of them together.
class Teller {
 public:
    Teller(const JudgePlan& plan, const std::vector<FoundPath>& found)
        : plan_(plan),
          found_(found),
          conclusion_(plan),
          printed_(plan.arguments, found, plan.alone || conclusion_.reports().to_stdout()) {}

    /// Whether to go on.
    bool take(Answer answer) {
        progress_.clear();
        if (!answer.complaint.empty()) complain(answer.complaint);
        all_.push_back(answer.judged);
        printed_.line(answer);
        if (!plan_.alone) conclusion_.reports().add(answer.reports);
        if (plan_.alone) alone_ = std::move(answer);
        progress_.update(std::int64_t(all_.size()), std::int64_t(found_.size()));
        return !plan_.arguments.fail_fast || exit_code_of(all_.back().came) == 0;
    }

    /// The exit code.
    int end() {
        progress_.clear();
        if (alone_) return judge_alone(plan_, found_, *alone_, conclusion_);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
        printed_.summary(all_, seconds.count(), found_.size() - all_.size());
        conclusion_.write_baseline(all_);
        conclusion_.reports().write(all_);
        return exit_code_of(all_);
    }

 private:
    const JudgePlan& plan_;
    const std::vector<FoundPath>& found_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Conclusion conclusion_;
    Printed printed_;
    Progress progress_{"judging", "recordings"};
    std::vector<JudgedRecording> all_;
    std::optional<Answer> alone_;
};

Answer judge_path(const FoundPath& path, const JudgePlan& plan) {
    return path.wrong.empty() ? judge_one(path, plan) : cannot_judge(path.path, path.wrong, plan);
}

/// What there is to say of a recording whose process ended otherwise than it should: a search for causes that ends it may not
/// cost the verdict, so it is judged once more without one.
Answer judge_again(const FoundPath& path, const JudgePlan& plan, const std::string& how) {
    Answer answer = cannot_judge(path.path, died(path.path, how), plan);
    if (!plan.searches_causes()) return answer;
    JudgePlan without = plan;
    without.search_died = how;
    run_copies(
        1, 1, [&](std::size_t) { return packed(judge_path(path, without)); },
        [&](std::size_t, const CopyEnd& end) {
            if (end.said) answer = unpacked(*end.said);
            return true;
        });
    return answer;
}

int judge_found(const JudgePlan& plan, const std::vector<FoundPath>& found, int jobs) {
    Teller teller(plan, found);
    const auto work = [&](std::size_t i) { return packed(judge_path(found[i], plan)); };
    const auto take = [&](std::size_t i, const CopyEnd& end) {
        return teller.take(end.said ? unpacked(*end.said) : judge_again(found[i], plan, end.how));
    };
    run_copies(found.size(), jobs, work, take);
    return teller.end();
}

/// What there is to judge.
struct Named {
    std::vector<FoundPath> found;
    bool is_one_file = false;
};

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Named>
void each_field(Io& io, Of& named) {
    auto& [found, is_one_file] = named;
    io(found, is_one_file);
}

/// `paths`: those of the arguments, with_names().
Named find_named(const Arguments& arguments, const std::vector<std::string>& paths,
                 const RunOfFile& run_of_file, const Look& look) {
    require_clear(arguments, look);
    require_one(arguments, look);
    Named named{find_recordings(paths, run_of_file, look), names_one_file(arguments, look)};
    if (!arguments.against.empty())
        named.found = beside(std::move(named.found), paths, arguments.against, look);
    spare_recordings(arguments, named.found);
    return named;
}

JudgePlan plan_of(const Arguments& arguments, const Named& named) {
    return {arguments, report_outputs(arguments), read_baseline(arguments.baseline), named.is_one_file};
}

/// A recording that one process judges in less time than all processes need to meet, and that one of them has at hand.
bool is_small(const FoundPath& path, const Disks& disks, const WorkSharing& sharing) {
    constexpr std::int64_t most_bytes = std::int64_t(64) << 20;
    std::vector<std::string> files = path.shards;
    if (files.empty()) files.push_back(path.path);
    std::int64_t bytes = 0;
    for (const std::string& file : files) {
        bytes += disks.bytes_of(file);
        if (sharing.home_of(file) != sharing.home_of(files.front())) return false;
    }
    return bytes <= most_bytes;
}

/// Numbers of the recordings that a process judges alone each: small ones among others.
std::vector<std::size_t> handed_out(const JudgePlan& plan, const Named& named, const Disks& disks) {
    std::vector<std::size_t> numbers;
    if (named.found.size() == 1 || plan.arguments.jobs == 1 || plan.arguments.fail_fast) return numbers;
    for (std::size_t i = 0; i < named.found.size(); ++i)
        if (is_small(named.found[i], disks, *plan.sharing)) numbers.push_back(i);
    return numbers;
}

/// Judges each of them in one of the processes; their answers, by number, in every process.
std::map<std::size_t, std::string> judge_handed_out(const JudgePlan& plan, const Named& named,
                                                    const std::vector<std::size_t>& numbers) {
    WorkSharing& sharing = *plan.sharing;
    JudgePlan alone = plan;
    alone.sharing = nullptr;
    alone.judged_by = sharing.name_of(sharing.process());
    constexpr int one_thread = 1;  // the judging of each has its own
    std::vector<WorkSharing::Stretch> stretches;
    for (const std::size_t i : numbers) {
        const FoundPath& path = named.found[i];
        stretches.push_back({1, sharing.home_of(path.shards.empty() ? path.path : path.shards.front())});
    }
    const std::vector<std::string> answers = share_pieces<std::string>(
        stretches, one_thread, sharing,
        [&](std::int64_t i) { return packed(judge_path(named.found[numbers[std::size_t(i)]], alone)); });
    std::map<std::size_t, std::string> all;
    for (std::size_t i = 0; i < numbers.size(); ++i) all[numbers[i]] = answers[i];
    return all;
}

/// One after the other, by all processes that share the plan; those that were handed out are only told of.
void judge_in_order(const JudgePlan& plan, const Named& named, const Disks& disks,
                    std::optional<Teller>& teller) {
    std::vector<std::size_t> numbers;
    if (teller) numbers = handed_out(plan, named, disks);
    fold_from_first(*plan.sharing, numbers);
    std::map<std::size_t, std::string> answers;
    if (!numbers.empty()) answers = judge_handed_out(plan, named, numbers);
    for (std::size_t i = 0; i < named.found.size(); ++i) {
        const auto answer = answers.find(i);
        bool goes_on = true;
        if (answer == answers.end()) {
            Answer together = judge_path(named.found[i], plan);
            if (teller) goes_on = teller->take(std::move(together));
        } else if (teller) {
            goes_on = teller->take(unpacked(answer->second));
        }
        if (plan.arguments.fail_fast) fold_from_first(*plan.sharing, goes_on);
        if (!goes_on) return;
    }
}

/// Of which run each of the files is. Each has to be opened for that, by a process that finds it.
std::map<std::string, std::optional<std::string>> runs_of(const std::vector<std::string>& files,
                                                          const Disks& disks, WorkSharing& sharing) {
    std::vector<std::pair<std::string, std::optional<std::string>>> runs;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::vector<int> who = disks.who_has(files[i]);
        if (who[i % who.size()] == sharing.process()) runs.emplace_back(files[i], run_of(files[i]));
    }
    fold(sharing, runs, [](auto part, auto& whole) { std::ranges::move(part, std::back_inserter(whole)); });
    return {runs.begin(), runs.end()};
}

/// What the paths name on the disks of all processes.
Named find_named_together(const Arguments& arguments, const std::vector<std::string>& paths,
                          const Disks& disks, WorkSharing& sharing) {
    const Look look = [&](const std::string& path) { return disks.at(path); };
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        const OnDisk found = look(path);
        if (found.kind != OnDisk::Kind::folder) continue;
        for (const FileOnDisk& file : found.files) files.push_back(file.path);
    }
    const auto runs = runs_of(files, disks, sharing);
    // What one process cannot read another may: whoever has to judge it says what is wrong with it.
    const auto run_of_file = [&](const std::string& file) {
        const std::optional<std::string>& run = runs.at(file);
        return run ? run : run_of(file);
    };
    Named named;
    if (sharing.process() == 0) named = find_named(arguments, paths, run_of_file, look);
    for (FoundPath& path : named.found) {
        if (path.wrong.empty()) path.wrong = disks.conflict(path.path);
        for (const std::string& shard : path.shards)
            if (path.wrong.empty()) path.wrong = disks.conflict(shard);
    }
    fold_from_first(sharing, named);
    return named;
}

/// What is to be opened, apart from what is judged, too.
Disks look_together(const Arguments& arguments, std::vector<std::string>& paths, WorkSharing& sharing) {
    if (sharing.process() == 0) paths = with_names(arguments.paths, std::cin);
    fold_from_first(sharing, paths);
    std::vector<std::string> all = paths;
    for (const std::string& other : {arguments.against, arguments.cause_of})
        if (!other.empty()) all.push_back(other);
    Disks disks(all, sharing);
    share_disks(disks, sharing);
    return disks;
}

/// The exit code; of processes that say nothing, 0 where none has failed.
int judge_together(const Arguments& arguments, WorkSharing& sharing) {
    Named named;
    std::optional<Disks> disks;
    std::optional<JudgePlan> plan;
    std::optional<Teller> teller;
    sharing.together([&] {
        std::vector<std::string> paths;
        disks.emplace(look_together(arguments, paths, sharing));
        named = find_named_together(arguments, paths, *disks, sharing);
        plan = plan_of(arguments, named);
        plan->sharing = &sharing;
        plan->open = [&](const std::string& path) { return open_from(*disks, sharing, path, false); };
        plan->open_tried = [&](const std::string& path) { return open_from(*disks, sharing, path, true); };
        if (plan->arguments.judge.threads == 0) plan->arguments.judge.threads = sharing.cores();
        if (sharing.process() == 0) teller.emplace(*plan, named.found);
        judge_in_order(*plan, named, *disks, teller);
    });
    // What is written now no process can take back by its end.
    return teller ? teller->end() : 0;
}

}  // namespace

int judge_all(const Arguments& arguments, WorkSharing* sharing) {
    if (sharing != nullptr)
        return said_in_a_line(sharing, [&] { return judge_together(arguments, *sharing); });
    return said_in_a_line(nullptr, [&] {
        std::map<std::string, OnDisk> seen;
        const Look look_once = [&](const std::string& path) {
            const auto [known, is_new] = seen.try_emplace(path);
            if (is_new) known->second = look_at(path);
            return known->second;
        };
        const std::vector<std::string> paths = with_names(arguments.paths, std::cin);
        const Named named = find_named(arguments, paths, run_of, look_once);
        JudgePlan plan = plan_of(arguments, named);
        const int jobs = share_cores(named.found.size(), plan.arguments);
        return judge_found(plan, named.found, jobs);
    });
}

int ask_one(const Arguments& arguments) {
    return said_in_a_line(nullptr, [&] {
        require_one(arguments);
        return answer_question(arguments.paths[0], arguments);
    });
}

int give_up_asking(const Arguments& arguments, const std::string& how) {
    complain(died(arguments.paths[0], how));
    return unjudged_code;
}

}  // namespace tilescope
