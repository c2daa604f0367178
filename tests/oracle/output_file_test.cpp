// Reports and arrays appear whole or not at all, and never in place of something that is no file.

#include "oracle/report/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dump/schema/error.h"

namespace tilescope::test {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public ::testing::Test {
 protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "tilescope-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path(const char* name) const { return (folder_ / name).string(); }
    std::size_t entries() const {
        return std::size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
    }
    static std::string content(const std::string& file) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }

    fs::path folder_;
};

TEST_F(OutputFiles, AppearWholeWhenCommitted) {
    OutputFile file(path("report"));
    file.write("first and longer");
    file.write("last, and whole.");
    file.write_at(6, std::as_bytes(std::span("AND", 3)));
    EXPECT_FALSE(fs::exists(path("report")));
    file.commit();
    EXPECT_EQ(content(path("report")), "last, AND whole.");
    EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFiles, LeaveNothingUnlessCommitted) {
    std::ofstream(path("report")) << "what was there before";
    { OutputFile(path("report")).write("never finished"); }
    EXPECT_EQ(content(path("report")), "what was there before");
    EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFiles, ReplaceNoFolderAndNoDevice) {
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    EXPECT_THROW(OutputFile file(path("pipe")), Error);
    EXPECT_THROW(OutputFile file(folder_.string()), Error);
    EXPECT_THROW(OutputFile file(path("missing/report")), Error);
    struct stat status = {};
    ASSERT_EQ(stat(path("pipe").c_str(), &status), 0);
    EXPECT_TRUE(S_ISFIFO(status.st_mode));
    EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace tilescope::test
