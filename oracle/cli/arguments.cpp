#include "oracle/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "dump/cli/command_line.h"
#include "dump/schema/families.h"
#include "oracle/causes/table.h"

namespace tilescope {

namespace {

/// An infinite tolerance would compare nothing, and NaN would fail everything.
const CLI::Validator tolerance(
    [](std::string& text) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0;
        return fine ? std::string() : text + " is not a finite number from 0 on";
    },
    "");

const CLI::Validator from_zero(
    [](std::string& text) {
        std::int64_t value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && value >= 0;
        return fine ? std::string() : text + " is not a whole number from 0 on";
    },
    "");

const CLI::Validator not_empty([](std::string& text) { return text.empty() ? "has no name" : ""; }, "");

const CLI::Validator name_and_file(
    [](std::string& text) {
        const ReportOutput output = report_output(text);
        if (output.format != nullptr && !output.path.empty()) return std::string();
        return text + " is not NAME=FILE with one of " + names_of_formats();
    },
    "");

const CLI::Validator cause_name(
    [](std::string& text) {
        const bool is_one = std::ranges::find(all_causes(), text, &Cause::name) != all_causes().end();
        return is_one ? std::string() : text + " is no cause; oracle/CAUSES.md has the table";
    },
    "");

std::string names_of_families() {
    std::string names;
    for (const declarations::Family& family : declarations::all_families())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", family.name);
    return names;
}

void declare_recordings(CLI::App& app, Arguments& arguments) {
    app.add_option("paths", arguments.paths,
                   "recordings, folders (every *.h5 in them and below, sorted), or - for their names on\n"
                   "standard input, a line each or ended by NUL")
        ->type_name("PATH")
        ->required();
    const std::string group = "Which recordings";
    app.add_option("--against", arguments.against,
                   "compare with this recording instead of the float64 oracle; of a folder, with the one of\n"
                   "the same name in it and below\n"
                   "  tile-diff --against before.h5 after.h5\n"
                   "  tile-diff --against first_run/ --same-run second_run/")
        ->type_name("OTHER")
        ->check(not_empty)
        ->group(group);
    app.add_flag("--same-run", arguments.same_run,
                 "both recordings are of the same run: what differs in any bit is a race, or memory read\n"
                 "before it is written")
        ->needs("--against")
        ->group(group);
    app.add_flag("--each", arguments.each,
                 "judge each of two files, which used to be compared where nothing stands before them")
        ->excludes("--against")
        ->group(group);
}

void declare_many(CLI::App& app, Arguments& arguments) {
    const std::string group = "Many of them";
    app.add_option("-j,--jobs", arguments.jobs,
                   "recordings that are judged at once, 0 for as many as there are cores for\n"
                   "  tile-diff --jobs 4 --fail-fast recordings/")
        ->type_name("N")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str()
        ->group(group);
    app.add_option("--threads", arguments.judge.threads,
                   "threads that judge one, 0 for the cores that --jobs leaves it")
        ->type_name("N")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str()
        ->group(group);
    app.add_flag("--fail-fast", arguments.fail_fast, "stop at the first that does not match")->group(group);
    app.add_flag("--keep-going", arguments.keep_going,
                 "judge all of them whatever the others do; the default")
        ->excludes("--fail-fast")
        ->group(group);
    app.add_option("--baseline", arguments.baseline,
                   "accept the divergences that FILE names: match where nothing else diverges")
        ->type_name("FILE")
        ->check(not_empty)
        ->group(group);
    app.add_option("--write-baseline", arguments.new_baseline,
                   "write what diverges to FILE, for --baseline once a reason stands beside each")
        ->type_name("FILE")
        ->check(not_empty)
        ->group(group);
}

void declare_printed(CLI::App& app, Arguments& arguments) {
    const std::string group = "What is printed and written";
    app.add_flag("-v,--verbose", arguments.verbose,
                 "of many, the report of each that does not match, not of the worst alone")
        ->group(group);
    app.add_flag("-q,--quiet", arguments.quiet, "a line for each that does not match, and nothing else")
        ->excludes("--verbose")
        ->group(group);
    app.add_option("--stage", arguments.stage,
                   "show this stage alone, and its worst elements\n"
                   "  tile-diff run.h5 --stage o --row 17")
        ->type_name("NAME")
        ->check(not_empty)
        ->excludes("--same-run")
        ->group(group);
    app.add_option("--row", arguments.judge.compare.only_row,
                   "show worst elements of this row alone (k, v, dk, dv: of this key)")
        ->type_name("N")
        ->check(from_zero)
        ->excludes("--same-run")
        ->group(group);
    app.add_option("--tile", arguments.judge.compare.only_kv_tile,
                   "show worst elements of this KV tile alone")
        ->type_name("N")
        ->check(from_zero)
        ->excludes("--same-run")
        ->group(group);
    app.add_option("--top", arguments.judge.compare.top, "worst elements to show")
        ->type_name("N")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str()
        ->group(group);
    app.add_option("--report", arguments.reports,
                   "write the report to FILE, or - for stdout in place of the text; may be given again.\n"
                   "NAME is one of " +
                       names_of_formats() +
                       "\n  tile-diff recordings/ --report junit=junit.xml --report html=report.html")
        ->type_name("NAME=FILE")
        ->check(name_and_file)
        ->allow_extra_args(false)
        ->group(group);
    app.add_option("--json", arguments.json, "the same as --report json=FILE")
        ->type_name("FILE")
        ->check(not_empty)
        ->group(group);
    app.add_option("--npy", arguments.npy,
                   "write got, expected and difference of the first wrong stage to DIR")
        ->type_name("DIR")
        ->check(not_empty)
        ->group(group);
    app.add_option("--png", arguments.png,
                   "render the first wrong stage to DIR: dumped, expected, difference, over_budget")
        ->type_name("DIR")
        ->check(not_empty)
        ->group(group);
}

void declare_judging(CLI::App& app, Arguments& arguments) {
    const std::string group = "How it is judged";
    app.add_option("--like", arguments.like,
                   "judge as if the recording declared what kernels of a family do: " + names_of_families() +
                       ";\n--declare comes after it\n  tile-diff run.h5 --like flash-attention-2")
        ->type_name("FAMILY")
        ->check(not_empty)
        ->excludes("--against")
        ->group(group);
    app.add_option("--declare", arguments.declarations,
                   "judge as if the recording declared it, for example s.scaled=false; may be given again.\n"
                   "Of a declared kernel it is a formula of a stage, STAGE=FORMULA or STAGE:DTYPE=FORMULA\n"
                   "  tile-diff run.h5 --declare 'y=bf16(acc) * c'")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false)
        ->excludes("--against")
        ->group(group);
    app.add_option("--atol", arguments.judge.compare.atol, "absolute tolerance, in place of the derived one")
        ->check(tolerance)
        ->excludes("--same-run")
        ->group(group);
    app.add_option("--rtol", arguments.judge.compare.rtol,
                   "tolerance relative to the expected value, likewise")
        ->check(tolerance)
        ->excludes("--same-run")
        ->group(group);
    for (const char* const option : {"--npy", "--png"}) app.get_option(option)->excludes("--same-run");
}

