#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "kernels/run/device_arrays.cuh"
#include "kernels/run/quantise.h"
#include "tests/kernels/on_gpu.h"

namespace tilescope::testing {
namespace {

class QuantiseOnGpu : public OnGpu {};

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
    std::vector<std::byte> bytes(elements.size() * sizeof(Element));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
}

/// Expects the bits of quantise() from `run`, of what `content` holds.
template <class Run>
void expect_host_bits(const std::vector<float>& values, const std::vector<std::byte>& content,
                      const ScaleGroups& groups, const Run& run) {
    ASSERT_EQ(std::int64_t(values.size()), groups.elements());
    const Quantised expected = quantise(values, groups);
    const DeviceArray on_device(content);
    const DeviceArray codes(values.size(), std::byte(0xff));
    const DeviceArray scales(expected.scales.size() * sizeof(float), std::byte(0xff));
    run(on_device.data(), groups, codes.data(), static_cast<float*>(scales.data()));
    EXPECT_EQ(scales.to_host(), bytes_of(expected.scales));
    const std::vector<std::byte> got = codes.to_host();
    std::size_t different = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (got[i] != expected.codes[i] && different++ < 5) {
            ADD_FAILURE() << values[i] << " at " << i << ": " << std::to_integer<int>(got[i])
                          << ", on the host " << std::to_integer<int>(expected.codes[i]);
        }
    }
    EXPECT_EQ(different, 0u);
}

TEST_F(QuantiseOnGpu, EveryHalfHasTheCodeOfTheHost) {
    const auto halves_on_device = [](const void* values, const ScaleGroups& groups, void* codes,
                                     float* scales) {
        quantise_halves_on_device(values, groups, codes, scales);
    };
    const auto as_floats = [](const std::vector<std::uint16_t>& halves) {
        std::vector<float> values;
        for (std::uint16_t half : halves) values.push_back(decode(Dtype::f16, half));
        return values;
    };
    // Beside 448, so that those up to 448 have the scale 1; and all with one scale.
    const auto beside = std::uint16_t(encode(Dtype::f16, 448.0f));
    std::vector<std::uint16_t> pairs;
    std::vector<std::uint16_t> all;
    for (std::uint32_t half = 0; half < 65536; ++half) {
        all.push_back(std::uint16_t(half));
        pairs.insert(pairs.end(), {std::uint16_t(half), beside});
    }
    expect_host_bits(as_floats(pairs), bytes_of(pairs), per_block(1, 65536, 2, 1), halves_on_device);
    expect_host_bits(as_floats(all), bytes_of(all), per_tensor(16, 64, 64), halves_on_device);
}

TEST_F(QuantiseOnGpu, FloatsOfAnyBitsHaveTheCodesAndScalesOfTheHost) {
    constexpr std::uint64_t seed = 17;
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<float> any_bits(8 * 100 * 128);
    for (float& value : any_bits) value = std::bit_cast<float>(std::uint32_t(random()));
    std::vector<float> ordinary(any_bits.size());
    std::normal_distribution<float> normal(0.0f, 3.0f);
    for (float& value : ordinary) value = normal(random);
    // A group of zeros.
    std::fill(ordinary.begin() + 100 * 128, ordinary.begin() + 200 * 128, 0.0f);
    for (const std::vector<float>& values : {any_bits, ordinary}) {
        for (const ScaleGroups& groups : {per_tensor(8, 100, 128), per_head(8, 100, 128),
                                          per_block(8, 100, 128, 32), per_block(8, 100, 128, 1)}) {
            expect_host_bits(values, bytes_of(values), groups, quantise_floats_on_device);
        }
    }
}

TEST_F(QuantiseOnGpu, LaysCodesAlongTheKeysAsTheHost) {
    for (const ScaleGroups& groups : {per_head(3, 77, 64), per_head(2, 128, 128), per_head(1, 300, 64)}) {
        std::vector<std::byte> codes(std::size_t(groups.elements()));
        for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::byte(i * 31 / 7 % 251);
        const std::vector<std::byte> expected = along_keys(codes, groups);
        const DeviceArray laid(expected.size(), std::byte(0xff));
        lay_along_keys_on_device(DeviceArray(codes).data(), groups, laid.data());
        EXPECT_EQ(laid.to_host(), expected);
    }
}

TEST_F(QuantiseOnGpu, TheFaultGivesAZeroTensorNan) {
    const DeviceArray zeros(64 * 2, std::byte(0));
    const DeviceArray codes(64, std::byte(0));
    const DeviceArray scale(sizeof(float), std::byte(0xff));
    quantise_halves_on_device(zeros.data(), per_tensor(1, 1, 64), codes.data(),
                              static_cast<float*>(scale.data()), Fault::zero_scale);
    EXPECT_EQ(codes.to_host(), std::vector<std::byte>(64, std::byte(0x7f)));
    EXPECT_EQ(scale.to_host(), std::vector<std::byte>(4, std::byte(0)));
}

}  // namespace
}  // namespace tilescope::testing
