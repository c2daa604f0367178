#include "kernels/attention/cublas_library.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr const char* where = "cuBLAS";

/// What is called, with the types of cublas_api.h; its macros and overloads hide the names.
struct Functions {
    decltype(&cublasCreate_v2) create = nullptr;
    decltype(&cublasSetStream_v2) set_stream = nullptr;
    decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
    decltype(&cublasGetStatusString) status_string = nullptr;
    cublasStatus_t (*multiply)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                               const void*, const void*, cudaDataType, int, long long, const void*,
                               cudaDataType, int, long long, const void*, void*, cudaDataType, int, long long,
                               int, cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr) return;
    throw Error(std::string("the library has no function ") + name, where,
                "install cuBLAS of CUDA 12 or 13, or name its folder in LD_LIBRARY_PATH");
}

Functions functions_of(void* library) {
    Functions functions;
    find(library, "cublasCreate_v2", functions.create);
    find(library, "cublasSetStream_v2", functions.set_stream);
    find(library, "cublasSetWorkspace_v2", functions.set_workspace);
    find(library, "cublasGetStatusString", functions.status_string);
    find(library, "cublasGemmStridedBatchedEx", functions.multiply);
    return functions;
}

/// The loader's own search comes first, which LD_LIBRARY_PATH is a part of.
const std::array<std::string, 3> libraries = {"libcublas.so.13", "libcublas.so.12",
                                              "/usr/local/cuda/lib64/libcublas.so"};

const Functions& cublas() {
    static const Functions functions = functions_of(open_cublas(libraries));
    return functions;
}

void require(cublasStatus_t status, const char* doing) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(std::string(cublas().status_string(status)) + " while " + doing, where,
                "use a smaller shape, or check the GPU with nvidia-smi");
}

/// A handle with the workspace that NVIDIA recommends for sm_90. It is the caller's, since cuBLAS would
/// allocate one while a CUDA graph is recorded. Neither is ever freed: that would wait for a kernel that
/// never ends.
struct Context {
    static constexpr std::size_t workspace_bytes = std::size_t(32) << 20;
    cublasHandle_t handle = nullptr;
    void* workspace = nullptr;

    Context() {
        require(cublas().create(&handle), "creating its handle");
        const cudaError_t status = cudaMalloc(&workspace, workspace_bytes);
        if (status == cudaSuccess) return;
        throw Error(std::string(cudaGetErrorString(status)) + " while allocating its workspace", where,
                    "use a smaller shape, or check the GPU with nvidia-smi");
    }
};

}  // namespace

void* open_cublas(std::span<const std::string> names) {
    std::string reason;
    for (const std::string& name : names) {
        if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
        const char* const message = dlerror();
        reason = message != nullptr ? message : name + " cannot be opened";
    }
    throw Error("it cannot be loaded (" + reason + ")", where,
                "install cuBLAS of CUDA 12 or 13, or name its folder in LD_LIBRARY_PATH");
}

void require_cublas_functions(void* library) {
    functions_of(library);
}

std::string why_no_cublas() {
    try {
        cublas();
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

// cuBLAS takes matrices by columns. A row-major [rows][n] array is, by columns, its transpose: n rows, and as
// many columns as there were rows. So c = a b^T is computed as c^T = b a^T:
//
//                  by rows              by columns          cuBLAS takes
//   first operand  b [b_rows][columns]  columns x b_rows    transposed: b_rows x depth, ld = columns
//   second         a [a_rows][columns]  columns x a_rows    as it is:   depth x a_rows, ld = columns
//   result         c [a_rows][pitch]    pitch x a_rows      m = b_rows of pitch rows, n = a_rows columns
//
// b taken for column-major is b_rows x columns already, with ld = b_rows.
void multiply_by_cublas(const MatrixProducts& products, CUstream_st* stream) {
    static const Context context;
    const Functions& call = cublas();
    // A stream brings cuBLAS' own workspace with it: the other one is set again.
    require(call.set_stream(context.handle, stream), "choosing its stream");
    require(call.set_workspace(context.handle, context.workspace, Context::workspace_bytes),
            "giving it a workspace");

    const float one = 1.0f;
    const std::uint16_t half_one = 0x3c00;
    const std::uint16_t half_zero = 0;
    const bool half = products.in_half;
    const void* const alpha = half ? static_cast<const void*>(&half_one) : &one;
    const void* const beta = half ? static_cast<const void*>(&half_zero) : &products.beta;
    const auto elements_of = [&](int rows) { return static_cast<long long>(rows) * products.columns; };
    require(call.multiply(context.handle, products.b_column_major ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N,
                          products.b_rows, products.a_rows, products.depth, alpha, products.b, CUDA_R_16F,
                          products.b_column_major ? products.b_rows : products.columns,
                          elements_of(products.b_rows), products.a, CUDA_R_16F, products.columns,
                          elements_of(products.a_rows), beta, products.c, half ? CUDA_R_16F : CUDA_R_32F,
                          products.ld, products.a_rows * products.pitch, products.count,
                          half ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "multiplying matrices");
}

}  // namespace tilescope
