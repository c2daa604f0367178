#pragma once

// Files that the reader must refuse, in one line that says what, where and what to do.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/plain_dump.h"

namespace tilescope::test {

/// The message with which the file is refused; empty when it is not.
inline std::string refusal(const std::string& path) {
    try {
        open_recording(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Says what (the words), where (the path and the object) and what to do, in one line.
inline void expect_refused(const std::string& path, const std::string& object, const std::string& words) {
    const std::string message = refusal(path);
    const std::string where = path + (object.empty() ? "" : ":" + object) + ": ";
    EXPECT_EQ(message.rfind(where, 0), 0u) << "message: " << message << "\nexpected to begin: " << where;
    EXPECT_NE(message.find(words), std::string::npos) << "message: " << message << "\nexpected: " << words;
    EXPECT_NE(message.find("; "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600u) << message;
}

/// Cuts the file, and the end that its header declares with it: its datasets still claim what is gone.
inline void cut_with_its_header(const std::string& path, std::uint64_t end) {
    std::filesystem::resize_file(path, end);
    constexpr int end_of_file_field = 40;  // of a superblock of version 0
    std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(end_of_file_field);
    stream.write(reinterpret_cast<const char*>(&end), sizeof end);
}

class SpoiledFile : public testing::Test {
 protected:
    void expect_spoiled(const std::function<void(hid_t)>& change, const std::string& object,
                        const std::string& words) {
        write_spoiled_dump(path, change);
        expect_refused(path, object, words);
    }

    TemporaryFolder folder;
    std::string path = folder.file("run.h5");
};

}  // namespace tilescope::test
