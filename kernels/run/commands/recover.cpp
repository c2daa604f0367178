#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "dump/file/identity.h"
#include "dump/reader.h"
#include "dump/writer.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"

namespace tilescope {

namespace {

int recover(const std::string& sink_file, const std::string& path) {
    spare_inputs(std::span(&sink_file, 1), std::span(&path, 1));
    write_recording(path, *open_recording(sink_file));
    say(stdout, "what {} holds: {}, {} bytes\nnext: tile-diff {}\n", sink_file, path,
        std::filesystem::file_size(path), path);
    return exit_done;
}

}  // namespace

Subcommand declare_recover(CLI::App& app) {
    struct RecoverOptions {
        std::string sink_file;
        RunOptions written;  ///< of it only the output
    };
    const auto options = std::make_shared<RecoverOptions>();
    app.description(
        "Makes a recording of what a killed run left in its sink file; no kernel is run.\n"
        "Exit code: 0 recorded, 2 it could not be done.");
    app.add_option("sink", options->sink_file, "the file of --sink-memory file")->required();
    declare_output(app, options->written, "the recording to write")->required();
    return {[options] { return recover(options->sink_file, options->written.output); },
            [options](const std::string& how) {
                return options->sink_file + ": reading it does not end (" + how +
                       "); copy it again, or record it again";
            }};
}

}  // namespace tilescope
