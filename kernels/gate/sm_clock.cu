#include "kernels/gate/sm_clock.h"

#include "kernels/gate/timing.cuh"

namespace tilescope {

namespace {

__global__ void wait_cycles(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
}

double microseconds_of(long long cycles) {
    const Event begin;
    const Event end;
    begin.record();
    wait_cycles<<<1, 1, 0, cudaStreamPerThread>>>(cycles);
    check_cuda(cudaGetLastError(), "measuring the clock");
    end.record();
    return microseconds_between(begin, end);
}

}  // namespace

double measure_sm_clock_mhz() {
    // The difference of two waits: what a launch costs is in both.
    constexpr long long shorter = 200000;
    constexpr long long longer = 2200000;
    microseconds_of(shorter);
    const double begin = microseconds_of(shorter);
    const double end = microseconds_of(longer);
    return double(longer - shorter) / (end - begin);
}

}  // namespace tilescope
