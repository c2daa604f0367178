// Which lines of which files recorded a stage, from the hooks to the file and back.

#define DEBUG_DUMP
#include <gtest/gtest.h>

#include "dump/hook.h"
#include "dump/reader.h"
#include "dump/recording/capture_plan.h"
#include "dump/recording/captured_run.h"
#include "dump/recording/host_flight_recorder.h"
#include "dump/schema/source_line.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/small_problem.h"
#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

// Hooks of one stage in two files, as a compiler names them.
// clang-format off
void first_half(int row TILESCOPE_BLOCK_PARAM) {
#line 61 "csrc/./kernels/../attention.cu"
    TILESCOPE_VALUE(s, 0, row, 0, 1.0f);
#line 70 "csrc/./kernels/../attention.cu"
    if (row == 1) TILESCOPE_VALUE(s, 0, row, 1, 2.0f); else TILESCOPE_VALUE(m, 0, row, 0, 3.0f);
}
void second_half(int row TILESCOPE_BLOCK_PARAM) {
#line 9 "/srv/somebody/project/include/softmax.cuh"
    TILESCOPE_VALUE(s, 0, row, 2, 4.0f);
#line 12 "/srv/somebody/project/include/softmax.cuh"
    if (row == 99) TILESCOPE_VALUE(p, 0, row, 2, 4.0f);
}
#line 40 "hook_source_test.cpp"
// clang-format on

void play(const Sink& sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int row = 0; row < 3; ++row) {
        first_half(row TILESCOPE_BLOCK_ARG);
        second_half(row TILESCOPE_BLOCK_ARG);
    }
}

std::vector<std::string> hooks_of(const Recording& recording, Stage stage) {
    std::vector<std::string> texts;
    for (const SourceLine& hook : recording.capture().stages[std::size_t(stage)].hooks)
        texts.push_back(to_string(hook));
    return texts;
}

using Texts = std::vector<std::string>;
const Texts hooks_of_s = {"csrc/attention.cu:61", "csrc/attention.cu:70", "include/softmax.cuh:9"};

void expect_hooks(const Recording& recording) {
    EXPECT_EQ(hooks_of(recording, Stage::s), hooks_of_s);
    EXPECT_EQ(hooks_of(recording, Stage::m), Texts{"csrc/attention.cu:70"});
    EXPECT_EQ(hooks_of(recording, Stage::p), Texts());
}

TEST(HookSource, EveryHookOfAStageIsKeptInTheFile) {
    const CapturePlan plan(small_problem(), Selection(), std::size_t(1) << 30);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    play(plan.sink(memory.data()));
    const CapturedRun run(plan, memory, Units(), Provenance(), {});
    expect_hooks(run);
    const TemporaryFolder folder;
    write_recording(folder.file("run.h5"), run);
    expect_hooks(*open_recording(folder.file("run.h5")));
}

TEST(HookSource, AFlightRecorderHasThoseOfEachLaunch) {
    FlightOptions options;
    options.launches = 2;
    options.keep_inputs = false;
    HostFlightRecorder recorder(small_problem(), options);
    play(recorder.next());
    recorder.check();
    recorder.next();
    recorder.check();
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), 2u);
    expect_hooks(runs[0]);
    EXPECT_EQ(hooks_of(runs[1], Stage::s), Texts());
}

TEST(HookSource, ABlockThatIsNotSelectedNamesNone) {
    const CapturePlan plan(small_problem(), parse_selection("q_block=1", "test"), std::size_t(1) << 30);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    play(plan.sink(memory.data()));
    EXPECT_EQ(hooks_of(CapturedRun(plan, memory, Units(), Provenance(), {}), Stage::s), Texts());
}

TEST(HookSource, StatisticsNameNone) {
    const CapturePlan plan(small_problem(), Selection(), std::size_t(1) << 30, SinkMode::statistics);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    play(sink);
    EXPECT_GT(sink.stages[std::size_t(Stage::s)].statistics[0].written, 0u);
    for (const SinkHook& hook : sink.counters->hooks) EXPECT_EQ(hook.id, 0u);
}

TEST(HookSource, KeepsNoFolderOfTheMachine) {
    EXPECT_EQ(kept_path("/srv/somebody/project/include/softmax.cuh"), "include/softmax.cuh");
    EXPECT_EQ(kept_path("C:\\work\\attention\\fast.cu"), "attention/fast.cu");
    EXPECT_EQ(kept_path("/fast.cu"), "fast.cu");
    EXPECT_EQ(kept_path("../../csrc/./fast.cu"), "csrc/fast.cu");
    EXPECT_EQ(kept_path("a/b/../c.cu"), "a/c.cu");
    EXPECT_EQ(kept_path("a\x1b[2J.cu"), "a?[2J.cu");
    constexpr const char* deep =
        "a_project_with_a_long_name/and_a_long_folder/a/kernel_of_attention_forward.cu";
    EXPECT_STREQ(deep + hook_file_begin(deep), "and_a_long_folder/a/kernel_of_attention_forward.cu");
    EXPECT_EQ(hook_file_begin("/tmp/x/y/z.cu"), 7);
}

TEST(HookSource, TextFromOutsideIsALineBelowAProject) {
    EXPECT_EQ(source_line_from("csrc/a.cu:61"), (SourceLine{"csrc/a.cu", 61}));
    for (const char* text :
         {"", "a.cu", "a.cu:", "a.cu:0", "a.cu:-1", "a.cu:061", "a.cu:99999999999", ":61", "/etc/passwd:1",
          "../a.cu:1", "a/../b.cu:1", "./a.cu:1", "a\\b.cu:1", "C:/a.cu:1", "a\n.cu:1", "a.cu:1 "})
        EXPECT_EQ(source_line_from(text), std::nullopt) << text;
    EXPECT_EQ(source_line_from(std::string(300, 'a') + ":1"), std::nullopt);
}

using HookSourceFile = SpoiledFile;

TEST_F(HookSourceFile, HostileTextIsRefused) {
    expect_spoiled(
        [](hid_t file) {
            set_texts(file, "/tiles/s", "hooks", {"a.cu:1", "/etc/passwd:1"});
        },
        "/tiles/s", "attribute hooks has \"/etc/passwd:1\", which is no line of a file below a project");
    expect_spoiled([](hid_t file) { set_texts(file, "/tiles/s", "hooks", Texts(129, "a.cu:1")); }, "/tiles/s",
                   "attribute hooks lists 129 texts, more than 128");
    expect_spoiled([](hid_t file) { set_integer(file, "/tiles/s", "hooks", 1); }, "/tiles/s",
                   "attribute hooks is not text");
}

}  // namespace
}  // namespace tilescope::test
