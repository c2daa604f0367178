#include <memory>

#include "kernels/commands/command.h"
#include "kernels/commands/option_groups.h"
#include "kernels/kernel_list.h"

namespace tilescope {

Work declare_list(CLI::App& app) {
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
