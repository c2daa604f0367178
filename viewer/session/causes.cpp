// Causes are searched in the thread that judges, once it has judged; what their replays hold is asked for in
// the other threads.

#include <mutex>

#include "oracle/causes/suggest.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

bool Session::Work::is_to_be_searched() const {
    if (!options.search_causes || document == nullptr || search_given_up) return false;
    if (document->declared != nullptr) return document->mistakes == nullptr;
    return document->report != nullptr && document->diagnosis == nullptr && !file_written_over;
}

CauseOptions Session::Work::cause_options(std::uint64_t ticket, int threads) const {
    CauseOptions causes;
    causes.compare = options.compare;
    causes.threads = threads;
    causes.check = [this, ticket] { check(ticket); };
    return causes;
}

bool Session::Work::step_searching(std::unique_lock<std::mutex>& lock) {
    if (!is_to_be_searched()) return false;
    const std::uint64_t ticket = epoch;
    const DocumentPointer judged = document;
    activities[judging] = {true, "looking for the cause in " + judged->path, 0};
    lock.unlock();
    try {
        auto diagnosed = std::make_shared<Document>(*judged);
        if (judged->declared != nullptr) {
            diagnosed->mistakes =
                std::make_shared<const FoundMistakes>(find_declared_mistakes(*judged, ticket));
        } else {
            const CauseOptions causes = cause_options(ticket, options.threads);
            Diagnosis diagnosis = causes_and_declarations(*judged->recording, *judged->report, causes);
            diagnosed->diagnosis = std::make_shared<const Diagnosis>(std::move(diagnosis));
        }
        lock.lock();
        check(ticket);
        document = diagnosed;
    } catch (const Cancelled&) {
        throw;
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        search_given_up = true;
        throw;
    }
    return true;
}

std::shared_ptr<const FoundCause> Session::Work::replay_of(Stage stage) const {
    const FoundCause* cause = document != nullptr ? document->cause(chosen_cause) : nullptr;
    const bool shows = cause != nullptr && cause->changes != nullptr && cause->observed == stage;
    return shows ? std::shared_ptr<const FoundCause>(document, cause) : nullptr;
}

bool Session::Work::can_show(Stage stage, Quantity quantity) const {
    if (!shows_recording() || !document->recording->has_stage(stage)) return false;
    const Reference against = quantity_info(quantity).against;
    if (against == Reference::end_to_end) return !document->pair();
    return against == Reference::local || replay_of(stage) != nullptr;
}

void Session::Work::forget_replays() {
    ++replay_epoch;
    std::erase_if(pictures, [](const auto& entry) {
        return quantity_info(entry.first.second).against == Reference::replay;
    });
    details[std::size_t(Reference::replay)].clear();
}

void Session::Work::fill_replayed(const Document& of, const FoundCause& replay,
                                  const std::vector<PictureKey>& keys,
                                  const std::vector<std::shared_ptr<Pyramid>>& pyramids,
                                  std::uint64_t ticket) {
    const std::uint64_t replay_ticket = replay_epoch;
    const Plane& first = keys.front().first;
    CauseOptions causes = cause_options(ticket, options.threads);
    causes.check = [this, ticket, replay_ticket] {
        check(ticket);
        if (replay_epoch != replay_ticket) throw Cancelled();
    };
    observe_replayed(*of.recording, *of.report, replay, causes, first.batch, first.head, std::nullopt,
                     [&](const ObservedTile& tile) {
                         constexpr double whole = 1000;
                         report_progress(picturing, ticket, std::int64_t(whole * pyramids.front()->filled()),
                                         std::int64_t(whole));
                         const PlaceInPlane corner =
                             corner_of(of.problem(), tile.context.stage, tile.context.tile);
                         QuantityValues values;
                         for (std::size_t i = 0; i < keys.size(); ++i) {
                             if (keys[i].first != corner.plane) continue;
                             values_of(tile, keys[i].second, values);
                             pyramids[i]->set_tile(corner.row, corner.col, tile.got.rows(), tile.got.cols(),
                                                   values.values, values.kinds);
                         }
                     });
}

}  // namespace tilescope::viewer
