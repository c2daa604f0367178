#include "oracle/remote/remote_recording.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "oracle/remote/questions.h"

namespace tilescope {

namespace {

/// Of all tiles of a stage, whether they are there: asked for once.
class Presence {
 public:
    template <class Ask>
    bool at(std::int64_t index, const Ask& ask) const {
        const std::scoped_lock lock(mutex_);
        if (!there_) there_ = ask();
        return index >= 0 && index < std::ssize(*there_) && (*there_)[std::size_t(index)] != 0;
    }

 private:
    mutable std::mutex mutex_;
    mutable std::optional<std::string> there_;
};

/// KV tiles of a query block that a thread was told of last, next to each other.
struct TileStretch {
    std::uint64_t recording = 0;  ///< whose; 0: nobody's
    TileId first;
    std::vector<std::optional<std::vector<float>>> tiles;

    bool holds(std::uint64_t of, const TileId& tile) const {
        TileId begin = tile;
        begin.kv_tile = first.kv_tile;
        return recording == of && begin == first && tile.kv_tile >= first.kv_tile &&
               tile.kv_tile < first.kv_tile + std::ssize(tiles);
    }
};

/// Of this thread.
TileStretch& stretch_of(Stage stage, std::int64_t q_block) {
    constexpr std::size_t side_by_side = q_blocks_side_by_side;
    thread_local std::array<std::array<TileStretch, side_by_side>, stage_count> stretches;
    return stretches[std::size_t(stage)][std::size_t(q_block) % side_by_side];
}

std::uint64_t next_number() {
    static std::atomic<std::uint64_t> number = 0;
    return ++number;
}

class RemoteRecording final : public Recording {
 public:
    RemoteRecording(WorkSharing& sharing, int process, std::string path, RecordingFacts facts)
        : sharing_(sharing), process_(process), path_(std::move(path)), facts_(std::move(facts)) {}
    ~RemoteRecording() override {
        try {
            ask({.asked = Asked::close});
        } catch (const std::exception&) {
            return;  // it closes the file when it ends
        }
    }

    const std::string& name() const override { return path_; }
    const Problem& problem() const override { return facts_.problem; }
    const Units& units() const override { return facts_.units; }
    const Provenance& provenance() const override { return facts_.provenance; }
    const CaptureSummary& capture() const override { return facts_.capture; }
    const ThreadLayouts& threads() const override { return facts_.threads; }
    bool has_stage(Stage stage) const override { return facts_.stages[std::size_t(stage)]; }
    bool has_tile(Stage stage, const TileId& tile) const override {
        return presence_[std::size_t(stage)].at(tile_index(problem(), stage, tile),
                                                [&] { return ask({.asked = Asked::tiles, .stage = stage}); });
    }
    bool may_hold(const TileId& q_block) const override {
        return q_blocks_.at(tile_index(problem(), Stage::q, q_block),
                            [&] { return ask({.asked = Asked::q_blocks}); });
    }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        TileStretch& stretch = stretch_of(stage, tile.q_block);
        if (!stretch.holds(number_, tile)) ask_for(stage, tile, stretch);
        const auto& values = stretch.tiles[std::size_t(tile.kv_tile - stretch.first.kv_tile)];
        if (values) std::ranges::copy(*values, out.begin());
        return values.has_value();
    }
    bool has_writers(Stage stage) const override { return facts_.writers[std::size_t(stage)]; }
    bool read_writers(Stage stage, const TileId& tile, Span<ElementWriter> out) const override {
        return take(ask({.asked = Asked::writers, .stage = stage, .tile = tile}), out);
    }
    bool has_input(Input input) const override { return facts_.inputs[std::size_t(input)]; }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override {
        take(ask({.asked = Asked::input,
                  .input = input,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .count = count}),
             out);
    }
    const SideInputs& side_inputs() const override { return facts_.side_inputs; }
    bool has_bias() const override { return facts_.has_bias; }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   Span<float> out) const override {
        take(ask({.asked = Asked::bias,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .first_key = first_key,
                  .count = std::int64_t(out.size())}),
             out);
    }
    void require_unchanged() const override { ask({.asked = Asked::unchanged}); }
    Span<const ReferenceInfo> references() const override { return facts_.references; }
    void read_reference(std::size_t index, Stage stage, std::int64_t batch, std::int64_t head,
                        std::int64_t row, std::int64_t count, Span<float> out) const override {
        take(ask({.asked = Asked::reference,
                  .stage = stage,
                  .batch = batch,
                  .head = head,
                  .row = row,
                  .count = count,
                  .reference = std::int64_t(index)}),
             out);
    }

 private:
    /// A round trip takes as long as many tiles do. Aligned, since they may be read from the last one on.
    void ask_for(Stage stage, const TileId& tile, TileStretch& stretch) const {
        constexpr std::int64_t bytes_at_once = 256 << 10;
        const std::int64_t bytes = tile_shape(problem(), stage).elements() * std::int64_t(sizeof(float));
        const std::int64_t count =
            std::clamp<std::int64_t>(bytes_at_once / std::max<std::int64_t>(bytes, 1), 1, 64);
        const bool is_one_of_many = stage_info(problem(), stage).per_kv_tile && tile.kv_tile >= 0 &&
                                    tile.kv_tile < problem().kv_tiles();
        stretch.recording = 0;
        stretch.first = tile;
        if (is_one_of_many) stretch.first.kv_tile = tile.kv_tile / count * count;
        const std::int64_t left = problem().kv_tiles() - stretch.first.kv_tile;
        ask_for(stage, is_one_of_many ? std::min(count, left) : 1, stretch);
        if (stretch.holds(number_, tile)) return;
        // One before it cannot be read.
        stretch.first = tile;
        ask_for(stage, 1, stretch);
    }
    void ask_for(Stage stage, std::int64_t count, TileStretch& stretch) const {
        try {
            stretch.tiles =
                from_bytes<TilesRead>(
                    ask({.asked = Asked::tile, .stage = stage, .tile = stretch.first, .count = count}))
                    .tiles;
            stretch.recording = number_;
        } catch (const FailedElsewhere&) {
            if (count == 1) throw;
            stretch.tiles.clear();
        }
    }

    std::string ask(Question question) const {
        question.number = facts_.number;
        return sharing_.ask(process_, to_bytes(question));
    }
    template <class T>
    static bool take(const std::string& bytes, Span<T> out) {
        std::memcpy(static_cast<void*>(out.data()), bytes.data(),
                    std::min(bytes.size(), out.size() * sizeof(T)));
        return !bytes.empty();
    }

    WorkSharing& sharing_;
    std::uint64_t number_ = next_number();  ///< no other in this process has it
    int process_;
    std::string path_;
    RecordingFacts facts_;
    std::array<Presence, stage_count> presence_;
    Presence q_blocks_;
};

}  // namespace

std::unique_ptr<Recording> open_remote(WorkSharing& sharing, int process, const std::string& path,
                                       bool is_tried) {
    const Question question{.asked = Asked::open, .path = path, .is_tried = is_tried};
    return std::make_unique<RemoteRecording>(
        sharing, process, path, from_bytes<RecordingFacts>(sharing.ask(process, to_bytes(question))));
}

}  // namespace tilescope
