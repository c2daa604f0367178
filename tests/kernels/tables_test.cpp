#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "kernels/attention/registry.h"
#include "kernels/run/inputs.h"
#include "kernels/run/options.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

TEST(Faults, AKernelThatHasAnyHasTenOfDifferentFamiliesInEveryStage) {
    for (const KernelInfo& kernel : all_kernels()) {
        if (kernel.faults.empty()) continue;
        std::set<std::string_view> families;
        std::set<Stage> stages;
        for (const FaultInfo& fault : all_faults) {
            if (faulty_config(kernel, fault) == nullptr) continue;
            families.insert(fault.family);
            stages.insert(fault.stage);
        }
        EXPECT_GE(families.size(), 10u) << kernel.name;
        for (const StageInfo& stage : stages_of(Direction::forward)) {
            EXPECT_EQ(stages.contains(stage.stage), records(kernel, stage.stage))
                << kernel.name << " " << stage.name;
        }
    }
}

TEST(Faults, AreCompiledForOneConfigurationOfAKernel) {
    const KernelInfo& fast = *find_kernel("fast");
    EXPECT_TRUE(faulty_config(fast, *find_fault("parity_kept"))->wgmma);
    EXPECT_FALSE(faulty_config(fast, *find_fault("l_not_rescaled"))->wgmma);
    EXPECT_EQ(faulty_config(*find_kernel("scalar"), *find_fault("parity_kept")), nullptr);
}

TEST(Faults, AreFoundByNameAndListedByStage) {
    Stage before = Stage::q;
    std::set<Fault> seen;
    for (const FaultInfo& fault : all_faults) {
        EXPECT_EQ(find_fault(fault.name), &fault);
        EXPECT_EQ(&fault_info(fault.fault), &fault);
        EXPECT_TRUE(seen.insert(fault.fault).second) << fault.name;
        EXPECT_NE(fault.fault, Fault::none);
        EXPECT_GE(fault.stage, before) << fault.name;
        before = fault.stage;
    }
    EXPECT_EQ(find_fault("none"), nullptr);
}

TEST(Kernels, HaveADefaultConfigurationForEachHeadDim) {
    for (const KernelInfo& kernel : all_kernels()) {
        EXPECT_EQ(find_kernel(kernel.name), &kernel);
        for (int head_dim : {64, 128}) {
            ASSERT_NE(find_config(kernel.configs, "", head_dim), nullptr) << kernel.name;
            EXPECT_EQ(find_config(kernel.configs, "", head_dim)->head_dim, head_dim);
        }
        EXPECT_EQ(find_config(kernel.configs, "", 96), nullptr);
        EXPECT_EQ(find_config(kernel.configs, "1x1x1", 64), nullptr);
        for (const auto& [_, faulty] : kernel.faults) {
            EXPECT_EQ(*find_config(kernel.configs, config_name(faulty), faulty.head_dim), faulty);
        }
    }
}

TEST(Kernels, FastTakesLargeTilesWhereTheyFillTheGpu) {
    const KernelInfo& fast = *find_kernel("fast");
    for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        EXPECT_EQ(find_config(fast.configs, "", 64, dtype, 8 * 512)->block_m, 32);
        EXPECT_EQ(find_config(fast.configs, "", 64, dtype, 64 * 2048)->block_m, 128);
        EXPECT_EQ(find_config(fast.configs, "", 128, dtype, 64 * 4096)->block_m, 128);
        EXPECT_EQ(find_config(fast.configs, "", 64, dtype)->dtype, dtype);
    }
    EXPECT_EQ(find_config(find_kernel("wmma")->configs, "", 64, Dtype::bf16), nullptr);
}

TEST(Kernels, FastTakesWgmmaWhereTheGpuHasItAndTheCallIsLarge) {
    const KernelInfo& fast = *find_kernel("fast");
    for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (int head_dim : {64, 128}) {
            EXPECT_TRUE(find_config(fast.configs, "", head_dim, dtype, 64 * 2048, true)->wgmma);
            EXPECT_FALSE(find_config(fast.configs, "", head_dim, dtype, 64 * 2048, false)->wgmma);
            EXPECT_FALSE(find_config(fast.configs, "", head_dim, dtype, 8 * 512, true)->wgmma);
            EXPECT_TRUE(find_config(fast.configs, "128x128x2xwgmma", head_dim, dtype)->wgmma);
        }
    }
    EXPECT_FALSE(find_config(fast.configs, "128x128x2", 64)->wgmma);
}

