// The main of test programs. A program of many sources runs the tests of one of them with --source NAME: each source is a
// line of CTest.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

/// What --gtest_filter has for the tests that are written in the source; empty where there are none.
std::string tests_of(std::string_view source) {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    std::string names;
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            if (std::filesystem::path(test.file()).filename() != source) continue;
            names += (names.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
        }
    }
    return names;
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    // The child of a death test has a filter already.
    if (argc == 3 && std::string_view(argv[1]) == "--source" && GTEST_FLAG_GET(filter) == "*") {
        const std::string names = tests_of(argv[2]);
        if (names.empty()) {
            std::fprintf(stderr, "%s: this program has no test of that source\n", argv[2]);
            return 2;
        }
        GTEST_FLAG_SET(filter, names);
    }
    return RUN_ALL_TESTS();
}
