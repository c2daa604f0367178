#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "oracle/ranks/rank_grid.h"
#include "oracle/ranks/rank_report.h"
#include "oracle/ranks/run_of_ranks.h"
#include "viewer/session/file_stamp.h"
#include "viewer/session/session.h"

namespace tilescope::viewer {

/// How a part of a run came out.
struct PartLook {
    PartState state = PartState::not_judged;
    float worst = 0;  ///< largest |difference| / tolerance; the largest float32 where that is not finite
};

/// The recordings of a call on several ranks, as far as they are judged.
struct RunDocument {
    std::string folder;
    std::vector<std::string> files;  ///< its recordings, sorted
    std::vector<FileStamp> stamps;   ///< of them and of the folder, before they were opened
    std::shared_ptr<const RunOfRanks> run;
    std::vector<std::string> paths;   ///< of each part, in the order of the run
    std::vector<Shard> shards;        ///< of each part
    std::vector<std::string> beside;  ///< what else is in the folder, and is not judged: a line each
    Problem whole;                    ///< of all ranks
    std::int64_t ranks = 0;
    RankGrid grid;
    std::vector<PartLook> looks;               ///< of each part, as far as judged
    std::shared_ptr<const RankReport> report;  ///< null until all of them are
    std::string refused;                       ///< why there will be no report
    std::uint64_t generation = 0;              ///< a number of its own for each opening
};

/// Opens a folder with the recordings of a call on several ranks and judges them as one call, in a thread of its own; reads them
/// again where they are written anew. No function waits for that. Functions are called from one thread.
class RunSession {
 public:
    explicit RunSession(SessionOptions options = {});
    ~RunSession();  ///< cancels
    RunSession(const RunSession&) = delete;
    RunSession& operator=(const RunSession&) = delete;

    /// What was open before stays until the folder can be shown.
    void open(const std::string& folder);
    void reload();
    /// Lets go of the run.
    void close();
    /// A run that was not judged yet stays without a report, until reload().
    void cancel();
    void dismiss_error();

    Status status() const;
    /// Null where none is open.
    std::shared_ptr<const RunDocument> document() const;
    /// The one recording of a folder that held no run, once; "" for none.
    std::string take_alone();
    /// Changes whenever something new can be shown.
    std::uint64_t version() const { return version_; }

 private:
    void work();
    void judge_folder(const std::string& folder, std::uint64_t ticket);
    std::shared_ptr<RunDocument> open_run(const std::string& folder, std::uint64_t ticket);
    RankReport judge_run(const std::shared_ptr<const RunDocument>& opened, std::uint64_t ticket);
    void look_at_files();
    void publish(const std::shared_ptr<const RunDocument>& shown, std::uint64_t ticket);
    void say(const std::string& message, double progress, std::uint64_t ticket);
    void check(std::uint64_t ticket) const;

    const SessionOptions options_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<std::uint64_t> version_ = 0;
    std::atomic<std::uint64_t> epoch_ = 0;  ///< work that began with another number ends
    // Under `mutex_`:
    std::optional<std::string> opening_;
    std::shared_ptr<const RunDocument> document_;
    std::string alone_;
    std::string message_;
    double progress_ = 0;
    std::string error_;
    bool stopping_ = false;

    bool gone_ = false;  ///< a recording is not there any more

    // Of the thread:
    std::vector<FileStamp> last_stamps_;  ///< at its last look
    std::vector<FileStamp> tried_;        ///< that were opened again
    std::jthread thread_;
};

}  // namespace tilescope::viewer
