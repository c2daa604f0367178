#include <cuda_runtime.h>

#include "dump/schema/error.h"
#include "kernels/attention/along_keys.h"
#include "kernels/attention/e4m3.cuh"
#include "kernels/run/quantise.h"

namespace tilescope {

namespace {

constexpr int threads = 256;

KERNEL_FUNCTION float to_float(float value) {
    return value;
}

/// The scale of a group whose largest finite magnitude is amax.
template <Fault fault>
KERNEL_FUNCTION float scale_of(float amax) {
    const float scale = amax / largest_e4m3;
    return fault == Fault::zero_scale || scale > 0.0f ? scale : 1.0f;
}

/// The largest of the threads' values, in every thread.
KERNEL_FUNCTION float block_max(float value) {
    __shared__ float maxima[threads];
    maxima[threadIdx.x] = value;
    __syncthreads();
    for (int width = threads / 2; width > 0; width /= 2) {
        if (int(threadIdx.x) < width) {
            maxima[threadIdx.x] = fmaxf(maxima[threadIdx.x], maxima[threadIdx.x + unsigned(width)]);
        }
        __syncthreads();
    }
    return maxima[0];
}

/// A thread block for each group. A maximum is the same in any order.
template <class Element, Fault fault>
__global__ void quantise_kernel(const Element* values, const ScaleGroups groups, std::int64_t blocks,
                                E4m3* codes, float* scales) {
    const std::int64_t group = blockIdx.x;
    const std::int64_t row = group % blocks * groups.block_rows;
    const std::int64_t rows = row + groups.block_rows < groups.rows ? groups.block_rows : groups.rows - row;
    const std::int64_t first = (group / blocks * groups.rows + row) * groups.cols;
    const std::int64_t end = first + rows * groups.cols;

    float amax = 0.0f;
    for (std::int64_t i = first + threadIdx.x; i < end; i += threads) {
        const float magnitude = fabsf(to_float(values[i]));
        if (magnitude < INFINITY) amax = fmaxf(amax, magnitude);
    }
    const float scale = scale_of<fault>(block_max(amax));
    if (threadIdx.x == 0) scales[group] = scale;
    for (std::int64_t i = first + threadIdx.x; i < end; i += threads) {
        codes[i] = to_e4m3(to_float(values[i]) / scale);
    }
}

/// Throws when what was launched last failed.
void wait_for_launch() {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return;
    throw Error(std::string("the quantiser failed (") + cudaGetErrorString(error) + ")", "GPU",
                "choose a smaller shape, or check the GPU with nvidia-smi");
}

/// A thread block for each unit of keys of each matrix.
__global__ void along_keys_kernel(const E4m3* codes, const ScaleGroups groups, std::int64_t pitch,
                                  E4m3* laid) {
    const std::int64_t units = pitch / along_keys_unit;
    const std::int64_t matrix = blockIdx.x / units;
    const std::int64_t first_key = blockIdx.x % units * along_keys_unit;
    for (int i = int(threadIdx.x); i < along_keys_unit * int(groups.cols); i += threads) {
        const std::int64_t key = first_key + i / int(groups.cols);
        const int feature = i % int(groups.cols);
        const bool inside = key < groups.rows;
        laid[(matrix * groups.cols + feature) * pitch + place_along_keys(int(key))] =
            inside ? codes[(matrix * groups.rows + key) * groups.cols + feature] : E4m3{0};
    }
}

template <class Element, Fault fault>
void quantise_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales) {
    quantise_kernel<Element, fault><<<unsigned(groups.count()), threads>>>(
        static_cast<const Element*>(values), groups, groups.blocks(), static_cast<E4m3*>(codes), scales);
    wait_for_launch();
}

}  // namespace

void quantise_floats_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales) {
    quantise_on_device<float, Fault::none>(values, groups, codes, scales);
}

void quantise_halves_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales,
                               Fault fault) {
    const auto run = fault == Fault::zero_scale ? quantise_on_device<Half, Fault::zero_scale>
                                                : quantise_on_device<Half, Fault::none>;
    run(values, groups, codes, scales);
}

void lay_along_keys_on_device(const void* codes, const ScaleGroups& groups, void* laid) {
    const std::int64_t pitch = along_keys_pitch(groups.rows);
    along_keys_kernel<<<unsigned(groups.matrices * (pitch / along_keys_unit)), threads>>>(
        static_cast<const E4m3*>(codes), groups, pitch, static_cast<E4m3*>(laid));
    wait_for_launch();
}

}  // namespace tilescope
