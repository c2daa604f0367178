#include "oracle/remote/recording_server.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

RecordingFacts facts_of(const Recording& recording) {
    RecordingFacts facts;
    facts.problem = recording.problem();
    facts.units = recording.units();
    facts.provenance = recording.provenance();
    facts.capture = recording.capture();
    facts.threads = recording.threads();
    for (std::size_t i = 0; i < facts.stages.size(); ++i) {
        facts.stages[i] = recording.has_stage(static_cast<Stage>(i));
        facts.writers[i] = recording.has_writers(static_cast<Stage>(i));
    }
    for (std::size_t i = 0; i < facts.inputs.size(); ++i)
        facts.inputs[i] = recording.has_input(static_cast<Input>(i));
    facts.has_bias = recording.has_bias();
    facts.side_inputs = recording.side_inputs();
    facts.references.assign(recording.references().begin(), recording.references().end());
    return facts;
}

/// A byte for each tile of the stage.
template <class IsThere>
std::string for_each_tile(const Problem& problem, Stage stage, const IsThere& is_there) {
    std::string there(std::size_t(tile_count(problem, stage)), '\0');
    for (std::size_t i = 0; i < there.size(); ++i)
        there[i] = is_there(tile_at(problem, stage, std::int64_t(i))) ? 1 : 0;
    return there;
}

std::string writers_of(const Recording& recording, const Question& question) {
    std::vector<ElementWriter> writers(
        std::size_t(tile_shape(recording.problem(), question.stage).elements()));
    return recording.read_writers(question.stage, question.tile, writers) ? bytes_of(writers) : "";
}

/// Where one cannot be read, those before it: whoever needs it asks for it first, and is told.
TilesRead tiles_from(const Recording& recording, const Question& question) {
    TilesRead read;
    TileId tile = question.tile;
    for (std::int64_t i = 0; i < question.count; ++i, ++tile.kv_tile) {
        std::vector<float> values(std::size_t(tile_shape(recording.problem(), question.stage).elements()));
        try {
            const bool is_there = recording.read_tile(question.stage, tile, values);
            read.tiles.push_back(is_there ? std::optional(std::move(values)) : std::nullopt);
        } catch (const Error&) {
            if (i == 0) throw;
            break;
        }
    }
    return read;
}

template <class Read>
std::string floats(std::int64_t count, const Read& read) {
    std::vector<float> values(static_cast<std::size_t>(count));
    read(Span<float>(values));
    return bytes_of(values);
}

std::string read(const Recording& recording, const Question& question) {
    const Question& q = question;
    const Problem& problem = recording.problem();
    switch (q.asked) {
        case Asked::open:
        case Asked::close:
            break;
        case Asked::tiles:
            return for_each_tile(problem, q.stage,
                                 [&](const TileId& tile) { return recording.has_tile(q.stage, tile); });
        case Asked::q_blocks:
            return for_each_tile(problem, Stage::q,
                                 [&](const TileId& tile) { return recording.may_hold(tile); });
        case Asked::tile:
            return to_bytes(tiles_from(recording, q));
        case Asked::writers:
            return writers_of(recording, q);
        case Asked::input:
            return floats(q.count * input_shape(problem, q.input).cols, [&](Span<float> out) {
                recording.read_input(q.input, q.batch, q.head, q.row, q.count, out);
            });
        case Asked::bias:
            return floats(q.count, [&](Span<float> out) {
                recording.read_bias(q.batch, q.head, q.row, q.first_key, out);
            });
        case Asked::reference:
            return floats(q.count * (q.stage == Stage::o ? problem.head_dim_v : 1), [&](Span<float> out) {
                recording.read_reference(std::size_t(q.reference), q.stage, q.batch, q.head, q.row, q.count,
                                         out);
            });
        case Asked::unchanged:
            recording.require_unchanged();
            break;
    }
    return "";
}

}  // namespace

std::string RecordingServer::answer(std::string_view question) {
    const auto asked = from_bytes<Question>(question);
    if (asked.asked == Asked::open) return to_bytes(open(asked));
    if (asked.asked == Asked::close) {
        const std::scoped_lock lock(mutex_);
        recordings_.erase(asked.number);
        return "";
    }
    return read(*opened(asked.number), asked);
}

RecordingFacts RecordingServer::open(const Question& question) {
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<const Recording>& known = by_path_[question.path];
    std::shared_ptr<const Recording> recording = known.lock();
    if (!recording) recording = open_(question.path, question.is_tried);
    known = recording;
    RecordingFacts facts = facts_of(*recording);
    facts.number = next_++;
    recordings_[facts.number] = std::move(recording);
    return facts;
}

std::shared_ptr<const Recording> RecordingServer::opened(std::int64_t number) {
    const std::scoped_lock lock(mutex_);
    return recordings_.at(number);
}

}  // namespace tilescope
