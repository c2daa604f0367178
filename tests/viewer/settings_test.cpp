#include "viewer/state/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tilescope::viewer {
namespace {

class SettingsFile : public testing::Test {
 protected:
    void SetUp() override {
        const auto* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::path(testing::TempDir()) / (std::string("tile_view_") + test->name());
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string path() const { return (folder_ / "deep" / "view.json").string(); }
    void write(const std::string& text) const {
        std::filesystem::create_directories(folder_ / "deep");
        std::ofstream(path()) << text;
    }

    std::filesystem::path folder_;
};

TEST_F(SettingsFile, ComeBackAsTheyWereSaved) {
    Settings settings = default_settings();
    settings.recent = {"a.h5", "b.h5\nc.h5"};
    settings.width = 1234;
    settings.tile_grid = false;
    settings.history = false;
    settings.warp_rows = 8;
    settings.scales[0] = {ScaleKind::symlog, ColourMap::diverging, 0.01, false, -2.5, 4};
    save_settings(path(), settings);
    const Settings read = load_settings(path());
    EXPECT_EQ(read.recent, settings.recent);
    EXPECT_EQ(read.width, 1234);
    EXPECT_FALSE(read.tile_grid);
    EXPECT_FALSE(read.history);
    EXPECT_EQ(read.warp_rows, 8);
    EXPECT_EQ(read.scales[0].kind, ScaleKind::symlog);
    EXPECT_EQ(read.scales[0].colours, ColourMap::diverging);
    EXPECT_EQ(read.scales[0].clip, 0.01);
    EXPECT_FALSE(read.scales[0].automatic);
    EXPECT_EQ(read.scales[0].low, -2.5);
    EXPECT_EQ(read.scales[0].high, 4);
}

TEST_F(SettingsFile, SpoiledFilesGiveThoseOfAFirstRun) {
    for (const char* text : {"", "{", "[]", "7", "{\"width\": \"wide\", \"recent\": 3, \"scales\": []}",
                             "{\"width\": -4, \"height\": 1e99, \"warp_rows\": 0}"}) {
        write(text);
        const Settings read = load_settings(path());
        EXPECT_EQ(read.width, default_settings().width) << text;
        EXPECT_EQ(read.height, default_settings().height) << text;
        EXPECT_EQ(read.warp_rows, default_settings().warp_rows) << text;
        EXPECT_TRUE(read.recent.empty()) << text;
    }
}

TEST(RecentFiles, AreNamedOnceTheNewestFirst) {
    Settings settings;
    for (const char* name : {"a", "b", "a"}) remember_recent(settings, name);
    EXPECT_EQ(settings.recent, (std::vector<std::string>{"a", "b"}));
    for (int i = 0; i < 40; ++i) remember_recent(settings, std::to_string(i));
    EXPECT_EQ(settings.recent.front(), "39");
    EXPECT_LT(settings.recent.size(), 40U);
}

}  // namespace
}  // namespace tilescope::viewer
