#include <CLI/CLI.hpp>
#include <memory>

#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/kernel_list.h"

namespace tilescope {

Subcommand declare_list(CLI::App& app) {
    const auto json = std::make_shared<bool>(false);
    app.description(
        "Lists the bundled kernels with their configurations, the kinds of input and the faults.\n"
        "Exit code: 0.");
    declare_json(app, *json);
    return {[json] {
        say(stdout, "{}", *json ? list_as_json() : list_as_text());
        return exit_done;
    }};
}

}  // namespace tilescope
