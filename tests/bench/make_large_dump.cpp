// Writes a recording of S, as large as asked for, and of P as well where asked for: make_large_dump FILE
// SEQLEN [p|fault [HEADS]] fault: P with a lane's columns of one row unscaled, and one NaN. All heads hold the same.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <random>
#include <string>

#include "dump/schema/dtype.h"
#include "dump/writer.h"
#include "oracle/formula/estimate.h"

namespace tilescope {
namespace {

constexpr std::int64_t block = 64;
constexpr std::int64_t head_dim = 64;

enum class Content { s, s_and_p, faulty_p };

/// S and P as float32 arithmetic computes them, tile by tile when they are asked for.
class LargeRecording final : public Recording {
 public:
    LargeRecording(std::int64_t seqlen, Content content, std::int64_t heads) : content_(content) {
        problem_.heads = problem_.heads_kv = heads;
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
        if (content_ != Content::s) capture_.selection->stages.push_back(Stage::p);
        provenance_.producer = "make_large_dump";
        provenance_.kernel = "float32 products of Eigen";
        if (content_ != Content::s) fill_maxima();
    }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage stage) const override {
        return stage == Stage::s || (stage == Stage::p && content_ != Content::s);
    }
    bool has_tile(Stage stage, const TileId&) const override { return has_stage(stage); }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        if (!has_stage(stage)) return false;
        Eigen::Map<MatrixF> values(out.data(), block, block);
        values = scores(tile);
        if (stage == Stage::p) exponentiate(tile, values);
        return true;
    }
    bool has_input(Input input) const override { return input <= Input::v; }
    void read_input(Input input, std::int64_t, std::int64_t, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        const MatrixF& values = inputs_[static_cast<std::size_t>(input)];
        Eigen::Map<MatrixF>(out.data(), count, head_dim) = values.middleRows(row, count);
    }
    const SideInputs& side_inputs() const override { return side_inputs_; }
    bool has_bias() const override { return false; }
    void read_bias(std::int64_t, std::int64_t, std::int64_t, std::int64_t, Span<float>) const override {}

 private:
    MatrixF scores(const TileId& tile) const {
        MatrixF s = inputs_[0].middleRows(tile.q_block * block, block) *
                    inputs_[1].middleRows(tile.kv_tile * block, block).transpose();
        return s * float(problem_.sm_scale);
    }
    void fill_maxima() {
        maxima_.resize(problem_.seqlen_q, problem_.kv_tiles());
        for (TileId tile; tile.q_block < problem_.q_blocks(); ++tile.q_block) {
            for (tile.kv_tile = 0; tile.kv_tile < problem_.kv_tiles(); ++tile.kv_tile) {
                auto m = maxima_.block(tile.q_block * block, tile.kv_tile, block, 1);
                m = scores(tile).rowwise().maxCoeff();
                if (tile.kv_tile == 0) continue;
                m = m.cwiseMax(maxima_.block(tile.q_block * block, tile.kv_tile - 1, block, 1));
            }
        }
    }
    void exponentiate(const TileId& tile, Eigen::Map<MatrixF>& values) const {
        for (Eigen::Index row = 0; row < block; ++row) {
            const float m = maxima_(tile.q_block * block + row, tile.kv_tile);
            for (Eigen::Index col = 0; col < block; ++col)
                values(row, col) = float(std::exp(double(values(row, col) - m)));
        }
        if (content_ != Content::faulty_p) return;
        if (tile.q_block == problem_.q_blocks() / 3 && tile.kv_tile >= problem_.kv_tiles() / 5)
            values.block(37, 16, 1, 8) *= 1.5f;
        if (tile.q_block == problem_.q_blocks() / 2 && tile.kv_tile == problem_.kv_tiles() / 2)
            values(5, 9) = std::numeric_limits<float>::quiet_NaN();
    }
    /// Uniform between -2 and 2, exact in float16.
    static float next(std::mt19937& generator) { return (float(generator() % 4096) - 2048) / 1024; }

    std::string name_ = "large recording";
    Problem problem_;
    Units units_;
    Provenance provenance_;
    CaptureSummary capture_;
    SideInputs side_inputs_;
    std::array<MatrixF, 3> inputs_;
    Content content_;
    MatrixF maxima_;  ///< running, by q row and KV tile
};

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    using tilescope::Content;
    const std::string what = argc > 3 ? argv[3] : "";
    const bool known = what.empty() || what == "p" || what == "fault";
    const std::int64_t seqlen = argc > 2 ? std::atoll(argv[2]) : 0;
    const std::int64_t heads = argc > 4 ? std::atoll(argv[4]) : 1;
    if (argc > 5 || !known || seqlen < 1 || heads < 1 || seqlen % tilescope::block != 0) {
        std::fputs("usage: make_large_dump FILE SEQLEN [p|fault [HEADS]], SEQLEN a multiple of 64\n", stderr);
        return 2;
    }
    const Content content = what.empty() ? Content::s : what == "p" ? Content::s_and_p : Content::faulty_p;
    try {
        tilescope::write_recording(argv[1], tilescope::LargeRecording(seqlen, content, heads));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_large_dump: %s\n", error.what());
        return 2;
    }
    return 0;
}
