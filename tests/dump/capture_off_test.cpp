#ifdef DEBUG_DUMP
#error "this test is about code that is compiled without DEBUG_DUMP"
#endif

#include <gtest/gtest.h>

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
