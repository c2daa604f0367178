#include "oracle/cli/main.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "dump/cli/program.h"
#include "dump/schema/error.h"
#include "dump/schema/shell_word.h"
#include "oracle/cli/arguments.h"
#include "oracle/cli/judge_all.h"
#include "oracle/judge/work_sharing.h"
#include "oracle/report/outputs.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tilescope {

namespace {

/// Every tile takes and frees the same memory: what the system gets back it gives again page by page, under a
/// lock of all threads.
void keep_freed_memory() {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace

int tile_diff_main(int argc, char** argv, WorkSharing* sharing) {
    keep_freed_memory();
    const bool is_first = sharing == nullptr || sharing->process() == 0;
    Arguments arguments;
    arguments.command = "tile-diff";
    for (int i = 1; i < argc; ++i) arguments.command += " " + shell_word(argv[i]);
    try {
        const std::string help = parse({argv + 1, argv + argc}, arguments);
        if (!help.empty()) {
            // Who closes the pipe has read enough: it ends as every program does.
            if (is_first) write_to_stdout(help);
            return 0;
        }
    } catch (const Error& error) {
        if (is_first) fmt::print(stderr, "tile-diff: {}\n", error.what());
        return 2;
    }
    // Of what is judged a closed pipe is an error of the write, not a signal.
    std::signal(SIGPIPE, SIG_IGN);
    const bool asks = arguments.suggest || arguments.print_program || !arguments.element.empty();
    if (!asks) return run_program([&] { return judge_all(arguments, sharing); });
    if (!is_first) return 0;
    // Who judges with others cannot be copied.
    if (sharing != nullptr) return run_program([&] { return ask_one(arguments); });
    return run_supervised([&] { return ask_one(arguments); },
                          [&](const std::string& how) { return give_up_asking(arguments, how); });
}

}  // namespace tilescope
