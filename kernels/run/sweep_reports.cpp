#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/run/sweep.h"

namespace tilescope {

namespace {

std::string_view verdict_of(const SweepCase& one) {
    if (!one.judgement.judged) return "unjudged";
    return one.judgement.match ? "match" : "diverged";
}

std::string fault_of(const RunRequest& request) {
    return request.fault == Fault::none ? "" : std::string(fault_info(request.fault).name);
}

std::string mask_of(const Problem& problem) {
    if (problem.mask == Mask::none) return "none";
    return problem.causal_alignment == CausalAlignment::top_left ? "causal_top_left" : "causal_bottom_right";
}

/// As a field of CSV.
std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
}

}  // namespace

std::string command_of(const SweepCase& one) {
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const std::string file = fmt::format("sweep-failure-{}.h5", one.request.seed);
    // The request's command begins with the name of the program.
    return fmt::format("{} -o {} && {} {}", (folder / one.request.command).string(), file,
                       (folder / "tile-diff").string(), file);
}

std::string line_of(const SweepCase& one) {
    return fmt::format("{:<8} {}  {:.2f} s{}{}\n", verdict_of(one), one.request.command, one.seconds,
                       one.passed() ? "" : "\n         ", one.passed() ? "" : one.judgement.summary);
}

std::string to_text(const SweepReport& report) {
    std::string text;
    for (const std::string& kernel : report.left_out) text += fmt::format("left out: {}\n", kernel);
    if (const SweepCase* failure = report.first_failure()) {
        text += fmt::format("first failure: {}\n", command_of(*failure));
    }
    text += fmt::format("sweep: {} passed of {}", report.passed(), report.cases.size());
    if (report.unjudged() > 0) text += fmt::format(", {} could not be judged", report.unjudged());
    if (report.cases.size() < report.planned) {
        text += fmt::format("; the budget left no time for {} more", report.planned - report.cases.size());
    }
    return text + "\n";
}

std::string to_json(const SweepReport& report) {
    nlohmann::ordered_json json;
    json["passed"] = report.passed();
    json["run"] = report.cases.size();
    json["planned"] = report.planned;
    json["unjudged"] = report.unjudged();
    json["left_out"] = report.left_out;
    json["first_failure"] = nullptr;
    if (const SweepCase* failure = report.first_failure()) json["first_failure"] = command_of(*failure);
    json["cases"] = nlohmann::json::array();
    for (const SweepCase& one : report.cases) {
        const nlohmann::json stage =
            one.judgement.stage.empty() ? nlohmann::json() : nlohmann::json(one.judgement.stage);
        json["cases"].push_back({{"verdict", verdict_of(one)},
                                 {"kernel", one.request.kernel->name},
                                 {"config", config_name(one.request.config)},
                                 {"first_wrong_stage", stage},
                                 {"compared", one.judgement.compared},
                                 {"seconds", one.seconds},
                                 {"summary", one.judgement.summary},
                                 {"command", command_of(one)}});
    }
    return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string to_csv(const SweepReport& report) {
    std::string text =
        "verdict,kernel,config,fault,dtype,batch,heads,heads_kv,seqlen_q,seqlen_kv,head_dim,mask,input,seed,"
        "engine,first_wrong_stage,compared,seconds,command\n";
    for (const SweepCase& one : report.cases) {
        const RunRequest& request = one.request;
        const Problem& p = request.problem;
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.3f},{}\n", verdict_of(one),
                            request.kernel->name, config_name(request.config), fault_of(request),
                            dtype_info(p.dtype_q).name, p.batch, p.heads, p.heads_kv, p.seqlen_q, p.seqlen_kv,
                            p.head_dim, mask_of(p), request.input->name, request.seed,
                            request.engine == Engine::cuda ? "cuda" : "cpu", one.judgement.stage,
                            one.judgement.compared, one.seconds, quoted(command_of(one)));
    }
    return text;
}

}  // namespace tilescope
