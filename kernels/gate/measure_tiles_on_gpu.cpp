#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "dump/schema/dtype.h"
#include "kernels/attention/cublas_library.h"
#include "kernels/gate/measure.h"
#include "kernels/gate/tile_products.h"
#include "kernels/gate/timing.cuh"

namespace tilescope {

namespace {

// A launch for each in the graph: enough of them that their start is a small part of a sample, and few enough
// that the L2 holds them all, as it holds the tiles of a kernel that has begun.
constexpr int tiles = 256;

/// `elements` normally distributed numbers as float16.
DeviceArray random_halves(int elements, std::mt19937_64& random) {
    std::normal_distribution<float> normal;
    std::vector<std::byte> halves(std::size_t(elements) * sizeof(std::uint16_t));
    for (int i = 0; i < elements; ++i) {
        const auto bits = std::uint16_t(encode(Dtype::f16, normal(random)));
        std::memcpy(halves.data() + std::size_t(i) * sizeof bits, &bits, sizeof bits);
    }
    return DeviceArray(halves);
}

/// Errors: Error when an element was left as it was: NaN.
void require_products(const TileProduct& product, const DeviceArray& s) {
    const std::vector<std::byte> bytes = s.to_host();
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, bytes.data() + i, sizeof value);
        if (!std::isnan(value)) continue;
        throw Error(
            fmt::format("{} left element {} of a tile unwritten", product.implementation, i / sizeof value),
            "tile", "run the tests of the GPU, which compare the products");
    }
}

std::string rows_of(const TileProduct& product, const Sampling& sampling) {
    const int q_elements = product.block_m * product.head_dim;
    const int k_elements = product.block_n * product.head_dim;
    const int s_elements = product.block_m * product.block_n;
    std::mt19937_64 random(sampling.seed);
    const DeviceArray q = random_halves(tiles * q_elements, random);
    const DeviceArray k = random_halves(tiles * k_elements, random);
    const DeviceArray s(std::size_t(tiles) * std::size_t(s_elements) * sizeof(float), std::byte(0xff));
    const auto launch = [&](int tile) {
        product.launch({static_cast<const std::uint16_t*>(q.data()) + tile * q_elements,
                        static_cast<const std::uint16_t*>(k.data()) + tile * k_elements,
                        static_cast<float*>(s.data()) + tile * s_elements});
    };
    // What is set up at the first launch is not part of a graph.
    launch(0);
    check_cuda(cudaDeviceSynchronize(), "multiplying a tile");
    const Graph graph([&] {
        for (int tile = 0; tile < tiles; ++tile) launch(tile);
    });
    const Samples samples = time_graph(graph, tiles, sampling);
    require_products(product, s);
    return sample_rows(fmt::format("{},{},{},{},{}", product.implementation, dtype_info(Dtype::f16).name,
                                   product.block_m, product.block_n, product.head_dim),
                       samples);
}

}  // namespace

std::string measure_tiles(const Sampling& sampling) {
    const std::string no_cublas = why_no_cublas();
    if (!no_cublas.empty()) throw Error(no_cublas);
    const std::string no_gpu = why_no_gpu();
    if (!no_gpu.empty()) {
        throw Error("it needs a GPU and there is none here (" + no_gpu + ")", "tile",
                    "run it on a machine with an NVIDIA GPU");
    }
    std::string text =
        metadata_lines(fmt::format("events around replays of a CUDA graph of {} tiles in the L2", tiles)) +
        "implementation,dtype,block_m,block_n,head_dim,sample,launches,sm_clock_mhz,latency_us\n";
    for (const TileProduct& product : all_tile_products()) text += rows_of(product, sampling);
    return text;
}

}  // namespace tilescope
