#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/gate/latency_csv.h"
#include "kernels/gate/measure.h"
#include "kernels/gate/sm_clock.h"
#include "tests/kernels/on_gpu.h"

namespace tilescope {
namespace {

using ::testing::HasSubstr;
using MeasureOnGpu = tilescope::testing::OnGpu;

/// What tile-gate latency reads of `text`.
LatencyFile read_back(const std::string& text) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "tilescope_measured.csv";
    std::ofstream(path) << text;
    LatencyFile file = read_latencies(path.string(), "");
    std::filesystem::remove(path);
    return file;
}

MeasureOptions small(const std::string& kernel) {
    MeasureOptions options;
    options.kernel = kernel;
    options.shapes = {"1,2,128,128,64", "1,2,130,70,128"};
    options.masks = {"none", "causal"};
    options.samples = 20;
    options.warmup_ms = 1;
    return options;
}

TEST_F(MeasureOnGpu, WritesWhatTheGateReads) {
    for (const char* kernel : {"scalar", "wmma", "fp8"}) {
        const LatencyFile file = read_back(measure_latencies(small(kernel)));
        EXPECT_EQ(file.unit, "us");
        EXPECT_EQ(file.implementation, kernel) << "whatever configurations it chose for the shapes";
        EXPECT_FALSE(file.metadata.at("device").empty());
        ASSERT_EQ(file.configurations.size(), 4u) << kernel;
        for (const Configuration& configuration : file.configurations) {
            EXPECT_EQ(configuration.latencies.size(), 20u);
            EXPECT_TRUE(configuration.sm_clock_mhz);
        }
        EXPECT_EQ(file.configurations[1].key.at("mask"), "causal");
        EXPECT_EQ(file.configurations[3].key.at("mask"), "causal_bottom_right");
        EXPECT_EQ(file.configurations[3].key.at("seqlen_kv"), "70");
    }
}

TEST_F(MeasureOnGpu, MeasuresAClockThatAGpuHas) {
    const double mhz = measure_sm_clock_mhz();
    EXPECT_GT(mhz, 100);
    EXPECT_LT(mhz, 5000);
}

TEST_F(MeasureOnGpu, RefusesWhatItCannotMeasure) {
    MeasureOptions options = small("scalar");
    options.shapes = {"1,2,128,128,96"};
    EXPECT_THAT([&] { measure_latencies(options); },
                ::testing::ThrowsMessage<std::exception>(HasSubstr("head_dim 96")));
    options.shapes = {"1,2,128"};
    EXPECT_THAT([&] { measure_latencies(options); },
                ::testing::ThrowsMessage<std::exception>(HasSubstr("five sizes")));
}

}  // namespace
}  // namespace tilescope