void declare_causes(CLI::App& app, Arguments& arguments) {
    const std::string group = "Why it is wrong";
    app.add_option("--cause-of", arguments.cause_of,
                   "find the mistake of this recording, and say whether it explains the other one as well\n"
                   "  tile-diff run.h5 --cause-of known.h5")
        ->type_name("FILE")
        ->check(not_empty)
        ->excludes("--against")
        ->group(group);
    app.add_option("--replay-out", arguments.replay,
                   "write the recording to FILE as a kernel with the mistake that was found computes it")
        ->type_name("FILE")
        ->check(not_empty)
        ->excludes("--against")
        ->group(group);
    app.add_flag("--no-causes", arguments.no_causes,
                 "do not search for the mistake that explains what diverges")
        ->excludes("--replay-out", "--baseline", "--write-baseline")
        ->group(group);
    app.add_option(
           "--without-cause", arguments.without,
           "leave a cause out of the search, such as one that was ruled out by hand; may be given again")
        ->type_name("NAME")
        ->check(cause_name)
        ->allow_extra_args(false)
        ->excludes("--against", "--no-causes")
        ->group(group);
    app.add_flag("--search-all", arguments.search_all,
                 "search on where a search for causes or declarations is cut off, since it takes long")
        ->excludes("--against", "--no-causes")
        ->group(group);
}

