#include <algorithm>
#include <cstddef>
#include <memory>

#include "kernels/run/device_arrays.cuh"
#include "kernels/run/launch_times.cuh"

namespace tilescope {
namespace {

struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

Event make_event() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreate(&event), "creating an event");
    return Event(event);
}

struct Timed {
    Event begin = make_event();
    Event end = make_event();
};

Timed enqueue(const TimedLaunch& timed) {
    Timed span;
    check_cuda(cudaEventRecord(span.begin.get(), timed.stream), "timing a kernel");
    timed.launch();
    check_cuda(cudaEventRecord(span.end.get(), timed.stream), "timing a kernel");
    return span;
}

double median_of(const std::vector<Timed>& spans) {
    std::vector<float> times(spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
        check_cuda(cudaEventElapsedTime(&times[i], spans[i].begin.get(), spans[i].end.get()),
                   "timing a kernel");
    }
    const auto middle = times.begin() + std::ptrdiff_t(times.size() / 2);
    std::ranges::nth_element(times, middle);
    return double(*middle);
}

}  // namespace

std::vector<double> median_times(const std::vector<TimedLaunch>& launches, int rounds) {
    constexpr int warm_up = 3;
    std::vector<std::vector<Timed>> spans(launches.size());
    for (int round = -warm_up; round < rounds; ++round) {
        for (std::size_t i = 0; i < launches.size(); ++i) {
            Timed span = enqueue(launches[i]);
            if (round >= 0) spans[i].push_back(std::move(span));
        }
    }
    check_cuda(cudaDeviceSynchronize(), "timing kernels");
    std::vector<double> medians(launches.size());
    std::ranges::transform(spans, medians.begin(), median_of);
    return medians;
}

}  // namespace tilescope
