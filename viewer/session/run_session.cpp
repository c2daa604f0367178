#include "viewer/session/run_session.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "dump/cli/paths.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "oracle/ranks/judge_ranks.h"
#include "oracle/ranks/run_of_ranks.h"
#include "viewer/session/work.h"

namespace tilescope::viewer {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(500);

/// What a folder holds.
struct FolderOfRanks {
    std::vector<std::string> shards;  ///< of its run; empty: it holds one recording, `alone`
    std::string alone;
    std::vector<std::string> beside;  ///< files that are of no run
};

/// Errors: Error where there is no recording, no run and more than one recording, or more than one run.
FolderOfRanks look_into(const std::string& folder) {
    FolderOfRanks found;
    std::string runs;
    int count = 0;
    for (FoundPath& each : find_recordings({folder})) {
        if (!each.wrong.empty()) throw std::runtime_error(each.wrong);
        if (each.shards.empty()) {
            found.beside.push_back(each.path);
            continue;
        }
        ++count;
        runs += fmt::format("{}{}", runs.empty() ? "" : ", ", each.shards.front());
        found.shards = std::move(each.shards);
    }
    if (count > 1)
        throw Error(
            fmt::format("holds {} runs of several ranks, of which {} are the first recordings", count, runs),
            folder, "name a folder that holds one of them");
    if (count == 1) return found;
    if (found.beside.size() > 1)
        throw Error(
            fmt::format("holds {} recordings, of which none say that they are of one run of several ranks",
                        found.beside.size()),
            folder, "name one of them, or two to compare them");
    found.alone = found.beside.front();
    return found;
}

/// Why a file beside a run is not judged.
std::string text_of_file_beside(const std::string& path) {
    try {
        open_recording(path);
        return path + ": is of another run, or of none";
    } catch (const std::exception& error) {
        return one_line(error.what());
    }
}

std::vector<std::string> lines_about(const std::vector<std::string>& files) {
    constexpr std::size_t most = 8;
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < std::min(files.size(), most); ++i)
        lines.push_back(text_of_file_beside(files[i]));
    if (files.size() > most)
        lines.push_back(
            fmt::format("{} more recordings are of another run, or of none", files.size() - most));
    return lines;
}

/// Of the files, and of the folder, which tells that files came and went.
std::vector<FileStamp> stamps_of(const std::vector<std::string>& files, const std::string& folder) {
    std::vector<FileStamp> stamps;
    for (const std::string& file : files) stamps.push_back(stamp_of(file));
    stamps.push_back(stamp_of(folder));
    return stamps;
}

/// Whether the folder holds other recordings of runs than these.
bool holds_others(const std::string& folder, const std::vector<std::string>& files) {
    for (const FoundPath& each : find_recordings({folder}))
        if (!each.shards.empty() && each.shards != files) return true;
    return false;
}

PartLook look_of(const RankReport& report, std::size_t part) {
    const double most = std::numeric_limits<float>::max();
    const double worst = worst_of(report, part);
    return {state_of(report, part), float(worst < most ? worst : most)};
}

}  // namespace

RunSession::RunSession(SessionOptions options) : options_(options) {
    thread_ = std::jthread([this] { work(); });
}

RunSession::~RunSession() {
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
        ++epoch_;
    }
    changed_.notify_all();
}

void RunSession::open(const std::string& folder) {
    const std::scoped_lock lock(mutex_);
    ++epoch_;
    ++version_;
    error_.clear();
    opening_ = folder;
    message_ = "opening " + folder;
    changed_.notify_all();
}

void RunSession::reload() {
    const auto known = document();
    if (known != nullptr) open(known->folder);
}

void RunSession::close() {
    const std::scoped_lock lock(mutex_);
    ++epoch_;
    ++version_;
    opening_.reset();
    document_.reset();
    message_.clear();
}

void RunSession::cancel() {
    const std::scoped_lock lock(mutex_);
    ++epoch_;
    ++version_;
    opening_.reset();
    message_.clear();
}

void RunSession::dismiss_error() {
    const std::scoped_lock lock(mutex_);
    error_.clear();
    ++version_;
}

Status RunSession::status() const {
    const std::scoped_lock lock(mutex_);
    Status status;
    status.message = message_;
    status.progress = progress_;
    status.error = error_;
    status.idle = message_.empty() && !opening_;
    status.gone = gone_;
    return status;
}

std::shared_ptr<const RunDocument> RunSession::document() const {
    const std::scoped_lock lock(mutex_);
    return document_;
}

std::string RunSession::take_alone() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(alone_, {});
}

void RunSession::check(std::uint64_t ticket) const {
    if (epoch_ != ticket) throw Cancelled();
}

void RunSession::say(const std::string& message, double progress, std::uint64_t ticket) {
    const std::scoped_lock lock(mutex_);
    check(ticket);
    message_ = message;
    progress_ = progress;
    ++version_;
}

void RunSession::publish(const std::shared_ptr<const RunDocument>& shown, std::uint64_t ticket) {
    const std::scoped_lock lock(mutex_);
    check(ticket);
    document_ = shown;
    ++version_;
}

