// Writes a recording whose only captured stage is S, as large as asked for: make_large_dump FILE SEQLEN

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>

#include "dump/dtype.h"
#include "dump/file_writer.h"
#include "oracle/estimate.h"

namespace tilescope {
namespace {

constexpr std::int64_t block = 64;
constexpr std::int64_t head_dim = 64;

/// S as float32 arithmetic computes it, tile by tile when it is asked for.
class LargeRecording final : public Recording {
 public:
    explicit LargeRecording(std::int64_t seqlen) {
        problem_.seqlen_q = problem_.seqlen_kv = seqlen;
        problem_.block_m = problem_.block_n = block;
        problem_.head_dim = problem_.head_dim_v = head_dim;
        problem_.sm_scale = 0.125;
        std::mt19937 generator(1);
        for (MatrixF& input : inputs_) {
            input.resize(seqlen, head_dim);
            for (float& value : input.reshaped()) value = next(generator);
        }
        capture_.selection = Selection{};
        capture_.selection->stages = {Stage::s};
        provenance_.producer = "make_large_dump";
        provenance_.kernel = "float32 products of Eigen";
    }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage stage) const override { return stage == Stage::s; }
    bool has_tile(Stage stage, const TileId&) const override { return stage == Stage::s; }
    bool read_tile(Stage stage, const TileId& tile, std::span<float> out) const override {
        if (stage != Stage::s) return false;
        Eigen::Map<MatrixF> s(out.data(), block, block);
        s.noalias() = inputs_[0].middleRows(tile.q_block * block, block) *
                      inputs_[1].middleRows(tile.kv_tile * block, block).transpose();
        s *= float(problem_.sm_scale);
        return true;
    }
    bool has_input(Input input) const override { return input <= Input::v; }
    void read_input(Input input, std::int64_t, std::int64_t, std::int64_t row, std::int64_t count,
                    std::span<float> out) const override {
        const MatrixF& values = inputs_[static_cast<std::size_t>(input)];
        Eigen::Map<MatrixF>(out.data(), count, head_dim) = values.middleRows(row, count);
    }
    const SideInputs& side_inputs() const override { return side_inputs_; }
    bool has_bias() const override { return false; }
    void read_bias(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::span<float>) const override {}

 private:
    /// Uniform between -2 and 2, exact in float16.
    static float next(std::mt19937& generator) { return (float(generator() % 4096) - 2048) / 1024; }

    std::string name_ = "large recording";
    Problem problem_;
    Units units_;
    Provenance provenance_;
    CaptureSummary capture_;
    SideInputs side_inputs_;
    std::array<MatrixF, 3> inputs_;
};

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    if (argc != 3 || std::atoll(argv[2]) < 1 || std::atoll(argv[2]) % tilescope::block != 0) {
        std::fputs("usage: make_large_dump FILE SEQLEN, a multiple of 64\n", stderr);
        return 2;
    }
    try {
        tilescope::write_recording(argv[1], tilescope::LargeRecording(std::atoll(argv[2])));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_large_dump: %s\n", error.what());
        return 2;
    }
    return 0;
}
