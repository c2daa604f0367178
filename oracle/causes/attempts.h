#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/judge/diagnosis.h"
#include "oracle/solve/effort.h"

namespace tilescope {

/// What CauseOptions::check threw: it ends the search, and no attempt takes it for its own failure.
struct SearchEnded {
    std::exception_ptr why;
};

/// Parts of a search beside the causes of the table, which go by their own names.
enum class SearchPart : std::uint8_t {
    evidence,      ///< the tiles that diverge, and others to hold against them
    pairs,         ///< two mistakes of one stage
    threads,       ///< that own what is wrong
    places,        ///< of what is wrong
    later_stages,  ///< that diverge by themselves
    ties,          ///< what tells causes apart that explain as much
    declarations,  ///< what the recording would have to declare besides
    prediction,    ///< the cause of another recording
    count
};
/// "the search for two mistakes"
std::string_view name_of(SearchPart part);

/// The parts of the searches of one recording. What fails in one of them, or does not end within the work that it may do,
/// costs what that part would have found and nothing else. Where they end depends on the recording alone: parts side by side
/// count in their order, whatever the order in which threads come to them.
class Attempts {
 public:
    /// `most`: units of work of all of them. `check` may throw to end the search; `begins` is told each part as it begins.
    Attempts(std::int64_t most, std::function<void()> check, std::function<void(std::string_view)> begins);

    /// Does all of the search. Errors: what `check` throws.
    void run(const std::function<void()>& search);

    /// Errors: SearchEnded.
    void check() const;

    /// Does the part with a share of the work that is left. Whether it came to its end. Errors: SearchEnded.
    bool one(std::string_view part, double share, const std::function<void()>& work);
    bool one(SearchPart part, double share, const std::function<void()>& work) {
        return one(name_of(part), share, work);
    }
    /// The same of what takes little by itself: only the parts within it count.
    bool uncounted(SearchPart part, const std::function<void()>& work);

    /// Parts side by side, in order of what is likely: work(i) for each i below `count`, with a share of what is left for each
    /// and for all. It says whether those behind it are needed no more. Which of them came to their end.
    std::vector<bool> each(std::size_t count, int threads, double share_of_each, double share_of_all,
                           const std::function<std::string_view(std::size_t)>& part,
                           const std::function<bool(std::size_t)>& work);

    /// How they ended so far.
    const SearchEnd& end() const { return end_; }
    /// Units of work that are left.
    std::int64_t left() const { return all_.left(); }
    /// Parts that did not come to their end.
    std::int64_t not_whole() const { return not_whole_; }

 private:
    enum class Ended : std::uint8_t { whole, cut_off, failed };

    Ended attempt(std::string_view part, Effort* effort, const std::function<void()>& work,
                  std::string& failure) const;
    void note(Ended ended, const std::string& failure);
    Effort& above();

    Effort all_;
    std::function<void()> check_;
    std::function<void(std::string_view)> begins_;
    SearchEnd end_;
    std::int64_t not_whole_ = 0;
};

}  // namespace tilescope
