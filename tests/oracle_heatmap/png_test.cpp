// PNG files, read back by libpng.

#include "oracle/heatmap/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <filesystem>
#include <fstream>

#include "dump/schema/error.h"

namespace tilescope::test {
namespace {

Image coloured(int width, int height) {
    Image image(width, height);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            image.pixels[std::size_t(y * width + x)] = packed(
                {std::uint8_t(x * 7), std::uint8_t(y * 5), std::uint8_t(x ^ y), std::uint8_t(255 - x)});
        }
    }
    return image;
}

TEST(Png, HoldsEveryPixel) {
    const Image image = coloured(37, 23);
    const std::string bytes = to_png(image);
    png_image header{};
    header.version = PNG_IMAGE_VERSION;
    ASSERT_NE(png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()), 0);
    EXPECT_EQ(header.width, 37u);
    EXPECT_EQ(header.height, 23u);
    header.format = PNG_FORMAT_RGBA;
    std::vector<std::uint8_t> read(37 * 23 * 4);
    ASSERT_NE(png_image_finish_read(&header, nullptr, read.data(), 0, nullptr), 0);
    for (int y = 0; y < 23; ++y) {
        for (int x = 0; x < 37; ++x) {
            const std::uint8_t* pixel = &read[std::size_t(y * 37 + x) * 4];
            ASSERT_EQ(pixel[0], std::uint8_t(x * 7));
            ASSERT_EQ(pixel[1], std::uint8_t(y * 5));
            ASSERT_EQ(pixel[2], std::uint8_t(x ^ y));
            ASSERT_EQ(pixel[3], std::uint8_t(255 - x));
        }
    }
}

TEST(Png, IsWrittenWholeOrNotAtAll) {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / "tilescope_png_test";
    std::filesystem::create_directories(folder);
    const std::filesystem::path file = folder / "image.png";
    write_png(file, coloured(4, 4));
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(bytes, to_png(coloured(4, 4)));
    EXPECT_THROW(write_png((folder / "missing" / "image.png").string(), coloured(4, 4)), Error);
    EXPECT_THROW(write_png((folder / "empty.png").string(), Image()), Error);
    EXPECT_FALSE(std::filesystem::exists(folder / "empty.png"));
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tilescope::test
