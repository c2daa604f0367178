#include "kernels/gate/launch_library.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>

#include "dump/schema/dtype.h"
#include "dump/schema/error.h"
#include "kernels/attention/builds.h"
#include "kernels/attention/configs.h"
#include "kernels/attention/fast.h"
#include "kernels/attention/scalar.h"
#include "kernels/attention/stable.h"
#include "kernels/attention/wmma.h"

namespace tilescope {

namespace plain {
extern const CudaBuild scalar, wmma, stable, fast;
}  // namespace plain

namespace {

/// A kernel that needs nothing but its arguments.
struct Launchable {
    std::string_view name;
    const CudaBuild& build;
    std::span<const KernelConfig> configs;
};
const Launchable launchables[] = {{"scalar", plain::scalar, scalar_configs},
                                  {"wmma", plain::wmma, wmma_configs},
                                  {"stable", plain::stable, stable_configs},
                                  {"fast", plain::fast, fast_configs}};

const Launchable& launchable_of(std::string_view name) {
    const auto* const found =
        std::ranges::find_if(launchables, [&](const Launchable& one) { return one.name == name; });
    if (found == std::end(launchables)) {
        throw Error(fmt::format("there is no such kernel: {}", name), "TilescopeCall::kernel",
                    "choose scalar, wmma, stable or fast");
    }
    return *found;
}

bool device_has_wgmma() {
    int device = 0;
    int major = 0;
    int minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
           major == 9 && minor == 0;
}

const KernelConfig& config_of(const Launchable& kernel, const TilescopeCall& call) {
    const std::optional<Dtype> dtype = dtype_from_name(call.dtype);
    const KernelConfig* const config =
        dtype ? find_config(kernel.configs, call.config, call.head_dim, *dtype,
                            call.batch * call.heads * call.seqlen_q, device_has_wgmma())
              : nullptr;
    if (config != nullptr) return *config;
    throw Error(fmt::format("{} has no configuration '{}' with head_dim {} and {}", kernel.name, call.config,
                            call.head_dim, call.dtype),
                "TilescopeCall::config", "tile-run list shows those that it has");
}

AttentionArgs arguments_of(const TilescopeCall& call) {
    const std::int64_t sizes[] = {call.batch, call.heads, call.heads_kv, call.seqlen_q, call.seqlen_kv};
    for (const std::int64_t size : sizes) {
        if (size >= 1 && size <= std::numeric_limits<int>::max()) continue;
        throw Error(fmt::format("{} is no size", size), "TilescopeCall", "give sizes from 1 to 2^31 - 1");
    }
    if (call.heads % call.heads_kv != 0) {
        throw Error(fmt::format("{} heads do not share {} KV heads evenly", call.heads, call.heads_kv),
                    "TilescopeCall::heads_kv", "give a divisor of heads");
    }
    if (call.causal != 0 && call.seqlen_q != call.seqlen_kv) {
        throw Error("the alignment of the mask is not said", "TilescopeCall::causal",
                    "give as many queries as keys");
    }
    AttentionArgs args;
    args.q = call.q;
    args.k = call.k;
    args.v = call.v;
    args.o = call.o;
    args.lse = call.lse;
    args.batch = int(call.batch);
    args.heads = int(call.heads);
    args.heads_kv = int(call.heads_kv);
    args.seqlen_q = int(call.seqlen_q);
    args.seqlen_kv = int(call.seqlen_kv);
    args.sm_scale = float(1 / std::sqrt(double(call.head_dim)));
    args.causal = call.causal != 0;
    return args;
}

}  // namespace

}  // namespace tilescope

int tilescope_launch(const TilescopeCall* call, char* error, std::size_t error_bytes) {
    using namespace tilescope;
    try {
        const Launchable& kernel = launchable_of(call->kernel);
        kernel.build.launch(arguments_of(*call), config_of(kernel, *call), Fault::none, Sink());
        return 0;
    } catch (const std::exception& what) {
        if (error_bytes == 0) return 1;
        std::strncpy(error, what.what(), error_bytes - 1);
        error[error_bytes - 1] = '\0';
        return 1;
    }
}
