// Prints how small a wrong value is found, for each type and stage, in recordings of an honest kernel on the
// CPU.

#include <fmt/format.h>

#include <vector>

#include "tests/oracle/sharpness.h"

namespace {

using namespace tilescope;

constexpr std::uint64_t seed = 3;

template <class Record>
void print_table(const char* pass, std::span<const Stage> stages, const std::vector<Dtype>& dtypes,
                 Record record) {
    fmt::print("| {} |", pass);
    for (const Stage stage : stages) fmt::print(" {} |", stage_info(stage).name);
    fmt::print("\n|---|");
    for (std::size_t i = 0; i < stages.size(); ++i) fmt::print("---|");
    for (const Dtype dtype : dtypes) {
        const test::MemoryRecording recording = record(dtype);
        fmt::print("\n| {} |", dtype_info(dtype).name);
        for (const Stage stage : stages) fmt::print(" 2^-{} |", test::sharpness(recording, stage));
    }
    fmt::print("\n\n");
}

}  // namespace

int main() {
    const std::vector<Dtype> wide = {Dtype::f32, Dtype::f16, Dtype::bf16};
    std::vector<Dtype> all = wide;
    all.insert(all.end(), {Dtype::e4m3, Dtype::e5m2});
    print_table("forward", test::forward_stages_to_change(), all,
                [](Dtype dtype) { return test::forward_of_dtype(dtype, seed); });
    print_table("backward", test::backward_stages_to_change(), wide,
                [](Dtype dtype) { return test::recorded(test::backward_call_of_dtype(dtype, seed)); });
}
