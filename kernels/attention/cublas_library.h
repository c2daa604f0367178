#pragma once

// cuBLAS, loaded when it is first used: programs start without it.

#include <cstdint>
#include <span>
#include <string>

struct CUstream_st;

namespace tilescope {

/// c[i] = a[i] b[i]^T for `count` pairs of row-major float16 matrices in device memory, one after the other,
/// summed in float32 by tensor cores.
struct MatrixProducts {
    const void* a = nullptr;  ///< [count][a_rows][columns]
    const void* b = nullptr;  ///< [count][b_rows][columns]
    void* c = nullptr;        ///< [count][a_rows][pitch], of which b_rows elements a row are written
    int count = 0;
    int a_rows = 0;
    int b_rows = 0;
    int columns = 0;
    std::int64_t pitch = 0;
    int depth = 0;                ///< columns that are summed over
    int ld = 0;                   ///< what cuBLAS takes for pitch
    bool b_column_major = false;  ///< b is read as if it were
    bool in_half = false;         ///< sums and c are float16
    float beta = 0;               ///< what c held before is multiplied with this and added
};

/// Enqueues it in the stream; null is the legacy default stream. The GPU is the one that is current at the
/// first call. Errors: Error when cuBLAS is not on this machine or refuses.
void multiply_by_cublas(const MatrixProducts& products, CUstream_st* stream);

/// Why that is not possible on this machine; empty when it is.
std::string why_no_cublas();

/// Handle of the first of the shared libraries that can be opened, as dlopen gives it.
/// Errors: Error when none can, with what the last one lacks.
void* open_cublas(std::span<const std::string> names);

/// Errors: Error when the library does not have the functions that are called here.
void require_cublas_functions(void* library);

}  // namespace tilescope
