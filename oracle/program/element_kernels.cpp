#include "oracle/program/element_kernels.h"

#include <vector>

namespace tilescope {

const ElementKernels& baseline_element_kernels();
#ifdef TILESCOPE_X86_64_LEVELS
const ElementKernels& x86_64_v3_element_kernels();
const ElementKernels& x86_64_v4_element_kernels();
#endif

std::span<const ElementKernels* const> runnable_element_kernels() {
    static const std::vector<const ElementKernels*> runnable = [] {
        std::vector<const ElementKernels*> kernels = {&baseline_element_kernels()};
#ifdef TILESCOPE_X86_64_LEVELS
        if (__builtin_cpu_supports("x86-64-v3")) kernels.push_back(&x86_64_v3_element_kernels());
        if (__builtin_cpu_supports("x86-64-v4")) kernels.push_back(&x86_64_v4_element_kernels());
#endif
        return kernels;
    }();
    return runnable;
}

const ElementKernels& element_kernels() {
    static const ElementKernels& best = *runnable_element_kernels().back();
    return best;
}

}  // namespace tilescope
