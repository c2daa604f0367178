#include "kernels/gate/launch_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/run/device_arrays.cuh"
#include "kernels/run/request.h"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"

namespace tilescope {
namespace {

using ::testing::HasSubstr;
using LaunchLibraryOnGpu = tilescope::testing::OnGpu;

TilescopeCall call_of(const RunRequest& request, const std::string& dtype, const DeviceArrays& arrays) {
    const Problem& problem = request.problem;
    TilescopeCall call = {};
    call.kernel = request.kernel->name.data();
    call.config = "";
    call.dtype = dtype.c_str();
    call.batch = problem.batch;
    call.heads = problem.heads;
    call.heads_kv = problem.heads_kv;
    call.seqlen_q = problem.seqlen_q;
    call.seqlen_kv = problem.seqlen_kv;
    call.head_dim = problem.head_dim;
    call.causal = problem.mask == Mask::causal;
    call.q = arrays.q.data();
    call.k = arrays.k.data();
    call.v = arrays.v.data();
    call.o = arrays.o.data();
    call.lse = static_cast<float*>(arrays.lse.data());
    return call;
}

TEST_F(LaunchLibraryOnGpu, LaunchesWhatTileGateMeasures) {
    for (const std::string options :
         {"scalar --shape 1,2,70,130,64", "wmma --shape 1,4,130,130,128 --causal",
          "stable --shape 2,2,64,64,64", "fast --shape 1,4,300,200,64 --heads-kv 2",
          "fast --shape 2,16,512,512,128 --causal --dtype bf16"}) {
        const RunRequest request = testing::request_of("--engine cuda --kernel " + options);
        const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
        const DeviceArrays expected(request, inputs, std::byte(0xff));
        const DeviceArrays got(request, inputs, std::byte(0xff));
        request.kernel->cuda.plain->launch(expected.args, request.config, Fault::none, Sink());
        const std::string dtype(dtype_info(request.problem.dtype_q).name);
        const TilescopeCall call = call_of(request, dtype, got);
        char error[200] = "";
        ASSERT_EQ(tilescope_launch(&call, error, sizeof error), 0) << error;
        check_cuda(cudaDeviceSynchronize(), "running the kernel");
        EXPECT_EQ(got.o.to_host(), expected.o.to_host()) << options;
        EXPECT_EQ(got.lse.to_host(), expected.lse.to_host()) << options;
        const std::vector<std::byte> o = got.o.to_host();
        EXPECT_NE(o, std::vector<std::byte>(o.size(), std::byte(0xff))) << options;
    }
}

TEST(LaunchLibrary, SaysWhatItCannotLaunch) {
    TilescopeCall call = {};
    call.kernel = "fast";
    call.config = "";
    call.dtype = "f16";
    call.batch = call.heads = call.heads_kv = 2;
    call.seqlen_q = call.seqlen_kv = 64;
    call.head_dim = 64;
    const auto refused = [](TilescopeCall wrong) {
        char error[300] = "";
        EXPECT_EQ(tilescope_launch(&wrong, error, sizeof error), 1);
        return std::string(error);
    };
    const auto with = [&](auto TilescopeCall::*field, auto value) {
        TilescopeCall wrong = call;
        wrong.*field = value;
        return refused(wrong);
    };
    EXPECT_THAT(with(&TilescopeCall::kernel, "fp8"), HasSubstr("choose scalar, wmma, stable or fast"));
    EXPECT_THAT(with(&TilescopeCall::head_dim, 96),
                HasSubstr("no configuration '' with head_dim 96 and f16"));
    EXPECT_THAT(with(&TilescopeCall::dtype, "f64"), HasSubstr("f64"));
    EXPECT_THAT(with(&TilescopeCall::config, "1x1x1"), HasSubstr("'1x1x1'"));
    EXPECT_THAT(with(&TilescopeCall::heads_kv, 3), HasSubstr("give a divisor of heads"));
    EXPECT_THAT(with(&TilescopeCall::heads_kv, 0), HasSubstr("0 is no size"));
    EXPECT_THAT(with(&TilescopeCall::batch, std::int64_t(1) << 31), HasSubstr("is no size"));
    call.causal = 1;
    EXPECT_THAT(with(&TilescopeCall::seqlen_q, 63), HasSubstr("as many queries as keys"));
    call.kernel = "nothing";
    char short_of_room[10] = "";
    EXPECT_EQ(tilescope_launch(&call, short_of_room, sizeof short_of_room), 1);
    EXPECT_EQ(std::string(short_of_room).size(), 9u);
}

}  // namespace
}  // namespace tilescope
