// Bytes that a thread writes to a file behind its caller's back.

#include "dump/file/write_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/dump/file_sample.h"
#include "tests/dump/file_size_limit.h"

namespace tilescope::hdf5 {
namespace {

class Behind : public testing::Test {
 protected:
    Behind() : descriptor(open(folder.file("bytes").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {}
    ~Behind() override { close(descriptor); }

    std::vector<char> content() const {
        std::vector<char> bytes(std::size_t(lseek(descriptor, 0, SEEK_END)));
        EXPECT_EQ(pread(descriptor, bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
        return bytes;
    }

    const test::TemporaryFolder folder;
    const int descriptor;
};

TEST_F(Behind, WritesPiecesOfAnySizeToTheirPlaces) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    // 60 MiB in pieces that go through all buffers several times; one is larger than a buffer.
    std::vector<std::size_t> sizes;
    for (std::size_t total = 0; total < (60u << 20); total += sizes.back()) {
        const std::size_t most = random() % 4 == 0 ? 1u << 21 : 1u << 12;
        sizes.push_back(sizes.size() == 20 ? 9u << 20 : 1 + random() % most);
    }
    // Runs of pieces that follow each other, with gaps between the runs, and the last run in front.
    std::vector<std::int64_t> places(sizes.size());
    std::int64_t end = std::int64_t(16) << 20;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (i + 5 == sizes.size()) end = 0;
        if (random() % 3 == 0) end += random() % 5000;
        places[i] = end;
        end += std::int64_t(sizes[i]);
    }
    std::vector<char> expected;
    {
        WriteBehind behind(descriptor);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            std::byte* const room = behind.room(sizes[i]);
            const char value = char(1 + random() % 255);
            std::memset(room, value, sizes[i]);
            ASSERT_TRUE(behind.put(places[i], room, sizes[i]));
            const std::size_t last = std::size_t(places[i]) + sizes[i];
            if (expected.size() < last) expected.resize(last);
            std::fill(expected.begin() + places[i], expected.begin() + std::int64_t(last), value);
        }
        EXPECT_EQ(behind.flush(), 0);
        EXPECT_TRUE(content() == expected);
        EXPECT_EQ(behind.flush(), 0) << "with nothing put since";
    }
}

TEST_F(Behind, WritesWhatWasPutWhenItEnds) {
    {
        WriteBehind behind(descriptor);
        std::memcpy(behind.room(4), "text", 4);
        EXPECT_TRUE(behind.put(2, behind.room(4), 4));
    }
    EXPECT_EQ(content(), (std::vector<char>{0, 0, 't', 'e', 'x', 't'}));
}

TEST_F(Behind, TakesNothingThatLiesElsewhere) {
    WriteBehind behind(descriptor);
    const char text[] = "text";
    EXPECT_FALSE(behind.put(0, text, 4)) << "before there is any room";
    std::byte* const room = behind.room(8);
    EXPECT_FALSE(behind.put(0, text, 4));
    EXPECT_FALSE(behind.put(0, room + 1, 4));
    EXPECT_FALSE(behind.put(0, room, std::size_t(1) << 30)) << "more than there is room for";
    EXPECT_EQ(behind.flush(), 0);
    EXPECT_TRUE(content().empty());
}

TEST_F(Behind, RoomThatIsNotUsedIsGivenAgain) {
    WriteBehind behind(descriptor);
    std::byte* const room = behind.room(100);
    EXPECT_EQ(behind.room(50), room);
    EXPECT_TRUE(behind.put(0, room, 1));
    EXPECT_NE(behind.room(50), room);
}

TEST_F(Behind, TellsTheFirstErrorAndGoesOnWithoutWriting) {
    const test::FileSizeLimit full(5u << 20);
    WriteBehind behind(descriptor);
    for (int i = 0; i < 40; ++i) {
        std::byte* const room = behind.room(1u << 20);
        std::memset(room, 1, 1u << 20);
        ASSERT_TRUE(behind.put(std::int64_t(i) << 20, room, 1u << 20));
    }
    EXPECT_EQ(behind.flush(), EFBIG);
    EXPECT_EQ(behind.error(), EFBIG);
    EXPECT_EQ(content().size(), 5u << 20);
}

}  // namespace
}  // namespace tilescope::hdf5
