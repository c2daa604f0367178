#include "dump/recording/host_flight_recorder.h"

#include <algorithm>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

HostFlightRecorder::HostFlightRecorder(const Problem& problem, FlightOptions options)
    : plan_(problem, std::move(options)), entries_(std::size_t(plan_.options().launches)) {
    for (Entry& entry : entries_) {
        entry.memory.resize(plan_.plan().bytes());
        plan_.plan().fill_unwritten(entry.memory.data());
    }
}

const std::uint32_t* HostFlightRecorder::words_of(const Entry& entry) const {
    return reinterpret_cast<const std::uint32_t*>(entry.memory.data() + plan_.plan().head_bytes());
}

Sink HostFlightRecorder::next() {
    if (state_.frozen != 0) return Sink();
    Entry& entry = entries_[entry_of(state_.launches++)];
    plan_.plan().fill_unwritten(entry.memory.data());
    entry.inputs = {};
    entry.side = plan_.options().side_inputs;
    return plan_.plan().sink(entry.memory.data());
}

void HostFlightRecorder::inputs(std::span<const std::byte> q, std::span<const std::byte> k,
                                std::span<const std::byte> v) {
    if (state_.frozen != 0 || state_.launches == 0 || !plan_.options().keep_inputs) return;
    const auto copy = [](std::span<const std::byte> from) {
        return std::vector<std::byte>(from.begin(), from.end());
    };
    entries_[entry_of(state_.launches - 1)].inputs = {copy(q), copy(k), copy(v)};
}

void HostFlightRecorder::side_inputs(SideInputs side) {
    if (state_.frozen != 0 || state_.launches == 0 || !plan_.options().keep_inputs) return;
    entries_[entry_of(state_.launches - 1)].side = std::move(side);
}

void HostFlightRecorder::check() {
    if (state_.frozen != 0 || state_.launches == 0) return;
    const std::uint64_t launch = state_.launches - 1;
    const std::uint32_t* const words = words_of(entries_[entry_of(launch)]);
    for (const FlightStage& stage : plan_.stages().stages) {
        const auto stops = [&](std::uint32_t bits) {
            return stops_flight(bits, stage.limit_bits, stage.hides);
        };
        const std::uint32_t* const found = std::find_if(words + stage.first, words + stage.last, stops);
        if (found == words + stage.last) continue;
        state_.place = std::min<unsigned long long>(state_.place, (unsigned long long)(found - words));
    }
    if (state_.place == ~0ull) return;
    state_.value_bits = words[state_.place];
    state_.frozen = 1;
    state_.frozen_entry = std::uint32_t(entry_of(launch));
    state_.frozen_launch = launch;
}

std::optional<FlightFreeze> HostFlightRecorder::frozen() const {
    if (state_.frozen == 0) return std::nullopt;
    return plan_.freeze_of(state_);
}

CapturedRun HostFlightRecorder::recording_of(std::uint64_t launch) const {
    const Entry& entry = entries_[entry_of(launch)];
    return plan_.recording(entry.memory, entry.inputs, entry.side, std::int64_t(launch));
}

std::vector<CapturedRun> HostFlightRecorder::recordings() const {
    const std::uint64_t kept = std::min<std::uint64_t>(state_.launches, entries_.size());
    std::vector<CapturedRun> runs;
    for (std::uint64_t launch = state_.launches - kept; launch < state_.launches; ++launch) {
        runs.push_back(recording_of(launch));
    }
    return runs;
}

CapturedRun HostFlightRecorder::recording() const {
    if (state_.launches == 0) throw Error("there was no launch", "flight recorder", "call next() for each");
    return recording_of(state_.launches - 1);
}

}  // namespace tilescope
