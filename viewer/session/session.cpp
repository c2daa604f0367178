#include "viewer/session/session.h"

#include <algorithm>
#include <utility>

#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

using Lock = std::scoped_lock<std::mutex>;

}  // namespace

Session::Session(SessionOptions options) : work_(std::make_unique<Work>(std::move(options))) {}

Session::~Session() = default;

void Session::open(const std::string& path, const std::string& other) {
    const Lock lock(work_->mutex);
    ++work_->epoch;
    work_->error.clear();
    work_->opening = {path, other, nullptr};
    work_->wake();
}

void Session::open_part(const std::string& path, std::shared_ptr<const Recording> recording) {
    const Lock lock(work_->mutex);
    ++work_->epoch;
    work_->error.clear();
    work_->opening = {path, "", std::move(recording)};
    work_->wake();
}

void Session::reload() {
    const std::shared_ptr<const Document> known = document();
    if (known != nullptr && !known->of_run) open(known->path, known->other);
}

void Session::cancel() {
    const Lock lock(work_->mutex);
    ++work_->epoch;
    work_->opening.reset();
    work_->cancelled = true;
    for (auto& [key, picture] : work_->pictures) {
        if (picture.state != Work::Picture::State::done) picture.state = Work::Picture::State::stopped;
    }
    work_->search_given_up = true;
    for (DetailStore& store : work_->details) store.stop_asking();
    work_->drifts.give_up();
    work_->histograms.give_up();
    work_->stage_values.give_up();
    work_->sheets.give_up();
    work_->sheet_histograms.give_up();
    work_->rows.give_up();
    work_->histories.give_up();
    work_->explanations.give_up();
    work_->writers.give_up();
    work_->wake();
}

void Session::dismiss_error() {
    const Lock lock(work_->mutex);
    work_->error.clear();
    work_->wake();
}

Status Session::status() const {
    const Lock lock(work_->mutex);
    Status status;
    for (const Work::Activity& activity : work_->activities) {
        if (!activity.busy || activity.message.empty()) continue;
        status.message = activity.message;
        status.progress = activity.progress;
        break;
    }
    status.error = work_->error;
    status.searching = work_->is_to_be_searched();
    status.never_searches = !work_->options.search_causes;
    status.idle = work_->idle();
    status.changed = work_->file_changed;
    status.gone = work_->file_gone;
    status.written_over = work_->file_written_over;
    status.settled_changes = work_->settled_changes;
    return status;
}

const FoundCause* Document::cause(std::size_t index) const {
    if (diagnosis == nullptr) return nullptr;
    for (const std::vector<FoundCause>* found : {&diagnosis->causes, &diagnosis->then}) {
        if (index < found->size()) return &(*found)[index];
        index -= found->size();
    }
    return nullptr;
}

std::shared_ptr<const Document> Session::document() const {
    const Lock lock(work_->mutex);
    return work_->document;
}

void Session::choose_cause(std::size_t index) {
    const Lock lock(work_->mutex);
    if (index == work_->chosen_cause) return;
    work_->chosen_cause = index;
    work_->forget_replays();
    work_->wake();
}

std::shared_ptr<const Pyramid> Session::request(const Plane& plane, Quantity quantity) {
    const Lock lock(work_->mutex);
    if (!work_->can_show(plane.stage, quantity)) return nullptr;
    work_->notice(Work::PictureKey{plane, quantity});
    const bool known = work_->pictures.contains({plane, quantity});
    Work::Picture& picture = work_->picture_of(plane, quantity);
    if (!known) work_->wake();
    return picture.pyramid;
}

DetailTiles Session::request_detail(const Plane& plane, Quantity quantity, const Rect& elements) {
    const Lock lock(work_->mutex);
    if (!work_->can_show(plane.stage, quantity)) return {};
    work_->notice(Work::DetailQuestion{{plane, quantity}, elements});
    DetailStore& store = work_->details[static_cast<std::size_t>(quantity_info(quantity).against)];
    const bool waited = store.waiting();
    DetailTiles details = store.ask(work_->document->problem(), plane, quantity, elements);
    if (!waited && store.waiting()) work_->changed.notify_all();
    return details;
}

std::shared_ptr<const RowTrace> Session::request_row(std::int64_t batch, std::int64_t head,
                                                     std::int64_t row) {
    const Lock lock(work_->mutex);
    if (!work_->shows_recording()) return nullptr;
    const RowQuestion question{batch, head, row};
    work_->notice(question);
    auto answer = work_->rows.ask(question);
    if (work_->rows.waiting()) work_->changed.notify_all();
    return answer;
}

std::shared_ptr<const PixelHistory> Session::request_history(const HistoryPlace& place) {
    const Lock lock(work_->mutex);
    if (!work_->shows_recording()) return nullptr;
    work_->notice(place);
    auto answer = work_->histories.ask(place);
    if (work_->histories.waiting()) work_->changed.notify_all();
    return answer;
}

std::shared_ptr<const DriftRows> Session::request_drift(std::int64_t batch, std::int64_t head) {
    const Lock lock(work_->mutex);
    if (!work_->shows_recording() || work_->document->pair()) return nullptr;
    const Work::DriftQuestion question{batch, head};
    work_->notice(question);
    auto answer = work_->drifts.ask(question);
    if (work_->drifts.waiting()) work_->changed.notify_all();
    return answer;
}

std::shared_ptr<const std::string> Session::request_explanation(const std::string& element) {
    const Lock lock(work_->mutex);
    if (work_->document == nullptr || work_->document->pair()) return nullptr;
    work_->notice(element);
    auto answer = work_->explanations.ask(element);
    if (work_->explanations.waiting()) work_->changed.notify_all();
    return answer;
}

std::shared_ptr<const std::vector<ElementWriter>> Session::request_writers(Stage stage, const TileId& tile) {
    const Lock lock(work_->mutex);
    if (!work_->shows_recording() || !work_->document->recording->has_writers(stage)) return nullptr;
    const WritersQuestion question{stage, tile};
    work_->notice(question);
    auto answer = work_->writers.ask(question);
    if (work_->writers.waiting()) work_->changed.notify_all();
    return answer;
}

std::shared_ptr<const Histogram> Session::request_histogram(const Plane& plane, const Rect& elements,
                                                            Reference against) {
    const Lock lock(work_->mutex);
    if (!work_->shows_recording()) return nullptr;
    const HistogramQuestion question{plane, elements, against};
    work_->notice(question);
    auto answer = work_->histograms.ask(question);
    if (work_->histograms.waiting()) work_->changed.notify_all();
    return answer;
}

std::uint64_t Session::version() const {
    return work_->version;
}

}  // namespace tilescope::viewer
