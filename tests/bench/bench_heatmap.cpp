// Pyramids of 16384 x 16384 elements: how fast they are filled, and how fast images of them are rendered.

#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <random>
#include <string>

#include "oracle/formula/estimate.h"
#include "oracle/heatmap/heatmap_image.h"

namespace tilescope {
namespace {

constexpr std::int64_t size = 16384;
constexpr std::int64_t block = 64;

/// A tile of S, and what it should hold.
struct Tile {
    Problem problem;
    MatrixF got;
    Estimate expected = zeros(block, block);
    CompareOptions options;

    Tile() {
        problem.seqlen_q = problem.seqlen_kv = size;
        problem.block_m = problem.block_n = block;
        std::mt19937 random(1);
        std::normal_distribution<double> normal;
        got.resize(block, block);
        for (Eigen::Index i = 0; i < got.size(); ++i) {
            expected.value.data()[i] = normal(random);
            expected.error.data()[i] = 1e-6;
            got.data()[i] = float(expected.value.data()[i] + 1e-7 * normal(random));
        }
    }
    ObservedTile view() const { return {problem, {.stage = Stage::s, .tile = {}}, got, &expected, options}; }
};

const Pyramid& filled_pyramid(Quantity quantity) {
    static std::map<Quantity, std::unique_ptr<Pyramid>> pyramids;
    std::unique_ptr<Pyramid>& pyramid = pyramids[quantity];
    if (pyramid == nullptr) {
        pyramid = std::make_unique<Pyramid>(size, size, 1, sign_of(quantity));
        QuantityValues values;
        values_of(Tile().view(), quantity, values);
        for (std::int64_t row = 0; row < size; row += block)
            for (std::int64_t col = 0; col < size; col += block)
                pyramid->set_tile(row, col, block, block, values.values, values.kinds);
        pyramid->complete();
    }
    return *pyramid;
}

void values_of_a_tile(benchmark::State& state) {
    const Tile tile;
    const auto quantity = Quantity(state.range(0));
    QuantityValues values;
    for (auto _ : state) values_of(tile.view(), quantity, values);
    state.SetLabel(std::string(quantity_info(quantity).name));
    state.SetItemsProcessed(state.iterations() * block * block);
}
BENCHMARK(values_of_a_tile)->DenseRange(0, quantity_count - 1);

void filling_of_a_pyramid(benchmark::State& state) {
    QuantityValues values;
    values_of(Tile().view(), Quantity::over_budget, values);
    for (auto _ : state) {
        Pyramid pyramid(size, size, 1, Pyramid::Sign::never_negative);
        for (std::int64_t row = 0; row < size; row += block)
            for (std::int64_t col = 0; col < size; col += block)
                pyramid.set_tile(row, col, block, block, values.values, values.kinds);
        benchmark::DoNotOptimize(pyramid.whole());
    }
    state.SetItemsProcessed(state.iterations() * size * size);
}
BENCHMARK(filling_of_a_pyramid)->Unit(benchmark::kMillisecond);

/// 1600 x 1000 pixels of a view as wide as the argument says, in elements.
void image_of_a_pyramid(benchmark::State& state) {
    const auto quantity = Quantity(state.range(1));
    const QuantityInfo& info = quantity_info(quantity);
    const Pyramid& pyramid = filled_pyramid(quantity);
    Image image(1600, 1000);
    const double extent = double(state.range(0));
    const ImageStyle style{fitting_scale(pyramid, quantity, info.scale, 0), info.colours};
    double shift = 0;
    for (auto _ : state) {
        // Panning: no two images are the same.
        shift = shift < 100 ? shift + 1.7 : 0;
        render(pyramid, {}, {shift, shift, extent, extent}, style, image);
        benchmark::DoNotOptimize(image.pixels.data());
    }
    state.SetLabel(std::string(info.name) + ", " + std::string(to_string(info.scale)));
}
BENCHMARK(image_of_a_pyramid)
    ->ArgsProduct({{16384, 8192, 5000, 2048, 1000, 100}, {int(Quantity::over_budget)}})
    ->Args({16384, int(Quantity::dumped)})
    ->Args({16384, int(Quantity::difference)})
    ->Unit(benchmark::kMillisecond);

/// The same zoomed in so far that elements come from detail tiles.
void image_of_details(benchmark::State& state) {
    const Pyramid& pyramid = filled_pyramid(Quantity::over_budget);
    const Tile tile;
    const auto detail = std::make_shared<const DetailTile>(tile.view());
    DetailTiles details;
    details.shape = {size, size, block, block};
    details.down = details.across = 32;
    details.tiles.assign(std::size_t(details.down * details.across), detail);
    Image image(1600, 1000);
    const double rows = double(state.range(0));
    const ImageStyle style{{ScaleKind::log, 1e-3, 1e3, 1}, ColourMap::budget};
    for (auto _ : state) {
        render(pyramid, details, {3.3, 5.5, rows, rows * 1.6}, style, image);
        benchmark::DoNotOptimize(image.pixels.data());
    }
}
BENCHMARK(image_of_details)->Arg(1000)->Arg(300)->Arg(30)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tilescope
