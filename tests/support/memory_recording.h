#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/span.h"

namespace tilescope::test {

/// A recording that a test puts together by hand, tile by tile.
class MemoryRecording final : public Recording {
 public:
    explicit MemoryRecording(const Problem& problem, const Units& units = {})
        : problem_(problem), units_(units) {}

    /// `values` is the whole tile, row-major, padding included: tile_shape().elements() of them.
    void set_tile(Stage stage, const TileId& tile, std::vector<float> values) {
        require(std::ssize(values) == tile_shape(problem_, stage).elements(), "a tile of another size");
        tiles_[key(stage, tile)] = std::move(values);
    }
    /// `values` is the whole array that input_shape() describes.
    void set_input(Input input, std::vector<float> values) {
        const ArrayShape shape = input_shape(problem_, input);
        require(std::ssize(values) == problem_.batch * shape.heads * shape.rows * shape.cols,
                "an input of another size");
        inputs_[static_cast<std::size_t>(input)] = std::move(values);
    }
    /// `o` is contiguous [batch][heads][seqlen_q][head_dim_v], `lse` without head_dim_v; empty: the reference
    /// has none.
    void add_reference(ReferenceInfo info, std::vector<float> o, std::vector<float> lse) {
        const std::int64_t rows = problem_.batch * problem_.heads * problem_.seqlen_q;
        info.has_o = !o.empty();
        info.has_lse = !lse.empty();
        require(o.empty() || std::ssize(o) == rows * problem_.head_dim_v, "a reference of another size");
        require(lse.empty() || std::ssize(lse) == rows, "a reference of another size");
        references_.push_back(std::move(info));
        reference_outputs_.push_back({std::move(o), std::move(lse)});
    }
    void remove_input(Input input) { inputs_[static_cast<std::size_t>(input)].clear(); }
    void remove_tile(Stage stage, const TileId& tile) { tiles_.erase(key(stage, tile)); }
    void set_name(std::string name) { name_ = std::move(name); }
    void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
    void set_side_inputs(SideInputs inputs) { side_inputs_ = std::move(inputs); }
    void set_bias(Bias bias) { bias_ = std::move(bias); }
    void set_threads(ThreadLayouts threads) { threads_ = std::move(threads); }
    void set_capture(CaptureSummary capture) { capture_ = std::move(capture); }

    const std::string& name() const override { return name_; }
    const Problem& problem() const override { return problem_; }
    const Units& units() const override { return units_; }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return capture_; }
    const ThreadLayouts& threads() const override { return threads_; }

    bool has_stage(Stage stage) const override {
        const auto first = tiles_.lower_bound({stage, TileId()});
        return first != tiles_.end() && first->first.first == stage;
    }
    bool has_tile(Stage stage, const TileId& tile) const override {
        return tiles_.contains(key(stage, tile));
    }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        require(std::ssize(out) == tile_shape(problem_, stage).elements(), "a span of another size");
        const auto found = tiles_.find(key(stage, tile));
        if (found == tiles_.end()) return false;
        std::ranges::copy(found->second, out.begin());
        return true;
    }

    bool has_input(Input input) const override { return !inputs_[static_cast<std::size_t>(input)].empty(); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        const ArrayShape shape = input_shape(problem_, input);
        const std::vector<float>& values = inputs_[static_cast<std::size_t>(input)];
        require(!values.empty(), "an input that was not set");
        require(batch >= 0 && batch < problem_.batch && head >= 0 && head < shape.heads && row >= 0 &&
                    count >= 0 && row + count <= shape.rows && std::ssize(out) == count * shape.cols,
                "rows outside the input");
        const std::int64_t first = ((batch * shape.heads + head) * shape.rows + row) * shape.cols;
        std::copy_n(values.begin() + first, count * shape.cols, out.begin());
    }
    const SideInputs& side_inputs() const override { return side_inputs_; }
    bool has_bias() const override { return !bias_.empty(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = bias_.at(batch, head, row, first_key + std::int64_t(i));
    }
    Span<const ReferenceInfo> references() const override { return references_; }
    void read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t count, Span<float> out) const override {
        require(index < references_.size() && references_[index].has(stage), "a reference that was not set");
        const std::int64_t cols = stage == Stage::o ? problem_.head_dim_v : 1;
        require(batch >= 0 && batch < problem_.batch && head >= 0 && head < problem_.heads && row >= 0 &&
                    count >= 0 && row + count <= problem_.seqlen_q && std::ssize(out) == count * cols,
                "rows outside the reference");
        const std::vector<float>& values = reference_outputs_[index][stage == Stage::o ? 0 : 1];
        const std::int64_t first = ((batch * problem_.heads + head) * problem_.seqlen_q + row) * cols;
        std::copy_n(values.begin() + first, count * cols, out.begin());
    }

 private:
    using Key = std::pair<Stage, TileId>;

    static void require(bool condition, const char* what) {
        if (!condition) throw std::invalid_argument(std::string("MemoryRecording: ") + what);
    }
    Key key(Stage stage, TileId tile) const {
        const StageInfo info = stage_info(problem_, stage);
        if (!info.per_q_block) tile.q_block = 0;
        if (!info.per_kv_tile) tile.kv_tile = 0;
        return {stage, tile};
    }

    std::string name_ = "memory recording";
    Problem problem_;
    Units units_;
    Provenance provenance_;
    CaptureSummary capture_;
    ThreadLayouts threads_;
    SideInputs side_inputs_;
    Bias bias_;
    std::map<Key, std::vector<float>> tiles_;
    std::array<std::vector<float>, input_count> inputs_;
    std::vector<ReferenceInfo> references_;
    std::vector<std::array<std::vector<float>, 2>> reference_outputs_;  ///< o, lse
};

}  // namespace tilescope::test
