// Where recordings of a program are saved that TILESCOPE_DIR sends elsewhere.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "dump/file/saved_name.h"
#include "dump/reader.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

const Recording& saved_sample() {
    static const std::unique_ptr<MemoryRecording> recording = [] {
        auto filled = std::make_unique<MemoryRecording>(sample_problem());
        fill(*filled);
        return filled;
    }();
    return *recording;
}

class FileSave : public ::testing::Test {
 protected:
    FileSave() {
        for (const char* variable : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
            unsetenv(variable);
        setenv("TILESCOPE_DIR", folder_.file("new").c_str(), 1);
    }
    ~FileSave() override { unsetenv("TILESCOPE_DIR"); }

    std::set<std::string> saved() const {
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.file("new"))) {
            names.insert(entry.path().filename().string());
        }
        return names;
    }

    TemporaryFolder folder_;
};

TEST_F(FileSave, WithoutTheVariableThePathIsTheOneThatIsGiven) {
    setenv("TILESCOPE_DIR", "", 1);
    const std::string path = folder_.file("run.h5");
    EXPECT_EQ(save_recording(path, saved_sample()), path);
    EXPECT_EQ(save_recording(path, saved_sample()), path);
    EXPECT_EQ(open_recording(path)->problem(), sample_problem());
}

TEST_F(FileSave, EverySaveHasAFileOfItsOwnAndTheFirstIsSaid) {
    ::testing::internal::CaptureStderr();
    const std::string first = save_recording("elsewhere/run.h5", saved_sample());
    setenv("RANK", "3", 1);
    const std::string second = save_recording("elsewhere/run.h5", saved_sample());
    unsetenv("RANK");
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said, "tilescope: TILESCOPE_DIR is set, saving to " + first + "\n");
    const std::string process = ".process" + std::to_string(getpid()) + ".h5";
    EXPECT_EQ(saved(), (std::set<std::string>{"run.launch0" + process, "run.launch1.rank3" + process}));
    EXPECT_EQ(open_recording(first)->problem(), sample_problem());
    EXPECT_EQ(open_recording(second)->problem(), sample_problem());
    EXPECT_FALSE(std::filesystem::exists("elsewhere"));
}

TEST_F(FileSave, AFileThatIsThereIsLeft) {
    // Those that this process would take next, and one before.
    std::filesystem::create_directories(folder_.file("new"));
    std::set<std::string> there;
    for (int launch = 0; launch < 6; ++launch) {
        there.insert("run.launch" + std::to_string(launch) + ".process" + std::to_string(getpid()) + ".h5");
    }
    for (const std::string& name : there) std::ofstream(folder_.file("new/" + name)) << "kept";
    const std::string path = save_recording("run.h5", saved_sample());
    EXPECT_FALSE(there.contains(std::filesystem::path(path).filename().string()));
    for (const std::string& name : there)
        EXPECT_EQ(std::filesystem::file_size(folder_.file("new/" + name)), 4u);
    EXPECT_EQ(saved().size(), there.size() + 1);
}

TEST_F(FileSave, AFolderThatCannotBeMadeIsAnError) {
    std::ofstream(folder_.file("new")) << "a file in its place";
    const std::string error = error_of([] { save_recording("run.h5", saved_sample()); });
    EXPECT_NE(error.find("TILESCOPE_DIR"), std::string::npos) << error;
}

TEST_F(FileSave, TheProcessIsNoPartOfTheNameThatEveryRunHas) {
    const std::string folder = folder_.file("new") + "/";
    EXPECT_EQ(path_in_every_run(save_recording("run.h5", saved_sample())).rfind(folder + "run.launch", 0),
              0u);
    const std::pair<const char*, const char*> paths[] = {
        {"a b/run.launch0.rank1.process47.h5", "a b/run.launch0.rank1.h5"},
        {"run.process1.process47.h5", "run.process1.h5"},
        {"a.process47/run.h5", "a.process47/run.h5"},
        {"run.process.h5", "run.process.h5"},
        {"run.process4x.h5", "run.process4x.h5"},
        {"process47.h5", "process47.h5"},
        {"", ""}};
    for (const auto& [path, without] : paths) EXPECT_EQ(path_in_every_run(path), without);
    EXPECT_EQ(path_in_every_run("run.launch0" + process_in_name(getpid()) + ".h5"), "run.launch0.h5");
}

}  // namespace
}  // namespace tilescope::test
