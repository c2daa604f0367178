#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

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

/// Build<row>::forward of the row of `configs` that equals `config`; null when none does.
template <const auto& configs, template <std::size_t> class Build>
constexpr auto build_for(const KernelConfig& config) {
    auto find = [&]<std::size_t... row>(std::index_sequence<row...>) {
        decltype(&Build<0>::forward) found = nullptr;
        ((configs[row] == config ? void(found = &Build<row>::forward) : void()), ...);
        return found;
    };
    return find(std::make_index_sequence<compiled_rows<configs>()>());
}

/// Build<fault>::forward; null when `kernel` is not built with that fault.
template <FaultyKernel kernel, template <Fault> class Build>
constexpr auto build_with(Fault fault) {
    auto find = [&]<std::size_t... row>(std::index_sequence<row...>) {
        decltype(&Build<Fault::none>::forward) found = nullptr;
        auto compare = [&]<std::size_t i>(std::integral_constant<std::size_t, i>) {
            if constexpr (applies_to(all_faults[i], kernel)) {
                if (all_faults[i].fault == fault) found = &Build<all_faults[i].fault>::forward;
            }
        };
        (compare(std::integral_constant<std::size_t, row>()), ...);
        return found;
    };
    return find(std::make_index_sequence<std::size(all_faults)>());
}

}  // namespace tilescope
