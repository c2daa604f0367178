// Prints how small a wrong value is found, for each type and stage, in recordings of an honest kernel on the
// CPU.

#include <fmt/format.h>

#include <vector>

#include "tests/oracle/sharpness.h"

namespace {

using namespace tilescope;

constexpr std::uint64_t seed = 3;

void print_table(Direction pass, const std::vector<Dtype>& dtypes) {
    const std::vector<Stage> stages = test::stages_to_change(pass);
    fmt::print("| {} |", pass == Direction::forward ? "forward" : "backward");
    for (const Stage stage : stages) fmt::print(" {} |", stage_info(stage).name);
    fmt::print("\n|---|");
    for (std::size_t i = 0; i < stages.size(); ++i) fmt::print("---|");
    for (const Dtype dtype : dtypes) {
        const test::MemoryRecording recording = test::recorded(test::call_of_dtype(pass, dtype, seed));
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
    print_table(Direction::forward, all);
    print_table(Direction::backward, wide);
}
