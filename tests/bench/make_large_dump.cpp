// Writes a recording of S, as large as asked for: make_large_dump FILE SEQLEN [p|fault|all [HEADS]]. p: of P as well.
// fault: the same, with a lane's columns of one row of P unscaled, and one NaN. all: of s, m, p, l, acc and o. All heads
// hold the same.

#include <algorithm>
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

enum class Content { s, s_and_p, faulty_p, all };

/// As float32 arithmetic computes it: S and P tile by tile when they are asked for, the rest before.
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
        if (content_ == Content::all) capture_.selection->stages.assign(std::begin(all), std::end(all));
        provenance_.producer = "make_large_dump";
        provenance_.kernel = "float32 products of Eigen";
        if (content_ != Content::s) fill_maxima();
        if (content_ == Content::all) fill_sums();
    }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    bool has_stage(Stage stage) const override {
        const std::vector<Stage>& stages = capture_.selection->stages;
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
    }
    bool has_tile(Stage stage, const TileId&) const override { return has_stage(stage); }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        if (!has_stage(stage)) return false;
        const std::int64_t first = tile.q_block * block;
        switch (stage) {
            case Stage::m:
                Eigen::Map<MatrixF>(out.data(), block, 1) = maxima_.block(first, tile.kv_tile, block, 1);
                return true;
            case Stage::l:
                Eigen::Map<MatrixF>(out.data(), block, 1) = sums_.block(first, tile.kv_tile, block, 1);
                return true;
            case Stage::acc:
                Eigen::Map<MatrixF>(out.data(), block, head_dim) =
                    accumulators_.block(first, tile.kv_tile * head_dim, block, head_dim);
                return true;
            case Stage::o:
                Eigen::Map<MatrixF>(out.data(), block, head_dim) = outputs(tile.q_block);
                return true;
            default:
                break;
        }
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
    static constexpr Stage all[] = {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o};

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
    void fill_sums() {
        sums_.resize(problem_.seqlen_q, problem_.kv_tiles());
        accumulators_.resize(problem_.seqlen_q, problem_.kv_tiles() * head_dim);
        MatrixF p(block, block);
        Eigen::Map<MatrixF> values(p.data(), block, block);
        for (TileId tile; tile.q_block < problem_.q_blocks(); ++tile.q_block) {
            MatrixF l = MatrixF::Zero(block, 1);
            MatrixF acc = MatrixF::Zero(block, head_dim);
            for (tile.kv_tile = 0; tile.kv_tile < problem_.kv_tiles(); ++tile.kv_tile) {
                values = scores(tile);
                exponentiate(tile, values);
                for (std::int64_t row = 0; row < block && tile.kv_tile > 0; ++row) {
                    const auto m = maxima_.row(tile.q_block * block + row);
                    const float alpha = std::exp(m(tile.kv_tile - 1) - m(tile.kv_tile));
                    l.row(row) *= alpha;
                    acc.row(row) *= alpha;
                }
                l += p.rowwise().sum();
                acc += p * inputs_[2].middleRows(tile.kv_tile * block, block);
                sums_.block(tile.q_block * block, tile.kv_tile, block, 1) = l;
                accumulators_.block(tile.q_block * block, tile.kv_tile * head_dim, block, head_dim) = acc;
            }
        }
    }
    MatrixF outputs(std::int64_t q_block) const {
        const std::int64_t last = problem_.kv_tiles() - 1;
        MatrixF o = accumulators_.block(q_block * block, last * head_dim, block, head_dim);
        for (std::int64_t row = 0; row < block; ++row) o.row(row) /= sums_(q_block * block + row, last);
        return o;
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
    MatrixF maxima_;        ///< running, by q row and KV tile
    MatrixF sums_;          ///< the same
    MatrixF accumulators_;  ///< by q row, and KV tile times head_dim
};

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    using tilescope::Content;
    const std::string what = argc > 3 ? argv[3] : "";
    const bool known = what.empty() || what == "p" || what == "fault" || what == "all";
    const std::int64_t seqlen = argc > 2 ? std::atoll(argv[2]) : 0;
    const std::int64_t heads = argc > 4 ? std::atoll(argv[4]) : 1;
    if (argc > 5 || !known || seqlen < 1 || heads < 1 || seqlen % tilescope::block != 0) {
        std::fputs("usage: make_large_dump FILE SEQLEN [p|fault|all [HEADS]], SEQLEN a multiple of 64\n",
                   stderr);
        return 2;
    }
    const Content content = what.empty()    ? Content::s
                            : what == "p"   ? Content::s_and_p
                            : what == "all" ? Content::all
                                            : Content::faulty_p;
    try {
        tilescope::write_recording(argv[1], tilescope::LargeRecording(seqlen, content, heads));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "make_large_dump: %s\n", error.what());
        return 2;
    }
    return 0;
}
