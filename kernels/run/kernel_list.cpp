#include "kernels/run/kernel_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/attention/registry.h"
#include "kernels/run/inputs.h"

namespace tilescope {

namespace {

std::vector<std::string> engines_of(const KernelInfo& kernel) {
    std::vector<std::string> engines = {"cuda"};
    if (kernel.cpu.hooked != nullptr) engines.push_back("cpu");
    return engines;
}

std::vector<std::string> configs_of(const KernelInfo& kernel, int head_dim, Dtype dtype) {
    std::vector<std::string> names;
    for (const KernelConfig& config : kernel.configs) {
        if (config.head_dim == head_dim && config.dtype == dtype) names.push_back(config_name(config));
    }
    return names;
}

std::vector<std::string_view> kernels_with(const FaultInfo& fault) {
    std::vector<std::string_view> names;
    for (const KernelInfo& kernel : all_kernels()) {
        if (faulty_config(kernel, fault) != nullptr) names.push_back(kernel.name);
    }
    return names;
}

OfferedWords names_in(const char* option, const auto& table) {
    OfferedWords offered{option, {}};
    for (const auto& row : table) offered.words.emplace_back(row.name);
    return offered;
}

constexpr int head_dims[] = {64, 128};
constexpr Dtype dtypes[] = {Dtype::f16, Dtype::bf16};

}  // namespace

std::string list_as_text() {
    std::string text = "kernels\n";
    for (const KernelInfo& kernel : all_kernels()) {
        text += fmt::format("  {:<8} {} (engines: {})\n", kernel.name, kernel.description,
                            fmt::join(engines_of(kernel), ", "));
        for (Dtype dtype : dtypes) {
            for (int head_dim : head_dims) {
                const std::vector<std::string> names = configs_of(kernel, head_dim, dtype);
                if (names.empty()) continue;
                text += fmt::format("           {:<4} head_dim {:>3}: {}\n", dtype_info(dtype).name, head_dim,
                                    fmt::join(names, " "));
            }
        }
    }
    text += "\ninputs\n";
    for (const InputKind& input : all_input_kinds()) {
        text += fmt::format("  {:<11} {}\n", input.name, input.description);
    }
    text += "\nfaults, by the stage they are planted in, with the options under which they show\n";
    for (const FaultInfo& fault : all_faults) {
        text +=
            fmt::format("  {:<19} {:<3}  {:<17} {:<12} {}\n", fault.name, stage_info(fault.stage).name,
                        fault.family, fmt::format("{}", fmt::join(kernels_with(fault), " ")), fault.shown_by);
        text += fmt::format("      {}\n", fault.description);
    }
    return text;
}

std::string list_as_json() {
    nlohmann::ordered_json list;
    for (const KernelInfo& kernel : all_kernels()) {
        nlohmann::ordered_json configs = nlohmann::json::array();
        for (const KernelConfig& config : kernel.configs) {
            configs.push_back({{"config", config_name(config)},
                               {"head_dim", config.head_dim},
                               {"dtype", dtype_info(config.dtype).name}});
        }
        list["kernels"].push_back({{"name", kernel.name},
                                   {"description", kernel.description},
                                   {"engines", engines_of(kernel)},
                                   {"configs", configs}});
    }
    for (const InputKind& input : all_input_kinds()) {
        list["inputs"].push_back({{"name", input.name}, {"description", input.description}});
    }
    for (const FaultInfo& fault : all_faults) {
        list["faults"].push_back({{"name", fault.name},
                                  {"stage", stage_info(fault.stage).name},
                                  {"family", fault.family},
                                  {"kernels", kernels_with(fault)},
                                  {"description", fault.description},
                                  {"shown_by", fault.shown_by},
                                  {"gpu_only", fault.gpu_only}});
    }
    return list.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<OfferedWords> listed_words() {
    return {names_in("--kernel", all_kernels()), names_in("--input", all_input_kinds()),
            names_in("--fault", all_faults), names_in("--stage", all_stages())};
}

}  // namespace tilescope
