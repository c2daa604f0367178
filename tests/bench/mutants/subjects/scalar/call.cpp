// The bundled kernel scalar, as the CPU engine plays its thread blocks.

#include <cmath>
#include <memory>
#include <vector>

#include "tests/bench/mutants/run_call.h"

#include "kernels/attention/cpu_block.h"
#include "kernels/attention/scalar_body.h"

namespace {

using Config = tilescope::ScalarConfig<32, 32, 2, 64>;

std::vector<tilescope::Half> halves(const Real* values, std::size_t count) {
    std::vector<tilescope::Half> stored(count);
    for (std::size_t i = 0; i < count; ++i) stored[i] = {_Float16(values[i])};
    return stored;
}

}  // namespace

Shape shape_of(const std::string& call) {
    if (call != "causal" && call != "full") return {.heads = 0};
    return {.heads = 4,
            .heads_kv = 2,
            .seqlen_q = 72,
            .seqlen_kv = 100,
            .head_dim = Config::head_dim,
            .block_m = Config::block_m,
            .block_n = Config::block_n,
            .sm_scale = 0.125,
            .causal = call == "causal",
            .half = true,
            .growth = 3};
}

void run(const std::string&, const Shape& shape, const Arrays& of TILESCOPE_HOST_SINK_PARAM(sink)) {
    using namespace tilescope;
    const std::size_t of_q =
        std::size_t(shape.heads) * std::size_t(shape.seqlen_q) * std::size_t(shape.head_dim);
    const std::size_t of_kv =
        std::size_t(shape.heads_kv) * std::size_t(shape.seqlen_kv) * std::size_t(shape.head_dim);
    const std::vector<Half> q = halves(of.q, of_q), k = halves(of.k, of_kv), v = halves(of.v, of_kv);
    std::vector<Half> o(of_q);
    std::vector<Real> lse(of_q / Config::head_dim);
    AttentionArgs args;
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.o = o.data();
    args.lse = lse.data();
    args.batch = 1;
    args.heads = shape.heads;
    args.heads_kv = shape.heads_kv;
    args.seqlen_q = shape.seqlen_q;
    args.seqlen_kv = shape.seqlen_kv;
    args.sm_scale = Real(shape.sm_scale);
    args.causal = shape.causal;
    args.causal_offset = shape.seqlen_kv - shape.seqlen_q;
    const int q_blocks = (args.seqlen_q + Config::block_m - 1) / Config::block_m;
    for (int head = 0; head < args.heads; ++head) {
        for (int q_block = 0; q_block < q_blocks; ++q_block) {
            const auto shared = std::make_unique<ScalarShared<Config>>();
            CpuBlock<Config::threads> block(q_block, head, 0);
            TILESCOPE_BLOCK(sink, 0, head, q_block);
            KERNEL_BUILD::scalar_attention<Config>(block, *shared, args TILESCOPE_BLOCK_ARG);
        }
    }
    for (std::size_t i = 0; i < of_q; ++i) of.o[i] = Real(o[i].value);
}