void RunSession::work() {
    // What judges must not take the processor from what draws.
    ::setpriority(PRIO_PROCESS, 0, 10);
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        if (!opening_) {
            lock.unlock();
            look_at_files();
            lock.lock();
            changed_.wait_for(lock, between_looks, [&] { return stopping_ || opening_.has_value(); });
            continue;
        }
        const std::string folder = *std::exchange(opening_, std::nullopt);
        const std::uint64_t ticket = epoch_;
        lock.unlock();
        std::string failure;
        try {
            judge_folder(folder, ticket);
        } catch (const Cancelled&) {
        } catch (const std::bad_alloc&) {
            failure =
                "not enough memory; close other programs, or judge the run with tile-diff on a larger "
                "machine";
        } catch (const std::exception& error) {
            failure = one_line(error.what());
        }
        lock.lock();
        if (epoch_ != ticket) continue;
        error_ = failure;
        message_.clear();
        progress_ = 0;
        ++version_;
    }
}

void RunSession::judge_folder(const std::string& folder, std::uint64_t ticket) {
    const std::shared_ptr<RunDocument> opened = open_run(folder, ticket);
    if (opened == nullptr) return;
    publish(std::make_shared<const RunDocument>(*opened), ticket);
    const auto judged = std::make_shared<RunDocument>(*opened);
    try {
        RankReport report = judge_run(opened, ticket);
        for (std::size_t i = 0; i < opened->paths.size(); ++i) judged->looks[i] = look_of(report, i);
        judged->report = std::make_shared<const RankReport>(std::move(report));
    } catch (const Error& error) {
        judged->refused = one_line(error.what());
    }
    publish(judged, ticket);
    if (!judged->refused.empty()) throw std::runtime_error(judged->refused);
}

/// Null where the folder holds one recording of its own.
std::shared_ptr<RunDocument> RunSession::open_run(const std::string& folder, std::uint64_t ticket) {
    static std::atomic<std::uint64_t> generations = 0;
    const FolderOfRanks found = look_into(folder);
    if (!found.alone.empty()) {
        const std::scoped_lock lock(mutex_);
        check(ticket);
        alone_ = found.alone;
        return nullptr;
    }
    auto opened = std::make_shared<RunDocument>();
    opened->folder = folder;
    opened->files = found.shards;
    opened->stamps = stamps_of(opened->files, folder);
    std::vector<std::unique_ptr<Recording>> parts;
    for (const std::string& path : found.shards) {
        check(ticket);
        parts.push_back(open_recording(path));
    }
    opened->run = std::make_shared<const RunOfRanks>(std::move(parts));
    const RunOfRanks* const run = opened->run.get();
    opened->whole = run->whole();
    opened->ranks = run->ranks();
    for (const auto& part : run->parts()) {
        opened->paths.push_back(part->name());
        opened->shards.push_back(part->problem().shard);
    }
    opened->grid = RankGrid(opened->ranks, opened->shards);
    opened->looks.resize(opened->paths.size());
    opened->beside = lines_about(found.beside);
    opened->generation = ++generations;
    return opened;
}

RankReport RunSession::judge_run(const std::shared_ptr<const RunDocument>& opened, std::uint64_t ticket) {
    const RunOfRanks& run = *opened->run;
    const std::string message = "judging " + opened->folder;
    say(message, 0, ticket);
    const double parts = double(opened->paths.size());
    std::atomic<std::size_t> done = 0;
    RankOptions options;
    options.judge.compare = options_.compare;
    options.judge.threads = options_.threads;
    options.judge.progress = [&](std::int64_t blocks, std::int64_t of) {
        check(ticket);
        const double within = double(blocks) / double(std::max<std::int64_t>(of, 1));
        say(message, (double(done) + within) / parts, ticket);
    };
    options.causes.compare = options_.compare;
    options.causes.threads = options_.threads;
    options.search_causes = options_.search_causes;
    options.causes.check = [&] { check(ticket); };
    std::vector<PartLook> looks(opened->paths.size());
    options.judged = [&](const RankReport& so_far, std::size_t part) {
        looks[part] = look_of(so_far, part);
        // Which one is the first is known in the end.
        if (looks[part].state == PartState::first_wrong) looks[part].state = PartState::wrong_too;
        ++done;
        auto shown = std::make_shared<RunDocument>(*opened);
        shown->looks = looks;
        publish(shown, ticket);
    };
    RankReport report = judge_ranks(run, opened->folder, options);
    for (const auto& part : run.parts()) part->require_unchanged();
    return report;
}

/// Whoever writes the recordings may not be done: they are read again once they have stayed the same for a moment.
void RunSession::look_at_files() {
    const auto opened = document();
    if (opened == nullptr) return;
    const std::vector<FileStamp> now = stamps_of(opened->files, opened->folder);
    const bool settled = std::exchange(last_stamps_, now) == now;
    const bool gone = std::ranges::any_of(now, [](const FileStamp& stamp) { return !stamp.exists; });
    {
        const std::scoped_lock lock(mutex_);
        if (gone != gone_) ++version_;
        gone_ = gone;
    }
    if (!settled || gone || now == opened->stamps || now == tried_) return;
    tried_ = now;
    const bool files_changed = !std::equal(now.begin(), now.end() - 1, opened->stamps.begin());
    if (!files_changed && !holds_others(opened->folder, opened->files)) return;
    const std::scoped_lock lock(mutex_);
    // Somebody may have opened another one meanwhile.
    if (opening_ || document_ != opened) return;
    opening_ = opened->folder;
    ++version_;
}

}  // namespace tilescope::viewer
