#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "dump/schema/dtype.h"
#include "kernels/attention/cublas_library.h"
#include "kernels/gate/latency_csv.h"
#include "kernels/gate/measure.h"
#include "kernels/gate/sm_clock.h"
#include "kernels/gate/tile_products.h"
#include "kernels/gate/timing.cuh"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"

namespace tilescope {
namespace {

using ::testing::HasSubstr;
using MeasureOnGpu = tilescope::testing::OnGpu;

/// What tile-gate latency reads of `text`.
LatencyFile read_back(const std::string& text, const std::string& implementation = "") {
    const std::filesystem::path path = std::filesystem::temp_directory_path() / "tilescope_measured.csv";
    std::ofstream(path) << text;
    LatencyFile file = read_latencies(path.string(), implementation);
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

TEST_F(MeasureOnGpu, WhatCublasMultipliesIsInTheGraph) {
    if (!why_no_cublas().empty()) GTEST_SKIP() << why_no_cublas();
    const RunRequest request =
        testing::request_of("--kernel cublas --engine cuda --shape 1,4,130,200,64 --heads-kv 2");
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    const DeviceArrays once(request, inputs, std::byte(0xff));
    const DeviceArrays replayed(request, inputs, std::byte(0xff));
    const auto launch = [&](const DeviceArrays& arrays) {
        request.kernel->cuda.plain->launch(arrays.args, request.config, Fault::none, Sink());
    };
    launch(once);
    check_cuda(cudaDeviceSynchronize(), "running the kernel");
    const Graph graph([&] { launch(replayed); });
    EXPECT_GE(graph.nodes(), 2u);
    const std::vector<std::byte> untouched = replayed.products.to_host();
    EXPECT_EQ(untouched, std::vector<std::byte>(untouched.size(), std::byte(0xff)));
    for (int replay = 0; replay < 2; ++replay) {
        graph.replay();
        check_cuda(cudaDeviceSynchronize(), "replaying");
        EXPECT_EQ(replayed.products.to_host(), once.products.to_host());
        EXPECT_EQ(replayed.o.to_host(), once.o.to_host());
    }
}

/// One tile by one of the products, and q and k as float32.
struct MultipliedTile {
    std::vector<float> q, k, s;
};

MultipliedTile multiply(const TileProduct& product, std::mt19937_64& random) {
    std::normal_distribution<float> normal;
    const auto halves = [&](int rows, std::vector<float>& values) {
        std::vector<std::byte> bytes;
        for (int i = 0; i < rows * product.head_dim; ++i) {
            const auto bits = std::uint16_t(encode(Dtype::f16, normal(random)));
            values.push_back(float(decode(Dtype::f16, bits)));
            const auto* const raw = reinterpret_cast<const std::byte*>(&bits);
            bytes.insert(bytes.end(), raw, raw + sizeof bits);
        }
        return DeviceArray(bytes);
    };
    MultipliedTile tile;
    const DeviceArray q = halves(product.block_m, tile.q);
    const DeviceArray k = halves(product.block_n, tile.k);
    tile.s.resize(std::size_t(product.block_m) * std::size_t(product.block_n));
    const DeviceArray s(tile.s.size() * sizeof(float), std::byte(0xff));
    product.launch({q.data(), k.data(), static_cast<float*>(s.data())});
    check_cuda(cudaDeviceSynchronize(), "multiplying");
    std::memcpy(tile.s.data(), s.to_host().data(), tile.s.size() * sizeof(float));
    return tile;
}

TEST_F(MeasureOnGpu, TheTilesThatAreTimedAreRight) {
    constexpr std::uint64_t seed = 20;
    std::mt19937_64 random(seed);
    for (const TileProduct& product : all_tile_products()) {
        if (product.implementation == "cublas" && !why_no_cublas().empty()) GTEST_SKIP() << why_no_cublas();
        SCOPED_TRACE(::testing::Message() << product.implementation << " " << product.block_m << "x"
                                          << product.block_n << "x" << product.head_dim << ", seed " << seed);
        const MultipliedTile tile = multiply(product, random);
        for (int i = 0; i < product.block_m; ++i) {
            for (int j = 0; j < product.block_n; ++j) {
                double expected = 0;
                double magnitude = 0;
                for (int d = 0; d < product.head_dim; ++d) {
                    const double term = double(tile.q[std::size_t(i * product.head_dim + d)]) *
                                        double(tile.k[std::size_t(j * product.head_dim + d)]);
                    expected += term;
                    magnitude += std::abs(term);
                }
                // Any order of head_dim additions, each of which may cut off two units of 2^-23.
                const double tolerance = product.head_dim * 0x1p-22 * magnitude;
                const double got = double(tile.s[std::size_t(i * product.block_n + j)]);
                ASSERT_TRUE(std::abs(got - expected) <= tolerance)
                    << "row " << i << " column " << j << ": " << got << ", expected " << expected;
            }
        }
    }
}

TEST_F(MeasureOnGpu, TilesAreMeasuredInTheFormOfTheGate) {
    if (!why_no_cublas().empty()) GTEST_SKIP() << why_no_cublas();
    Sampling sampling;
    sampling.samples = least_measured;
    sampling.warmup_ms = 1;
    const std::string text = measure_tiles(sampling);
    for (const char* implementation : {"cublas", "wmma", "scalar"}) {
        const LatencyFile file = read_back(text, implementation);
        ASSERT_EQ(file.configurations.size(), 2u);
        for (const Configuration& configuration : file.configurations) {
            EXPECT_EQ(configuration.latencies.size(), std::size_t(least_measured));
        }
        EXPECT_EQ(file.configurations[1].key.at("head_dim"), "128");
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