TEST(Kernels, Fp8TakesWgmmaWhereTheGpuHasItAndTheCallIsLarge) {
    const KernelInfo& fp8 = *find_kernel("fp8");
    for (int head_dim : {64, 128}) {
        const KernelConfig& large = *find_config(fp8.configs, "", head_dim, Dtype::f16, 64 * 2048, true);
        EXPECT_TRUE(large.wgmma && large.p_in_fp8);
        EXPECT_FALSE(find_config(fp8.configs, "", head_dim, Dtype::f16, 64 * 2048, false)->wgmma);
        EXPECT_FALSE(find_config(fp8.configs, "", head_dim, Dtype::f16, 8 * 512, true)->wgmma);
        EXPECT_TRUE(takes_v_along_keys(fp8, large));
        EXPECT_FALSE(takes_v_along_keys(fp8, *find_config(fp8.configs, "64x64x1xe4m3", head_dim)));
    }
    EXPECT_TRUE(find_config(fp8.configs, "128x128x2xe4m3xwgmma", 128)->wgmma);
    EXPECT_TRUE(find_config(fp8.configs, "192x128x4xe4m3xwgmma", 64)->wgmma);
    EXPECT_FALSE(takes_v_along_keys(*find_kernel("fast"),
                                    *find_config(find_kernel("fast")->configs, "128x128x2xwgmma", 64)));
    EXPECT_FALSE(faulty_config(fp8, *find_fault("p_not_scaled"))->wgmma);
}

TEST(Kernels, Fp8DeclaresTheSoftmaxOfItsBuild) {
    const KernelInfo& fp8 = *find_kernel("fp8");
    const KernelConfig& wgmma = *find_config(fp8.configs, "128x128x2xe4m3xwgmma", 128);
    const KernelConfig& mma = *find_config(fp8.configs, "64x64x1xe4m3", 128);
    EXPECT_EQ(recorded_of(fp8, wgmma).l_lanes, 4);
    EXPECT_EQ(recorded_of(fp8, mma).l_lanes, 1);
    const Units of_wgmma = units_of(fp8, wgmma);
    const Units of_mma = units_of(fp8, mma);
    for (const Units& units : {of_wgmma, of_mma}) {
        EXPECT_EQ(units.p_scale, 256.0);
        EXPECT_EQ(units.acc_scale, 256.0);
        EXPECT_EQ(units.s_accumulation, Accumulation::tensor_core_fp8);
        EXPECT_EQ(units.acc_accumulation, Accumulation::tensor_core_fp8);
        EXPECT_FALSE(units.v_dequantised || units.acc_dequantised);
    }
    // The exponential is multiplied with the scale of P before it is added up.
    EXPECT_EQ(of_wgmma.l_scale, 256.0);
    EXPECT_EQ(of_mma.l_scale, 1.0);
    EXPECT_FALSE(of_wgmma.s_scaled);
    EXPECT_TRUE(of_mma.s_scaled);
}

TEST(RunRequest, TakesTypesAndSplitsFromTheConfiguration) {
    const KernelInfo& fast = *find_kernel("fast");
    EXPECT_EQ(units_of(fast, *find_config(fast.configs, "", 64, Dtype::bf16)).p_cast, Dtype::bf16);
    EXPECT_EQ(units_of(fast, *find_config(fast.configs, "", 64)).p_cast, Dtype::f16);
    const KernelInfo& scalar = *find_kernel("scalar");
    EXPECT_EQ(units_of(scalar, scalar.configs[0]).p_cast, Dtype::f32);
}

TEST(Kernels, CublasStoresItsProductsAndHoldsNoTilesOfQAndK) {
    const KernelInfo& cublas = *find_kernel("cublas");
    EXPECT_FALSE(records(cublas, Stage::q));
    EXPECT_FALSE(records(cublas, Stage::k));
    EXPECT_TRUE(records(cublas, Stage::v));
    EXPECT_TRUE(records(*find_kernel("scalar"), Stage::q));
    const Units units = units_of(cublas, cublas.configs[0]);
    EXPECT_EQ(units.s_accumulation, Accumulation::tensor_core_f32);
    EXPECT_EQ(units.acc_accumulation, Accumulation::fma_f32);
    EXPECT_EQ(products_pitch(1), 64);
    EXPECT_EQ(products_pitch(64), 64);
    EXPECT_EQ(products_pitch(65), 128);
}

