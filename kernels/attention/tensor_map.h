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
            throw Error("the driver has no cuTensorMapEncodeTiled", "a kernel with wgmma",
                        "install a driver of CUDA 12 or newer");
        }
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
    }();
    return encode;
}

/// [heads][rows][elements] without gaps.
struct TensorRows {
    const void* tensor;
    CUtensorMapDataType type;
    int element_bytes;
    std::int64_t elements;
    int rows;
    std::int64_t heads;
};

/// What a copy takes of it: `row_bytes` of each of so many rows of a head, then as much behind these, as many times as
/// there are parts. Rows of 64 or 128 bytes are swizzled.
struct TensorBox {
    int rows;
    int row_bytes;
    int parts;
    bool swizzled = true;
};

/// Errors: Error when the driver refuses it.
inline CUtensorMap tensor_map(const TensorRows& tensor, const TensorBox& taken) {
    const auto in_row = cuuint32_t(taken.row_bytes / tensor.element_bytes);
    const cuuint64_t whole_row_bytes = cuuint64_t(tensor.elements) * cuuint64_t(tensor.element_bytes);
    const cuuint64_t sizes[] = {in_row, cuuint64_t(tensor.rows), cuuint64_t(tensor.elements) / in_row,
                                cuuint64_t(tensor.heads)};
    const cuuint64_t strides[] = {whole_row_bytes, cuuint64_t(taken.row_bytes),
                                  cuuint64_t(tensor.rows) * whole_row_bytes};
    const cuuint32_t box[] = {in_row, cuuint32_t(taken.rows), cuuint32_t(taken.parts), 1};
    const cuuint32_t steps[] = {1, 1, 1, 1};
    const CUtensorMapSwizzle swizzle = !taken.swizzled         ? CU_TENSOR_MAP_SWIZZLE_NONE
                                       : taken.row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                               : CU_TENSOR_MAP_SWIZZLE_128B;
    CUtensorMap map;
    const CUresult result =
        tensor_map_encoder()(&map, tensor.type, 4, const_cast<void*>(tensor.tensor), sizes, strides, box,
                             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        throw Error("the driver refuses the tensor map (CUresult " + std::to_string(int(result)) + ")",
                    "a kernel with wgmma", "let the tensor begin at a multiple of 16 bytes");
    }
    return map;
}

}  // namespace tilescope
