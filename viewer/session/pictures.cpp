// The thread that fills pyramids.

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "oracle/replay/tiles.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

std::string message_of(const Problem& problem, const std::vector<std::pair<Plane, Quantity>>& keys) {
    const auto& [plane, quantity] = keys.front();
    return "computing " + std::string(quantity_info(quantity).name) + " of " +
           std::string(stage_info(problem, plane.stage).name);
}

}  // namespace

std::vector<Session::Work::PictureKey> Session::Work::next_pictures() const {
    // A recording of one head is judged as fast as its pictures could be: they wait for that.
    const Problem& problem = document->problem();
    const bool oracle_waits =
        activities[judging].busy && document->report == nullptr && problem.batch * problem.heads == 1;
    const auto may_run = [&](const auto& entry) {
        const bool needs_oracle = quantity_info(entry.first.second).needs_oracle;
        return entry.second.state == Picture::State::waiting && !(needs_oracle && oracle_waits);
    };
    auto newest = pictures.end();
    for (auto it = pictures.begin(); it != pictures.end(); ++it) {
        if (may_run(*it) && (newest == pictures.end() || it->second.used > newest->second.used)) newest = it;
    }
    if (newest == pictures.end()) return {};
    std::vector<PictureKey> keys = {newest->first};
    if (!quantity_info(newest->first.second).needs_oracle) return keys;
    const Plane& plane = newest->first.first;
    const Reference against = quantity_info(newest->first.second).against;
    for (const auto& entry : pictures) {
        const Plane& other = entry.first.first;
        const bool same_head = other.batch == plane.batch && other.head == plane.head;
        const QuantityInfo& info = quantity_info(entry.first.second);
        const bool same_pass = same_head && info.needs_oracle && info.against == against;
        if (same_pass && may_run(entry) && entry.first != keys.front()) keys.push_back(entry.first);
    }
    return keys;
}

bool Session::Work::step_picturing(std::unique_lock<std::mutex>& lock) {
    if (!shows_recording() || file_written_over) return false;
    const std::vector<PictureKey> keys = next_pictures();
    if (keys.empty()) return false;
    const std::uint64_t ticket = epoch;
    const DocumentPointer of = document;
    std::vector<std::shared_ptr<Pyramid>> pyramids;
    for (const PictureKey& key : keys) {
        pictures.at(key).state = Picture::State::running;
        pyramids.push_back(pictures.at(key).pyramid);
    }
    const QuantityInfo& info = quantity_info(keys.front().second);
    const auto replay = info.against == Reference::replay ? replay_of(keys.front().first.stage) : nullptr;
    activities[picturing] = {true, message_of(document->problem(), keys), 0};
    lock.unlock();
    try {
        if (replay != nullptr) {
            fill_replayed(*of, *replay, keys, pyramids, ticket);
        } else if (info.needs_oracle) {
            fill_judged(*of, keys, pyramids, ticket);
        } else {
            fill_dumped(*of, keys.front().first, *pyramids.front(), ticket);
        }
        for (std::size_t i = 0; i < keys.size(); ++i) {
            set_missing_tiles(*of->recording, of->other_recording.get(), keys[i].first, *pyramids[i]);
            set_unjudged_tiles(*of->recording, keys[i].first, *pyramids[i]);
            pyramids[i]->complete();
        }
        end_pictures(*of, keys, Picture::State::done);
    } catch (const Cancelled&) {
        // What was not given up is taken up again: setting a tile twice changes nothing.
        end_pictures(*of, keys, Picture::State::waiting);
        throw;
    } catch (...) {
        end_pictures(*of, keys, Picture::State::stopped);
        throw;
    }
    return true;
}

void Session::Work::fill_dumped(const Document& of, const Plane& plane, Pyramid& pyramid,
                                std::uint64_t ticket) {
    const Recording& recording = *of.recording;
    const Problem& problem = of.problem();
    const Problem entry = problem_of(problem, recording.side_inputs(), plane.batch);
    const std::vector<TileId> tiles = tiles_of(problem, plane);
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
    std::mutex failing;
    const auto fill = [&] {
        QuantityValues values;
        for (std::size_t i = next++; i < tiles.size() && !failed; i = next++) {
            try {
                if (i % 256 == 0)
                    report_progress(picturing, ticket, std::int64_t(i), std::int64_t(tiles.size()));
                const TileId& tile = tiles[i];
                const TileShape extent = tile_extent(entry, plane.stage, tile);
                if (extent.rows <= 0 || extent.cols <= 0) continue;
                const auto got = load_tile(recording, entry, plane.stage, tile);
                if (!got) continue;
                const TileContext context =
                    observed_context(recording, entry, plane.stage, tile, *got, of.pair());
                values_of({entry, context, *got, nullptr, options.compare}, Quantity::dumped, values);
                const PlaceInPlane corner = corner_of(problem, plane.stage, tile);
                pyramid.set_tile(corner.row, corner.col, got->rows(), got->cols(), values.values,
                                 values.kinds);
            } catch (...) {
                const std::scoped_lock lock(failing);
                if (!failed.exchange(true)) failure = std::current_exception();
            }
        }
    };
    {
        const std::jthread second(fill);
        fill();
    }
    if (failure) std::rethrow_exception(failure);
}

void Session::Work::fill_judged(const Document& of, const std::vector<PictureKey>& keys,
                                const std::vector<std::shared_ptr<Pyramid>>& pyramids, std::uint64_t ticket) {
    const Plane& first = keys.front().first;
    const auto show = [&](const ObservedTile& tile) {
        check(ticket);
        const PlaceInPlane corner = corner_of(of.problem(), tile.context.stage, tile.context.tile);
        QuantityValues values;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if (keys[i].first != corner.plane) continue;
            values_of(tile, keys[i].second, values);
            pyramids[i]->set_tile(corner.row, corner.col, tile.got.rows(), tile.got.cols(), values.values,
                                  values.kinds);
        }
    };
    show_tiles(of, quantity_info(keys.front().second).against,
               judge_options(picturing, ticket, options.threads), first.batch,
               query_heads(of.problem(), first.stage, first.head).first, std::nullopt, show);
}

void Session::Work::show_tiles(const Document& of, Reference against, JudgeOptions judge_with,
                               std::int64_t batch, std::int64_t head, std::optional<std::int64_t> q_block,
                               const ObservedTileFunction& show) {
    if (against == Reference::end_to_end)
        return observe_end_to_end(*of.recording, std::move(judge_with), batch, head, q_block, show);
    judge_with.may_inherit = of.report != nullptr && of.report->guilty.has_value();
    observe_tiles(*of.recording, of.other_recording.get(), std::move(judge_with), batch, head, q_block, show,
                  show);
}

}  // namespace tilescope::viewer
