#include "kernels/attention/cublas_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "dump/schema/error.h"

namespace tilescope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CublasLibrary, SaysWhatToDoWhereThereIsNone) {
    const std::array<std::string, 2> names = {"libcublas_of_nobody.so.1", "/nowhere/libcublas.so"};
    EXPECT_THAT([&] { open_cublas(names); },
                ThrowsMessage<Error>(AllOf(HasSubstr("cuBLAS: it cannot be loaded (/nowhere/libcublas.so"),
                                           HasSubstr("; install cuBLAS of CUDA 12 or 13"),
                                           HasSubstr("LD_LIBRARY_PATH"))));
}

TEST(CublasLibrary, SaysWhatALibraryLacks) {
    // The first name that can be opened counts.
    const std::array<std::string, 2> names = {"libcublas_of_nobody.so.1", "libm.so.6"};
    void* const library = open_cublas(names);
    ASSERT_NE(library, nullptr);
    EXPECT_THAT([&] { require_cublas_functions(library); },
                ThrowsMessage<Error>(HasSubstr("has no function cublasCreate_v2")));
}

}  // namespace
}  // namespace tilescope
