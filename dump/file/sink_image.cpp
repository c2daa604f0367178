#include "dump/file/sink_image.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "dump/file/attributes.h"
#include "dump/file/layout.h"
#include "dump/recording/sink_contents.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"

namespace tilescope::hdf5 {

namespace {

constexpr const char* image_advice = "read it with the version that wrote it, or record it again";

std::int64_t elements_of(std::size_t image_bytes) {
    return std::int64_t((image_bytes + sink_ending_bytes) / sizeof(std::int32_t));
}

void require_no_tiles(const std::array<std::int64_t, stage_count>& tiles_stored, const std::string& where) {
    if (std::ranges::all_of(tiles_stored, [](std::int64_t tiles) { return tiles == 0; })) return;
    throw Error("stands beside stored tiles", where, "keep one of the two");
}

// Before the tables of the plan are allocated.
void require_room_for_tables(const Problem& problem, const StoredArray& image) {
    const std::int64_t entries = problem.batch * problem.heads * problem.q_blocks() + problem.kv_tiles();
    if (entries <= image.elements) return;
    throw Error("has " + std::to_string(image.elements) + " words, and the tables of the problem take " +
                    std::to_string(entries),
                image.where, image_advice);
}

CapturePlan plan_of(const Problem& problem, const StoredArray& image, const CaptureSummary& capture) {
    require_room_for_tables(problem, image);
    const std::optional<std::int64_t> max_bytes = read_integer(image.id.get(), "max_bytes", image.where);
    if (!max_bytes || *max_bytes < 0 || !capture.selection) {
        throw Error("does not say of which selection and how many bytes it is", image.where, damaged_advice);
    }
    CapturePlan plan(problem, *capture.selection, std::size_t(*max_bytes));
    const std::int64_t expected = elements_of(plan.bytes());
    if (image.element_bytes == sizeof(std::int32_t) && image.dims.size() == 1 && image.elements == expected) {
        return plan;
    }
    throw Error("has " + std::to_string(image.elements) + " elements where the capture takes " +
                    std::to_string(expected) + " of 4 bytes",
                image.where, image_advice);
}

/// Where a sink at `head` points to, in bytes from its beginning.
std::int64_t offset_in(std::span<const std::byte> head, const void* pointer) {
    return std::int64_t(std::bit_cast<std::uintptr_t>(pointer) - std::bit_cast<std::uintptr_t>(head.data()));
}

}  // namespace

void align_sink_image(hid_t access, const SinkRoom& room) {
    check(H5Pset_alignment(access, room.bytes, sink_alignment));
}

void create_sink_image(hid_t file, SinkRoom& room) {
    const auto elements = hsize_t(elements_of(room.bytes));
    const Id space = checked(H5Screate_simple(1, &elements, nullptr));
    const Id properties = creation_properties(H5P_DATASET_CREATE);
    check(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY));
    check(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER));
    const Id image = checked(H5Dcreate2(file, layout::path::sink_image, H5T_STD_I32LE, space.get(),
                                        H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    write_integer(image.get(), "max_bytes", std::int64_t(room.max_bytes));
    const haddr_t offset = H5Dget_offset(image.get());
    if (offset == HADDR_UNDEF) throw Failure();
    room.offset = std::int64_t(offset);
}

SinkImage::SinkImage(CapturePlan plan, const StoredArray& image, const InputFile& file,
                     CaptureSummary& capture)
    : plan_(std::move(plan)), where_(image.where), offset_(image.offset) {
    // Of 8-byte words, as the counters at its beginning are.
    std::vector<std::uint64_t> words((plan_.head_bytes() + 7) / 8);
    const std::span<std::byte> head = std::as_writable_bytes(std::span(words)).first(plan_.head_bytes());
    read(file, 0, head);
    const Sink sink = plan_.sink(head.data());
    check_tables(head, sink);
    for (const StageInfo& info : stages_of(plan_.problem())) {
        const auto index = std::size_t(info.stage);
        capture.stages[index] = summarise_stage(plan_, sink, info.stage);
        if (plan_.selected_tiles(info.stage) == 0) continue;
        tiles_[index] = offset_in(head, sink.stages[index].words);
    }
    std::array<char, sink_ending_bytes + 1> ending = {};
    read(file, std::int64_t(plan_.bytes()),
         std::as_writable_bytes(std::span(ending)).first(sink_ending_bytes));
    capture.ended = ending.front() == 0 ? ended_running : readable(ending.data());
}

// Nothing writes the tables: other ones are those of another capture, and its tiles lie elsewhere.
void SinkImage::check_tables(std::span<const std::byte> head, const Sink& sink) const {
    constexpr unsigned long long most_writes = 1ull << 62;
    for (int stage = 0; stage < stage_count; ++stage) {
        if (std::max(sink.counters->dropped[stage].elements, sink.counters->out_of_range[stage].elements) >
            most_writes) {
            throw Error("counts more writes than there can be", where_, image_advice);
        }
    }
    std::int64_t end = std::ssize(head);
    for (const SinkStage& stage : sink.stages) {
        if (stage.conflicts != nullptr) end = std::min(end, offset_in(head, stage.conflicts));
    }
    const auto begin = std::size_t(offset_in(head, sink.q_block_slots));
    const auto tables = [&](std::span<const std::byte> of) {
        return of.subspan(begin, std::size_t(end) - begin);
    };
    if (std::ranges::equal(tables(head), tables(plan_.head()))) return;
    throw Error("has other slot tables than the selection has", where_, image_advice);
}

void SinkImage::read(const InputFile& file, std::int64_t offset, std::span<std::byte> out) const {
    if (read_exactly(file.descriptor.get(), offset_ + offset, std::ssize(out), out.data())) return;
    throw Error("cannot be read: the file has become shorter", where_, damaged_advice);
}

bool SinkImage::read_tile(const InputFile& file, Stage stage, const TileId& tile,
                          std::span<float> out) const {
    const std::int64_t slot = plan_.tile_slot(stage, tile);
    if (slot < 0 || slot >= plan_.capacity(stage)) return false;
    const TileShape shape = tile_shape(plan_.problem(), stage);
    const std::int64_t tile_bytes = shape.elements() * std::int64_t(sizeof(float));
    std::vector<float> values(std::size_t(shape.elements()));
    read(file, tiles_[std::size_t(stage)] + slot * tile_bytes, std::as_writable_bytes(std::span(values)));
    // Hooks never write the padding.
    if (std::ranges::all_of(values, is_unwritten)) return false;
    std::ranges::copy(values, out.begin());
    return true;
}

std::unique_ptr<SinkImage> open_sink_image(const InputFile& file, const Problem& problem,
                                           const std::array<std::int64_t, stage_count>& tiles_stored,
                                           CaptureSummary& capture) {
    const std::optional<StoredArray> image = open_array(file, layout::path::sink_image, Elements::integers);
    if (!image) return nullptr;
    require_no_tiles(tiles_stored, image->where);
    return std::make_unique<SinkImage>(plan_of(problem, *image, capture), *image, file, capture);
}

}  // namespace tilescope::hdf5
