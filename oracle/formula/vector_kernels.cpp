#include "oracle/formula/vector_kernels.h"

#include <vector>

#include "dump/schema.h"

namespace tilescope {

static_assert(unwritten_word == unwritten_bits);

const VectorKernels& baseline_vector_kernels();
#ifdef TILESCOPE_X86_64_LEVELS
const VectorKernels& x86_64_v3_vector_kernels();
const VectorKernels& x86_64_v4_vector_kernels();
#endif

std::span<const VectorKernels* const> runnable_vector_kernels() {
    static const std::vector<const VectorKernels*> runnable = [] {
        std::vector<const VectorKernels*> kernels = {&baseline_vector_kernels()};
#ifdef TILESCOPE_X86_64_LEVELS
        if (__builtin_cpu_supports("x86-64-v3")) kernels.push_back(&x86_64_v3_vector_kernels());
        if (__builtin_cpu_supports("x86-64-v4")) kernels.push_back(&x86_64_v4_vector_kernels());
#endif
        return kernels;
    }();
    return runnable;
}

const VectorKernels& vector_kernels() {
    static const VectorKernels& best = *runnable_vector_kernels().back();
    return best;
}

}  // namespace tilescope
