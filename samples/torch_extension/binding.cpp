// forward(q, k, v, causal, dump_path) -> (o, lse) and
// backward(q, k, v, o, lse, dout, causal, dump_path, fault) -> (dq, dk, dv), for PyTorch.

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

/// The call but for o and lse.
AttentionCall call_of(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal) {
    check(q, "q");
    check(k, "k");
    check(v, "v");
    TORCH_CHECK(k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(3) == k.size(3) &&
                    q.size(1) % k.size(1) == 0,
                "the shapes of q, k and v do not fit each other");
    TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
                "q, k and v are of different types");
    AttentionCall call = {};
    call.q = q.data_ptr();
    call.k = k.data_ptr();
    call.v = v.data_ptr();
    call.batch = q.size(0);
    call.heads = q.size(1);
    call.heads_kv = k.size(1);
    call.seqlen_q = q.size(2);
    call.seqlen_kv = k.size(2);
    call.head_dim = q.size(3);
    call.dtype = q.scalar_type() == torch::kHalf ? tilescope::Dtype::f16 : tilescope::Dtype::bf16;
    call.causal = causal;
    call.sm_scale = 1 / std::sqrt(float(call.head_dim));
    return call;
}

std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& q, const torch::Tensor& k,
                                                 const torch::Tensor& v, bool causal,
                                                 const std::string& dump_path) {
    AttentionCall call = call_of(q, k, v, causal);
    const c10::cuda::CUDAGuard guard(q.device());
    torch::Tensor o = torch::empty_like(q);
    torch::Tensor lse = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat));
    call.o = o.data_ptr();
    call.lse = lse.data_ptr<float>();
    run_attention(call, dump_path, c10::cuda::getCurrentCUDAStream());
    return {o, lse};
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> backward(
    const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& o,
    const torch::Tensor& lse, const torch::Tensor& dout, bool causal, const std::string& dump_path,
    const std::string& fault) {
    BackwardCall call = {};
    call.forward = call_of(q, k, v, causal);
    check(o, "o");
    check(dout, "dout");
    TORCH_CHECK(o.sizes() == q.sizes() && dout.sizes() == q.sizes(), "o and dout do not have the shape of q");
    TORCH_CHECK(o.scalar_type() == q.scalar_type() && dout.scalar_type() == q.scalar_type(),
                "o and dout are of another type than q");
    TORCH_CHECK(lse.is_cuda() && lse.is_contiguous() && lse.scalar_type() == torch::kFloat &&
                    lse.sizes() == q.sizes().slice(0, 3),
                "lse is not a contiguous float32 [batch, heads, seqlen_q] on the GPU");
    const c10::cuda::CUDAGuard guard(q.device());
    torch::Tensor dq = torch::empty_like(q), dk = torch::empty_like(k), dv = torch::empty_like(v);
    torch::Tensor delta = torch::empty_like(lse);
    torch::Tensor dq_sum = torch::zeros(q.sizes(), lse.options());
    call.forward.o = o.data_ptr();
    call.forward.lse = lse.data_ptr<float>();
    call.dout = dout.data_ptr();
    call.delta = delta.data_ptr<float>();
    call.dq_sum = dq_sum.data_ptr<float>();
    call.dq = dq.data_ptr();
    call.dk = dk.data_ptr();
    call.dv = dv.data_ptr();
    run_attention_backward(call, fault, dump_path, c10::cuda::getCurrentCUDAStream());
    return {dq, dk, dv};
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    using pybind11::arg;
    module.def("forward", &forward, "attention with hooks", arg("q"), arg("k"), arg("v"), arg("causal"),
               arg("dump_path") = "");
    module.def("backward", &backward, "gradients of attention, with hooks", arg("q"), arg("k"), arg("v"),
               arg("o"), arg("lse"), arg("dout"), arg("causal"), arg("dump_path") = "", arg("fault") = "");
}