TEST(Kernels, ScalarHasEveryTileWithOneAndTwoStages) {
    for (const char* name :
         {"16x64x1", "16x64x2", "32x32x1", "32x32x2", "32x64x1", "32x64x2", "48x64x1", "48x64x2"}) {
        for (int head_dim : {64, 128}) {
            EXPECT_NE(find_config(find_kernel("scalar")->configs, name, head_dim), nullptr) << name;
        }
    }
}

TEST(RunOptions, CommandLineAsksForTheSameRun) {
    RunOptions options = options_of(
        "--kernel scalar --config 32x32x1 --shape 1,10,3,4,64 --heads-kv 2 --causal --causal-alignment "
        "top_left "
        "--input ramped --seed 12345678901234567890 --select head=1,3:stage=s --sink-bytes 512M");
    options.output = "a file.h5";
    const std::string line = command_line(options, "cpu");
    EXPECT_EQ(
        line,
        "tile-run record --kernel scalar --config 32x32x1 --shape 1,10,3,4,64 --heads-kv 2 --causal "
        "--causal-alignment top_left --input ramped --seed 12345678901234567890 --select head=1,3:stage=s "
        "--sink-bytes 536870912 --engine cpu -o 'a file.h5'");

    options.output.clear();
    options.sink_memory = SinkMemory::mapped;
    options.sink_mode = SinkMode::writers;
    options.subcommand = "flight";
    options.own_options = {"--keep", "3", "--limit", "acc=1 000"};
    EXPECT_NE(
        command_line(options, "cuda")
            .find("--sink-bytes 536870912 --sink-memory mapped --writers --engine cuda --keep 3 --limit "
                  "'acc=1 000'"),
        std::string::npos);

    options = options_of("--kernel scalar --config 32x32x1 --shape 1,10,3,4,64 -o run.h5");
    options.dtype = "bf16";
    const std::string plain = command_line(options, "cpu");
    EXPECT_NE(plain.find(" --dtype bf16 "), std::string::npos);
    EXPECT_EQ(command_line(options_of(plain.substr(plain.find("--kernel"))), "cpu"), plain);
}

TEST(RunRequest, HoldsWhatTheKernelIsGiven) {
    const RunRequest request = request_of(
        "--kernel scalar --engine cpu --shape 2,6,30,50,128 --heads-kv 3 --causal --select stage=o");
    EXPECT_EQ(request.problem.sm_scale, double(float(1 / std::sqrt(128.0))));
    EXPECT_EQ(request.problem.mask, Mask::causal);
    EXPECT_EQ(request.problem.heads_kv, 3);
    EXPECT_EQ(request.problem.block_m, 32);
    EXPECT_EQ(request.problem.dtype_p, Dtype::f32);
    EXPECT_EQ(request.selection.stages, std::vector{Stage::o});
    const AttentionArgs args = sizes_of(request.problem);
    EXPECT_EQ(args.causal_offset, 20);
    EXPECT_EQ(args.sm_scale, float(1 / std::sqrt(128.0)));
}

TEST(RunRequest, ARunRecordsTheCommandThatRepeatsIt) {
    const std::string options = "--kernel scalar --engine cpu --shape 1,1,40,70,64 --fault p_bf16 -o run.h5";
    const CapturedRun first = run_kernel(request_of(options));
    const std::string command = first.provenance().command;
    EXPECT_EQ(command.substr(0, 16), "tile-run record ");
    const CapturedRun second = run_kernel(request_of(command.substr(16)));
    EXPECT_EQ(second.provenance().command, command);
    std::vector<float> a(32 * 64), b(32 * 64);
    ASSERT_TRUE(first.read_tile(Stage::acc, {0, 0, 1, 1}, a));
    ASSERT_TRUE(second.read_tile(Stage::acc, {0, 0, 1, 1}, b));
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace tilescope::testing
