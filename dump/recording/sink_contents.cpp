#include "dump/recording/sink_contents.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

namespace tilescope {

namespace {

/// `bytes` are those of the tile, or none.
bool holds_written(const SinkTile& tile, Span<const std::byte> bytes) {
    if (bytes.empty()) return false;
    const auto* const words = reinterpret_cast<const std::uint32_t*>(bytes.data());
    for (std::int64_t row = 0; row < tile.extent.rows; ++row) {
        const std::span row_words(words + row * tile.shape.cols, std::size_t(tile.extent.cols));
        const auto written = [](std::uint32_t word) { return word != unwritten_bits; };
        if (std::ranges::any_of(row_words, written)) return true;
    }
    return false;
}

class HostContents final : public SinkContents {
 public:
    explicit HostContents(MemoryBlock memory) : memory_(std::move(memory)) {}
    std::byte* hold(std::size_t offset, std::size_t) override { return memory_.data() + offset; }

 private:
    Span<const std::byte> look(std::size_t offset, std::size_t bytes) const override {
        return {memory_.data() + offset, bytes};
    }

    MemoryBlock memory_;
};

class LostContents final : public SinkContents {
 public:
    explicit LostContents(const CapturePlan& plan) {
        parts_.add(0, plan.head_bytes(),
                   [&](Span<std::byte> part) { std::ranges::copy(plan.head(), part.begin()); });
    }
    std::byte* hold(std::size_t offset, std::size_t bytes) override {
        const Span<std::byte> held = parts_.find(offset, bytes);
        if (!held.empty()) return held.data();
        return parts_.add(offset, bytes, [](Span<std::byte> part) {
            std::fill_n(reinterpret_cast<std::uint32_t*>(part.data()), part.size() / sizeof(std::uint32_t),
                        unwritten_bits);
        });
    }

 private:
    Span<const std::byte> look(std::size_t offset, std::size_t bytes) const override {
        return parts_.find(offset, bytes);
    }

    HeldParts parts_;
};

}  // namespace

bool SinkContents::has_tile(const SinkTile& tile) const {
    const std::lock_guard lock(looking_);
    return holds_written(tile, look(tile.offset, tile.bytes()));
}

bool SinkContents::read_tile(const SinkTile& tile, Span<float> out) const {
    const std::lock_guard lock(looking_);
    const Span<const std::byte> bytes = look(tile.offset, tile.bytes());
    if (!holds_written(tile, bytes)) return false;
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return true;
}

std::unique_ptr<SinkContents> host_contents(MemoryBlock memory) {
    return std::make_unique<HostContents>(std::move(memory));
}

std::unique_ptr<SinkContents> lost_contents(const CapturePlan& plan) {
    return std::make_unique<LostContents>(plan);
}

std::byte* HeldParts::add(std::size_t offset, std::size_t bytes,
                          const std::function<void(Span<std::byte>)>& fill) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    Part part = {offset, bytes, std::make_unique_for_overwrite<std::uint64_t[]>((bytes + word - 1) / word)};
    auto* const begin = reinterpret_cast<std::byte*>(part.words.get());
    fill({begin, bytes});
    parts_.push_back(std::move(part));
    return begin;
}

Span<std::byte> HeldParts::find(std::size_t offset, std::size_t bytes) const {
    for (const Part& part : parts_) {
        if (offset < part.offset || offset + bytes > part.offset + part.bytes) continue;
        return {reinterpret_cast<std::byte*>(part.words.get()) + (offset - part.offset), bytes};
    }
    return {};
}

namespace {

static_assert(sink_hooks <= max_hooks);

}  // namespace

std::vector<SourceLine> hooks_of(Span<const SinkHook> entered, Stage stage) {
    std::vector<SourceLine> hooks;
    for (const SinkHook& hook : entered) {
        if (hook.id == 0 || hook.stage != stage) continue;
        const std::string_view file(hook.file, strnlen(hook.file, sizeof hook.file));
        const SourceLine source{kept_path(file), hook.line};
        if (source_line_from(to_string(source)) == source) hooks.push_back(source);
    }
    std::ranges::sort(hooks, {}, [](const SourceLine& hook) { return std::tie(hook.file, hook.line); });
    hooks.erase(std::unique(hooks.begin(), hooks.end()), hooks.end());
    return hooks;
}

StageCapture summarise_stage(const CapturePlan& plan, const Sink& sink, Stage stage) {
    const std::size_t index = std::size_t(stage);
    const std::int64_t capacity = plan.capacity(stage);
    StageCapture summary;
    summary.hooks = hooks_of(sink.counters->hooks, stage);
    for (std::int64_t slot = 0; slot < capacity; ++slot) {
        const std::uint32_t conflicts = sink.stages[index].conflicts[slot];
        if (conflicts != 0) summary.conflicts.push_back({plan.tile_of_slot(stage, slot), conflicts});
    }
    const SinkLoss& outside = sink.counters->out_of_range[index];
    summary.elements_out_of_range = std::int64_t(outside.elements);
    if (outside.elements != 0) {
        const std::int32_t(&first)[6] = outside.first;
        summary.first_out_of_range = OutOfRange{{first[0], first[1], first[2], first[3]}, first[4], first[5]};
    }
    summary.elements_dropped = std::int64_t(sink.counters->dropped[index].elements);
    if (summary.elements_dropped == 0) return summary;
    const std::int64_t listed = std::min(plan.selected_tiles(stage), capacity + max_listed_dropped);
    for (std::int64_t slot = capacity; slot < listed; ++slot) {
        summary.dropped.push_back(plan.tile_of_slot(stage, slot));
    }
    return summary;
}

}  // namespace tilescope
