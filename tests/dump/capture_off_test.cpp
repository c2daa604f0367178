#ifdef DEBUG_DUMP
#error "this test is about code that is compiled without DEBUG_DUMP"
#endif

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "dump/capture.h"
#include "dump/flight_recorder.h"
#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

const float number = 1;

/// What a kernel is given that has no hooks: no memory, and nothing selected.
void expect_empty(const Sink& sink) {
    EXPECT_EQ(sink.q_block_stages, 0u);
    EXPECT_EQ(sink.head_stages, 0u);
    EXPECT_EQ(sink.counters, nullptr);
}

template <class Function>
void expect_refused(const Function& function) {
    try {
        function();
        ADD_FAILURE() << "there is no recording that could be returned";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("-DDEBUG_DUMP"), std::string::npos) << error.what();
    }
}

TEST(CaptureOff, EveryMemberIsThereAndDoesNothing) {
    const std::string path = testing::TempDir() + "capture_off.h5";
    const Capture with_options(test::small_problem(), CaptureOptions());
    expect_empty(with_options.sink());
    Capture constructed(test::small_problem());
    Capture capture = std::move(constructed);
    capture.arm(&number, [](const Sink&) { return 1; });
    capture.restart();
    capture.restart(nullptr);
    capture.inputs(&number, &number, &number);
    capture.backward_inputs(&number, &number, &number);
    capture.outputs(&number, nullptr);
    capture.gradients(&number, &number, &number);
    capture.done();
    capture.done(nullptr);
    EXPECT_FALSE(capture.still_running());
    expect_refused([&] { return capture.finish(); });
    expect_refused([&] { return capture.finish_in_place(); });
    expect_refused([&] { return capture.finish_statistics(); });
    capture.save(path);
    EXPECT_FALSE(std::filesystem::exists(path));
}

/// 51 is 0.2 of 255: 179.2 of 896. Numbers of float16 lie 0.25 apart between 256 and 512, and 2^-10 between 1 and 2.
TEST(StridedArrays, CodesStandForWhatAFunctionOrAScaleAndZeroPointSay) {
    const StridedArray plain(&number, 12, 6, 3);
    const StridedArray array = plain.codes([](int code) { return float(code) / 255.0f * 896.0f - 448.0f; });
    EXPECT_TRUE(array.is_strided);
    EXPECT_EQ(array.row_stride, 3);
    const std::array codes = {std::byte(0), std::byte(51), std::byte(127), std::byte(255)};
    std::array<std::byte, 8> bits;
    dequantize_array(array.byte_codes.value(), codes, Dtype::f16, bits);
    std::array<float, 4> values;
    decode_array(Dtype::f16, bits, values);
    EXPECT_EQ(values, (std::array{-448.0f, -268.75f, -1.7568359375f, 448.0f}));

    const auto number_of = [](const StridedArray& of, int byte) {
        return of.byte_codes->numbers[std::size_t(byte)];
    };
    EXPECT_EQ(number_of(plain.codes(0.5f, 128), 255), 63.5f);
    EXPECT_EQ(number_of(plain.codes(2.0f, 127.5f), 0), -255.0f) << "a zero point between two codes";
    EXPECT_EQ(number_of(plain.codes(2.0f, 0, true), 255), -2.0f) << "int8";
    EXPECT_EQ(number_of(plain.codes([](int code) { return float(code * code); }, true), 128), 16384.0f)
        << "int8";
}

TEST(FlightRecorderOff, EveryMemberIsThereAndDoesNothing) {
    const std::string path = testing::TempDir() + "flight_off.h5";
    FlightRecorder constructed(test::small_problem(), FlightOptions());
    FlightRecorder recorder = std::move(constructed);
    expect_empty(recorder.next());
    expect_empty(recorder.next(nullptr));
    recorder.inputs(&number, &number, &number);
    recorder.descales(&number, &number, &number, nullptr);
    recorder.check();
    EXPECT_FALSE(recorder.frozen());
    EXPECT_TRUE(recorder.recordings().empty());
    recorder.save(path);
    EXPECT_EQ(recorder.save_all(path), 0);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".0"));
}

}  // namespace
}  // namespace tilescope
