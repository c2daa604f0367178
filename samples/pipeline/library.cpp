// The kernels as Python calls them: compiled without hooks, as they are shipped.

#include "kernels.h"

/// 0, or 2 where there is no kernel of that name.
extern "C" int attention(const char* name, const Call* call) {
    const Kernel* const kernel = find_kernel(name);
    if (kernel == nullptr) return 2;
    kernel->run(*call);
    return 0;
}
