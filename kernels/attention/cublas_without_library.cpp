// What stands in for cublas_library.cpp where cuBLAS has no headers.

#include "dump/schema/error.h"
#include "kernels/attention/cublas_library.h"

namespace tilescope {

namespace {

[[noreturn]] void refuse() {
    throw Error("this build has none", "cuBLAS", "build where CUDA has cublas_v2.h");
}

}  // namespace

void multiply_by_cublas(const MatrixProducts&, CUstream_st*) {
    refuse();
}

std::string why_no_cublas() {
    return "cuBLAS: this build has none; build where CUDA has cublas_v2.h";
}

void* open_cublas(std::span<const std::string>) {
    refuse();
}

void require_cublas_functions(void*) {
    refuse();
}

}  // namespace tilescope
