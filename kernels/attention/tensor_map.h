#pragma once

// Tensor maps: what the copies of sm_90 know of a tensor in global memory.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "dump/schema/error.h"

namespace tilescope {

/// The driver's function, without linking the driver.
/// Errors: Error when the driver is older than CUDA 12.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
    static const auto encode = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
        const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                                   cudaEnableDefault, &found);
        if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
            throw Error("the driver has no cuTensorMapEncodeTiled", "fast",
                        "install a driver of CUDA 12 or newer");
        }
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
    }();
    return encode;
}

/// The map of [heads][rows][features] elements of 16 bits without gaps, of which copies take boxes of `box_rows`
/// rows of a head with all their features: 64 features of each row in 128 swizzled bytes, then the next 64.
/// Errors: Error when the driver refuses it.
inline CUtensorMap tensor_map(const void* tensor, CUtensorMapDataType type, int features, int rows,
                              std::int64_t heads, int box_rows,
                              CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
    constexpr int box_features = 64;
    const cuuint64_t row_bytes = cuuint64_t(features) * 2;
    const cuuint64_t sizes[] = {box_features, cuuint64_t(rows), cuuint64_t(features / box_features),
                                cuuint64_t(heads)};
    const cuuint64_t strides[] = {row_bytes, box_features * 2, cuuint64_t(rows) * row_bytes};
    const cuuint32_t box[] = {box_features, cuuint32_t(box_rows), cuuint32_t(features / box_features), 1};
    const cuuint32_t steps[] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult result = tensor_map_encoder()(
        &map, type, 4, const_cast<void*>(tensor), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        throw Error("the driver refuses the tensor map (CUresult " + std::to_string(int(result)) + ")",
                    "fast", "let the tensor begin at a multiple of 16 bytes");
    }
    return map;
}

}  // namespace tilescope
