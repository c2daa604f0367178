#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "dump/schema/dtype.h"
#include "dump/schema/error.h"
#include "kernels/attention/cublas_library.h"
#include "kernels/run/device_arrays.cuh"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class CublasOnGpu : public OnGpu {
 protected:
    void SetUp() override {
        OnGpu::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        const std::string reason = why_no_cublas();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
};

/// Integers from -8 to 8, whose products and sums float32 and float16 hold exactly where there are few.
std::vector<int> integers(std::size_t count, std::mt19937_64& random) {
    std::uniform_int_distribution<int> digit(-8, 8);
    std::vector<int> numbers(count);
    for (int& number : numbers) number = digit(random);
    return numbers;
}

DeviceArray halves_on_device(const std::vector<int>& numbers) {
    std::vector<std::byte> bytes(numbers.size() * sizeof(std::uint16_t));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto bits = std::uint16_t(encode(Dtype::f16, float(numbers[i])));
        std::memcpy(bytes.data() + i * sizeof bits, &bits, sizeof bits);
    }
    return DeviceArray(bytes);
}

std::vector<float> floats_of(const DeviceArray& array) {
    const std::vector<std::byte> bytes = array.to_host();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

TEST_F(CublasOnGpu, MultipliesEveryPairAndLeavesThePadding) {
    std::mt19937_64 random(20);
    struct Shape {
        int count, a_rows, b_rows, columns, pitch;
    };
    for (const Shape& shape : {Shape{3, 37, 70, 64, 128}, Shape{2, 5, 200, 128, 256},
                               Shape{4, 64, 64, 64, 64}, Shape{1, 1, 7, 64, 64}, Shape{1, 130, 1, 128, 64}}) {
        SCOPED_TRACE(::testing::Message() << shape.count << " x " << shape.a_rows << " x " << shape.b_rows
                                          << " x " << shape.columns << ", pitch " << shape.pitch);
        const std::vector<int> a = integers(std::size_t(shape.count) * shape.a_rows * shape.columns, random);
        const std::vector<int> b = integers(std::size_t(shape.count) * shape.b_rows * shape.columns, random);
        const DeviceArray on_device[] = {
            halves_on_device(a), halves_on_device(b),
            DeviceArray(std::size_t(shape.count) * shape.a_rows * shape.pitch * sizeof(float),
                        std::byte(0xff))};
        MatrixProducts products;
        products.a = on_device[0].data();
        products.b = on_device[1].data();
        products.c = on_device[2].data();
        products.count = shape.count;
        products.a_rows = shape.a_rows;
        products.b_rows = shape.b_rows;
        products.columns = products.depth = shape.columns;
        products.pitch = products.ld = shape.pitch;
        multiply_by_cublas(products, nullptr);
        const std::vector<float> c = floats_of(on_device[2]);

        for (int i = 0; i < shape.count * shape.a_rows; ++i) {
            const int* const a_row = a.data() + std::size_t(i) * shape.columns;
            for (int j = 0; j < shape.pitch; ++j) {
                const float got = c[std::size_t(i) * shape.pitch + j];
                if (j >= shape.b_rows) {
                    ASSERT_TRUE(std::isnan(got)) << "row " << i << " column " << j;
                    continue;
                }
                const int* const b_row =
                    b.data() + (std::size_t(i / shape.a_rows) * shape.b_rows + j) * shape.columns;
                int expected = 0;
                for (int d = 0; d < shape.columns; ++d) expected += a_row[d] * b_row[d];
                ASSERT_EQ(got, float(expected)) << "row " << i << " column " << j;
            }
        }
    }
}

TEST_F(CublasOnGpu, RefusesScoresThatDoNotFit) {
    // 1 TiB of scores, and 64 MiB of each operand.
    const RunRequest request =
        request_of("--kernel cublas --engine cuda --shape 1,1,524288,524288,64 --select stage=lse");
    EXPECT_THAT([&] { run_kernel(request); },
                ThrowsMessage<Error>(AllOf(HasSubstr("--kernel cublas: its scores take 1048576 MiB"),
                                           HasSubstr("choose a smaller shape"))));
}

}  // namespace
}  // namespace tilescope::testing
