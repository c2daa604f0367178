// Declared kernels in files: what is written is read again, bit by bit, and what is no such file is refused.

#include "dump/program_file.h"

#include <gtest/gtest.h>

#include <random>

#include "dump/schema/error.h"
#include "tests/dump/spoiled_file.h"

namespace tilescope::test {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = std::byte(random() & 0xff);
    return bytes;
}

ProgramTensor random_tensor(Dtype dtype, std::vector<std::int64_t> shape, unsigned seed) {
    std::size_t bytes = std::size_t(dtype_info(dtype).bytes);
    for (const std::int64_t extent : shape) bytes *= std::size_t(extent);
    return {dtype, std::move(shape), random_bytes(bytes, seed)};
}

/// A sum of 5 columns in blocks of 2, whose input and result are of a dtype.
ProgramRecording sample_program(Dtype dtype) {
    const std::string name(dtype_info(dtype).name);
    ProgramRecording recording;
    recording.text = "axes i: rows; k: cols by step\ninput x[i, k]: " + name +
                     "; c\nstage sum_of_x[i] over k = sum_of_x + sum(k: x)\nstage y[i]: " + name +
                     " = sum_of_x * c\noutput y\n";
    recording.sizes = {{"step", 2}};
    recording.inputs = {{"x", random_tensor(dtype, {3, 5}, 1)}, {"c", random_tensor(Dtype::f32, {}, 2)}};
    recording.stages = {{"sum_of_x", random_tensor(Dtype::f32, {3, 3}, 3)},
                        {"y", random_tensor(dtype, {3}, 4)}};
    recording.provenance.kernel = "sums";
    return recording;
}

class ProgramFile : public testing::Test {
 protected:
    void expect_unwritable(const ProgramRecording& recording, const std::string& words) {
        try {
            write_program_recording(path, recording);
            FAIL() << "was written: " << words;
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        }
        EXPECT_EQ(folder.names(), std::vector<std::string>{});
    }

    TemporaryFolder folder;
    std::string path = folder.file("run.h5");
};

TEST_F(ProgramFile, KeepsArraysOfEveryDtype) {
    for (const DtypeInfo& info : all_dtypes()) {
        const ProgramRecording written = sample_program(info.dtype);
        write_program_recording(path, written);
        EXPECT_TRUE(holds_program(path));
        const ProgramRecording read = read_program_recording(path);
        EXPECT_EQ(read.text, written.text);
        EXPECT_EQ(read.sizes, written.sizes);
        EXPECT_EQ(read.inputs, written.inputs) << info.name;
        EXPECT_EQ(read.stages, written.stages) << info.name;
        EXPECT_EQ(read.provenance.kernel, "sums");
        EXPECT_EQ(folder.names(), std::vector<std::string>{"run.h5"});
    }
}

TEST_F(ProgramFile, KeepsWhatWasStored) {
    ProgramRecording written = sample_program(Dtype::f16);
    written.stages.erase("y");
    written.stages["sum_of_x"] = random_tensor(Dtype::f32, {3}, 5);  // the last state alone
    written.inputs["x"] = random_tensor(Dtype::f32, {3, 5}, 6);
    write_program_recording(path, written);
    const ProgramRecording read = read_program_recording(path);
    EXPECT_EQ(read.inputs, written.inputs);
    EXPECT_EQ(read.stages, written.stages);
}

TEST_F(ProgramFile, WritesNarrowNumbersOfAWideStageAsFloats) {
    ProgramRecording written = sample_program(Dtype::f32);
    // 1, -2 and the smallest subnormal number: 2^-24
    const std::array<std::uint16_t, 3> halves = {0x3c00, 0xc000, 0x0001};
    const std::array<float, 3> numbers = {1, -2, 0x1p-24F};
    const auto bytes = std::as_bytes(std::span(halves));
    written.stages["y"] = {Dtype::f16, {3}, {bytes.begin(), bytes.end()}};
    write_program_recording(path, written);
    const ProgramTensor read = read_program_recording(path).stages.at("y");
    const auto expected = std::as_bytes(std::span(numbers));
    EXPECT_EQ(read, (ProgramTensor{Dtype::f32, {3}, {expected.begin(), expected.end()}}));
}

TEST_F(ProgramFile, WritesNothingThatIsNone) {
    const struct {
        void (*spoil)(ProgramRecording&);
        const char* words;
    } cases[] = {
        {[](ProgramRecording& r) { r.text = "axes"; }, "line 1"},
        {[](ProgramRecording& r) { r.text = "axes i: n # " + std::string(65536, 'x'); }, "65536"},
        {[](ProgramRecording& r) { r.sizes["stride"] = 2; }, "stride: the program has no such size"},
        {[](ProgramRecording& r) { r.inputs.erase("c"); }, "c: this input is missing"},
        {[](ProgramRecording& r) { r.inputs["y"] = r.stages["y"]; }, "y: the program has no such input"},
        {[](ProgramRecording& r) { r.stages["z"] = r.stages["y"]; }, "z: the program has no such stage"},
        {[](ProgramRecording& r) { r.inputs["x"].dtype = Dtype::bf16; }, "is bf16"},
        {[](ProgramRecording& r) { r.inputs["x"].bits.pop_back(); }, "has 29 bytes"},
        {[](ProgramRecording& r) {
             r.inputs["x"].shape = {3, 0};
         },
         "an extent of 0"},
        {[](ProgramRecording& r) {
             r.inputs["x"].shape = {1LL << 40, 1LL << 40};
         },
         "an extent of"},
    };
    for (const auto& [spoil, words] : cases) {
        ProgramRecording recording = sample_program(Dtype::f16);
        spoil(recording);
        expect_unwritable(recording, words);
    }
}

TEST_F(ProgramFile, IsNoRecordingOfAttention) {
    write_program_recording(path, sample_program(Dtype::f16));
    expect_refused(path, "/program", "is a declared kernel, and no recording of attention");

    write_spoiled_dump(path, [](hid_t) {});
    EXPECT_FALSE(holds_program(path));
    EXPECT_THROW(read_program_recording(path), Error);

    write_spoiled_dump(path, [](hid_t file) {
        const Handle group(H5Gcreate2(file, "/program", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
    EXPECT_TRUE(holds_program(path));
    expect_refused(path, "/problem", "either attention or a declared kernel");
}

TEST_F(ProgramFile, HoldsNoneWhereNoFileIs) {
    EXPECT_FALSE(holds_program(path));
    EXPECT_THROW(read_program_recording(path), Error);
}

}  // namespace
}  // namespace tilescope::test
