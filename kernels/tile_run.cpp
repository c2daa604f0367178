#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <new>
#include <string_view>
#include <vector>

#include "dump/error.h"
#include "dump/file_writer.h"
#include "kernels/kernel_list.h"
#include "kernels/run_kernel.h"
#include "kernels/run_options.h"

namespace tilescope {
namespace {

enum ExitCode { exit_done = 0, exit_not_inert = 1, exit_failed = 2 };

std::string describe(const RunRequest& request) {
    std::string text = fmt::format("{} {} head_dim {}", request.kernel->name, config_name(request.config),
                                   request.config.head_dim);
    if (request.fault != Fault::none) {
        const FaultInfo& fault = fault_info(request.fault);
        text += fmt::format(", fault {} planted in {}", fault.name, stage_info(fault.stage).name);
    }
    return text;
}

int prove(const RunRequest& request) {
    const InertProof proof = prove_inert(request);
    if (proof.different != 0) {
        fmt::print("{}: the hooks change {} of {} bytes of o and lse, the first in {}\n", describe(request),
                   proof.different, proof.compared, proof.first_difference);
        return exit_not_inert;
    }
    fmt::print("{}: o and lse have the same {} bytes with and without hooks\n", describe(request),
               proof.compared);
    return exit_done;
}

/// Stages whose tiles had no room, or "".
std::string stages_without_room(const CapturedRun& run) {
    std::vector<std::string_view> names;
    for (const StageInfo& stage : all_stages()) {
        if (run.capture().stages[std::size_t(stage.stage)].elements_dropped > 0) names.push_back(stage.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

int record(const RunRequest& request, const std::string& path) {
    const auto start = std::chrono::steady_clock::now();
    const CapturedRun run = run_kernel(request);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    write_recording(path, run);
    if (!request.notice.empty()) fmt::print(stderr, "tile-run: {}\n", request.notice);
    const std::string dropped = stages_without_room(run);
    if (!dropped.empty()) {
        fmt::print(stderr,
                   "tile-run: {}: no room for all tiles of {}; raise --sink-bytes or --select fewer\n", path,
                   dropped);
    }
    fmt::print("{} on {} in {:.2f} s: {}, {} bytes\n", describe(request), run.provenance().device,
               seconds.count(), path, std::filesystem::file_size(path));
    if (run.capture().ended != "completed") {
        throw Error("the kernel failed (" + run.capture().ended + "), what was captured is saved", path,
                    request.mapped_sink || request.engine == Engine::cpu
                        ? "judge it with tile-diff"
                        : "run it again with --sink-memory mapped to keep its tiles");
    }
    fmt::print("next: tile-diff {}\n", path);
    return exit_done;
}

int run(const RunOptions& options) {
    if (!options.help.empty()) {
        fmt::print("{}", options.help);
        return exit_done;
    }
    if (options.list) {
        fmt::print("{}", options.json ? list_as_json() : list_as_text());
        return exit_done;
    }
    if (options.json) throw Error("it belongs to --list", "--json", "add --list or leave it out");
    if (options.prove_inert != options.output.empty()) {
        throw Error(
            options.prove_inert ? "nothing is recorded with --prove-inert" : "no output file is named", "-o",
            options.prove_inert ? "leave it out" : "name the recording to write, for example -o run.h5");
    }
    const RunRequest request = make_request(options);
    return options.prove_inert ? prove(request) : record(request, options.output);
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    try {
        return tilescope::run(tilescope::parse_options({argv + 1, argv + argc}));
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "tile-run: --shape: not enough memory; choose a smaller shape or --select less\n");
    } catch (const std::exception& error) {
        fmt::print(stderr, "tile-run: {}\n", error.what());
    }
    return tilescope::exit_failed;
}
