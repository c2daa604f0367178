#pragma once

// The row that ends the source of a kernel, and what it is made of: entry<Kernel, configs>(). A kernel with
// faults adds its FaultyBuild. Kernel says
//
//     template <KernelConfig config>
//     using ConfigOf = ...;                                  // what the templates below take as Config
//     template <class Config>
//     static auto function();                                // the __global__ function
//     template <class Config>
//     static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink));

#include <cstddef>
#include <iterator>
#include <utility>

#include "dump/hook.h"
#include "kernels/attention/builds.h"
#include "kernels/attention/platform.h"
#include "kernels/attention/played_fault.h"
#ifdef __CUDACC__
#include "kernels/attention/launch.cuh"
#endif

namespace tilescope::KERNEL_BUILD {

/// Rows of `configs` that are compiled. One shows what hooks leave and take; the gates of every day compile
/// no more.
template <const auto& configs>
constexpr std::size_t compiled_rows() {
#ifdef FIRST_CONFIGURATION_ONLY
    return 1;
#else
    return std::size(configs);
#endif
}

/// Calls use<0>() ... use<rows - 1>().
template <std::size_t rows, class Use>
void each_row(Use use) {
    [&]<std::size_t... row>(std::index_sequence<row...>) {
        (use.template operator()<row>(), ...);
    }
    (std::make_index_sequence<rows>());
}

/// Calls Kernel::launch of the configuration.
template <class Kernel, const auto& configs, class... Arguments>
Launch launch_config(const KernelConfig& config, const Arguments&... arguments) {
    Launch launched;
    each_row<compiled_rows<configs>()>([&]<std::size_t row>() {
        using Config = typename Kernel::template ConfigOf<configs[row]>;
        if (configs[row] == config) launched = Kernel::template launch<Config>(arguments...);
    });
    return launched;
}

#ifdef __CUDACC__
template <class Kernel, const auto& configs>
const void* function_of(const KernelConfig& config) {
    const void* found = nullptr;
    each_row<compiled_rows<configs>()>([&]<std::size_t row>() {
        using Config = typename Kernel::template ConfigOf<configs[row]>;
        if (configs[row] == config) {
            found = reinterpret_cast<const void*>(Kernel::template function<Config>());
        }
    });
    return found;
}

#ifdef PLANTED_FAULTS
/// Calls Kernel::launch of the configuration that has faults. Which one it makes, the kernel is told in the stream that
/// it is launched in.
template <class Kernel, FaultyBuild faulty, class... Arguments>
Launch launch_fault(Fault fault, const Arguments&... arguments) {
    if constexpr (faulty.kernel == FaultyKernel::none) {
        return {};
    } else {
        using Config = typename Kernel::template ConfigOf<faulty.config>;
        host_fault = fault;
        check_launch(cudaMemcpyToSymbolAsync(device_fault, &fault, sizeof(fault)), "--fault");
        return Kernel::template launch<Config>(arguments...);
    }
}
#endif

template <class Kernel, const auto& configs, FaultyBuild faulty = FaultyBuild()>
constexpr CudaBuild entry() {
#ifdef PLANTED_FAULTS
    return {[](const AttentionArgs& args, const KernelConfig&, Fault fault, const Sink& sink) {
                return launch_fault<Kernel, faulty>(fault, args TILESCOPE_SINK_ARG(sink));
            },
            nullptr};
#else
    return {
        [](const AttentionArgs& args, const KernelConfig& config, Fault, [[maybe_unused]] const Sink& sink) {
            return launch_config<Kernel, configs>(config, args TILESCOPE_SINK_ARG(sink));
        },
        function_of<Kernel, configs>};
#endif
}
#endif

}  // namespace tilescope::KERNEL_BUILD
