#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "dump/recording.h"
#include "oracle/remote/questions.h"

namespace tilescope {

/// Answers what other processes ask of the recordings on this one's disk.
class RecordingServer {
 public:
    /// `is_tried`: as open_tried_recording() opens it.
    using Open = std::function<std::shared_ptr<const Recording>(const std::string& path, bool is_tried)>;
    explicit RecordingServer(Open open) : open_(std::move(open)) {}

    /// From any thread. Errors: Error as the recording throws it.
    std::string answer(std::string_view question);

 private:
    RecordingFacts open(const Question& question);
    std::shared_ptr<const Recording> opened(std::int64_t number);

    Open open_;
    std::mutex mutex_;  ///< of what is below
    std::map<std::int64_t, std::shared_ptr<const Recording>> recordings_;
    std::map<std::string, std::weak_ptr<const Recording>> by_path_;  ///< many ask for the same
    std::int64_t next_ = 0;
};

}  // namespace tilescope
