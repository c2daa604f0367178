#pragma once

#include <string>
#include <vector>

#include "oracle/judge.h"
#include "oracle/report/outputs.h"

namespace tilescope {

/// What tile-diff was asked to do.
struct Arguments {
    std::string command;             ///< all of it, for who reads a report
    std::vector<std::string> paths;  ///< recordings, folders, "-"
    std::string against;             ///< the recording they are compared with; empty: the oracle
    bool each = false;               ///< of two files, judge each
    int jobs = 0;                    ///< 0: as many as there are cores for
    bool fail_fast = false;
    bool keep_going = false;  ///< as without it
    bool verbose = false;
    bool quiet = false;
    std::string baseline;
    std::string new_baseline;
    std::string json;
    std::vector<std::string> reports;  ///< NAME=FILE
    std::string npy;
    std::string png;
    std::string stage;                      ///< that is shown in place of all
    std::string like;                       ///< a family of kernels
    std::vector<std::string> declarations;  ///< NAME=VALUE
    std::string element;                    ///< whose tolerance is explained; empty: recordings are judged
    std::string replay;
    std::string cause_of;              ///< a recording whose mistake is tried on this one
    std::vector<std::string> without;  ///< causes that are not searched for
    bool no_causes = false;
    bool search_all = false;
    bool same_run = false;
    bool suggest = false;
    bool print_program = false;
    JudgeOptions judge;
};

/// Reads what stands after the program's name. Returns what it shall print in place of judging, as of --help; otherwise "".
/// Errors: as parse_command_line().
std::string parse(std::vector<std::string> words, Arguments& arguments);

/// Of --report and --json.
std::vector<ReportOutput> report_outputs(const Arguments& arguments);

}  // namespace tilescope
