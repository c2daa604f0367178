#include "oracle/heatmap/png.h"

#include <png.h>

#include "dump/schema/error.h"
#include "oracle/report/output_file.h"

namespace tilescope {

std::string to_png(const Image& image) {
    png_image header{};
    header.version = PNG_IMAGE_VERSION;
    header.width = png_uint_32(image.width);
    header.height = png_uint_32(image.height);
    header.format = PNG_FORMAT_RGBA;
    std::string bytes;
    png_alloc_size_t size = 0;
    // The first call tells the size.
    for (int pass = 0; pass < 2; ++pass) {
        void* memory = pass == 0 ? nullptr : bytes.data();
        if (png_image_write_to_memory(&header, memory, &size, 0, image.pixels.data(), 0, nullptr) == 0)
            throw Error(std::string("cannot be encoded: ") + header.message, "PNG image",
                        "choose another size");
        bytes.resize(size);
    }
    return bytes;
}

void write_png(const std::string& path, const Image& image) {
    const std::string bytes = to_png(image);
    OutputFile file(path);
    file.write(bytes);
    file.commit();
}

}  // namespace tilescope
