#include "dump/cli/copies.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include <string>
#include <thread>
#include <vector>

namespace tilescope {
namespace {

struct Taken {
    std::vector<std::size_t> pieces;
    std::vector<CopyEnd> ends;
};

Taken taken_of(std::size_t count, int at_once, const std::function<std::string(std::size_t)>& work,
               std::size_t most = 1000) {
    Taken taken;
    run_copies(count, at_once, work, [&](std::size_t piece, const CopyEnd& end) {
        taken.pieces.push_back(piece);
        taken.ends.push_back(end);
        return taken.pieces.size() < most;
    });
    return taken;
}

void wait_ms(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(Copies, AreTakenInOrderWhicheverEndsFirst) {
    for (const int at_once : {0, 1, 3, 50}) {
        const Taken taken = taken_of(9, at_once, [](std::size_t piece) {
            wait_ms(piece % 3 == 0 ? 20 : 0);
            return "piece " + std::to_string(piece);
        });
        ASSERT_EQ(taken.ends.size(), 9u);
        for (std::size_t i = 0; i < 9; ++i) {
            EXPECT_EQ(taken.pieces[i], i);
            EXPECT_EQ(taken.ends[i].said, "piece " + std::to_string(i));
        }
    }
}

TEST(Copies, RunAtOnce) {
    const auto start = std::chrono::steady_clock::now();
    const Taken taken = taken_of(8, 8, [](std::size_t) {
        wait_ms(200);
        return std::string();
    });
    EXPECT_EQ(taken.ends.size(), 8u);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1000));
}

TEST(Copies, SayMoreThanAPipeHolds) {
    const std::string long_text(std::size_t(3) << 20, 'x');
    const Taken taken = taken_of(3, 2, [&](std::size_t) { return long_text; });
    for (const CopyEnd& end : taken.ends) EXPECT_TRUE(end.said == long_text);
}

TEST(Copies, OneThatCrashesTakesNoOtherWithIt) {
    const Taken taken = taken_of(4, 2, [](std::size_t piece) -> std::string {
        if (piece == 1) raise(SIGKILL);
        if (piece == 2) _exit(0);
        return "fine";
    });
    ASSERT_EQ(taken.ends.size(), 4u);
    EXPECT_EQ(taken.ends[0].said, "fine");
    EXPECT_EQ(taken.ends[1].said, std::nullopt);
    EXPECT_EQ(taken.ends[1].how, "it was killed, perhaps for lack of memory");
    EXPECT_EQ(taken.ends[2].said, std::nullopt);
    EXPECT_EQ(taken.ends[2].how, "a library ends it with exit code 0");
    EXPECT_EQ(taken.ends[3].said, "fine");
}

TEST(Copies, AreEndedOnceNoMoreIsTaken) {
    const auto start = std::chrono::steady_clock::now();
    const Taken taken = taken_of(
        100, 4,
        [](std::size_t piece) {
            if (piece > 0) wait_ms(5000);
            return std::string("said");
        },
        1);
    EXPECT_EQ(taken.pieces, std::vector<std::size_t>{0});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST(Copies, NoneOfNothing) {
    EXPECT_TRUE(taken_of(0, 4, [](std::size_t) { return std::string(); }).ends.empty());
}

}  // namespace
}  // namespace tilescope
