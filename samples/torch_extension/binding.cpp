// forward(q, k, v, causal, dump_path) -> (o, lse), for PyTorch.

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <cmath>
#include <string>
#include <tuple>

#include "samples/torch_extension/attention.h"

namespace {

void check(const torch::Tensor& tensor, const char* name) {
    TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.dim() == 4, name,
                " is not a contiguous [batch, heads, seqlen, head_dim] on the GPU");
    TORCH_CHECK(tensor.scalar_type() == torch::kHalf || tensor.scalar_type() == torch::kBFloat16, name,
                " is not float16 or bfloat16");
}

std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& q, const torch::Tensor& k,
                                                 const torch::Tensor& v, bool causal,
                                                 const std::string& dump_path) {
    check(q, "q");
    check(k, "k");
    check(v, "v");
    TORCH_CHECK(k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(3) == k.size(3) &&
                    q.size(1) % k.size(1) == 0,
                "the shapes of q, k and v do not fit each other");
    TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
                "q, k and v are of different types");
    const c10::cuda::CUDAGuard guard(q.device());
    torch::Tensor o = torch::empty_like(q);
    torch::Tensor lse = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat));

    AttentionCall call = {};
    call.q = q.data_ptr();
    call.k = k.data_ptr();
    call.v = v.data_ptr();
    call.o = o.data_ptr();
    call.lse = lse.data_ptr<float>();
    call.batch = q.size(0);
    call.heads = q.size(1);
    call.heads_kv = k.size(1);
    call.seqlen_q = q.size(2);
    call.seqlen_kv = k.size(2);
    call.head_dim = q.size(3);
    call.dtype = q.scalar_type() == torch::kHalf ? tilescope::Dtype::f16 : tilescope::Dtype::bf16;
    call.causal = causal;
    call.sm_scale = 1 / std::sqrt(float(call.head_dim));
    run_attention(call, dump_path, c10::cuda::getCurrentCUDAStream());
    return {o, lse};
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("forward", &forward, "attention with hooks", pybind11::arg("q"), pybind11::arg("k"),
               pybind11::arg("v"), pybind11::arg("causal"), pybind11::arg("dump_path") = "");
}