/// What leaves no room for anything printed beside it.
void declare_asked(CLI::App& app, Arguments& arguments) {
    const std::string group = "One question of one recording";
    CLI::Option* const explain =
        app.add_option(
               "--explain-tolerance", arguments.element,
               "print what the tolerance of one element is made of, and nothing else; exit code 0.\n"
               "ROW is a q row (k, v: a key), COL a key (s, p), a feature, a lane (l), or 0\n"
               "(m, lse). KV_TILE is for m, l and acc (default: the last tile that the\n"
               "row's block sees), and for k and v the query block (default: 0). Of a declared\n"
               "kernel it is STAGE,INDEX,...[,BLOCK]: an index of each axis, and of a state the block\n"
               "after which it is (default: the last)\n"
               "  tile-diff run.h5 --explain-tolerance acc,0,0,24,12")
            ->type_name("STAGE,BATCH,HEAD,ROW,COL[,KV_TILE]")
            ->check(not_empty)
            ->group(group);
    CLI::Option* const suggest =
        app.add_flag("--suggest", arguments.suggest,
                     "print only the declarations that get further, as options for tile-diff, and on stderr\n"
                     "what they lead to and how they are written. The exit code is that of the recording as "
                     "it is")
            ->group(group);
    CLI::Option* const print =
        app.add_flag("--print-program", arguments.print_program,
                     "print the recording's formulas as the text of a declared kernel, which "
                     "oracle/PROGRAMS.md\n"
                     "describes, and nothing else; exit code 0")
            ->group(group);
    for (const char* const option : {"--against", "--report", "--json", "--npy", "--png", "--atol", "--rtol",
                                     "--cause-of", "--baseline", "--write-baseline"}) {
        explain->excludes(option);
        suggest->excludes(option);
        print->excludes(option);
    }
    print->excludes("--explain-tolerance", "--suggest");
    suggest->excludes("--replay-out", "--no-causes", "--explain-tolerance");
}

void declare(CLI::App& app, Arguments& arguments) {
    app.description(
        "Judges recordings of attention kernels, and of declared ones: which stage went wrong first, where "
        "and why.\n"
        "  tile-diff run.h5            the report of one\n"
        "  tile-diff recordings/       a line for each, and the report of the worst\n"
        "Exit code: 0 it matches, 1 it diverges, 2 it could not be judged; of many, the largest.");
    declare_recordings(app, arguments);
    declare_many(app, arguments);
    declare_printed(app, arguments);
    declare_judging(app, arguments);
    declare_causes(app, arguments);
    declare_asked(app, arguments);
}

/// What completions offer for --stage, --like and --without-cause.
std::vector<OfferedWords> known_words() {
    OfferedWords stages{"--stage", {}}, families{"--like", {}}, causes{"--without-cause", {}};
    for (const StageInfo& info : all_stages()) stages.words.emplace_back(info.name);
    for (const declarations::Family& family : declarations::all_families())
        families.words.emplace_back(family.name);
    for (const Cause& cause : all_causes()) causes.words.emplace_back(cause.name);
    return {stages, families, causes};
}

}  // namespace

std::string parse(std::vector<std::string> words, Arguments& arguments) {
    CLI::App app("", "tile-diff");
    declare(app, arguments);
    return parse_command_line(app, std::move(words), known_words());
}

std::vector<ReportOutput> report_outputs(const Arguments& arguments) {
    std::vector<ReportOutput> outputs;
    if (!arguments.json.empty()) outputs.push_back({report_format("json"), arguments.json});
    for (const std::string& report : arguments.reports) outputs.push_back(report_output(report));
    return outputs;
}

}  // namespace tilescope
