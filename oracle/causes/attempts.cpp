#include "oracle/causes/attempts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>

#include "oracle/causes/in_parallel.h"

namespace tilescope {

namespace {

constexpr std::array<std::string_view, std::size_t(SearchPart::count)> part_names = {
    "the choice of tiles",         "the search for two mistakes",
    "the search for threads",      "the search for places",
    "the search in later stages",  "what tells causes apart",
    "the search for declarations", "the trial of the other recording's cause"};

std::string failed_with(std::string_view part, std::string_view what) {
    return std::string(part) + ": " + std::string(what);
}

}  // namespace

std::string_view name_of(SearchPart part) {
    return part_names[std::size_t(part)];
}

Attempts::Attempts(std::int64_t most, std::function<void()> check,
                   std::function<void(std::string_view)> begins)
    : all_(most), check_(std::move(check)), begins_(std::move(begins)) {}

void Attempts::check() const {
    if (!check_) return;
    try {
        check_();
    } catch (...) {
        throw SearchEnded{std::current_exception()};
    }
}

Attempts::Ended Attempts::attempt(std::string_view part, Effort* effort, const std::function<void()>& work,
                                  std::string& failure) const {
    check();
    if (effort != nullptr && effort->left() == 0) return Ended::cut_off;
    Ended ended = Ended::failed;
    try {
        const Spending spending(effort);
        if (begins_) begins_(part);
        work();
        ended = Ended::whole;
    } catch (const SearchEnded&) {
        throw;
    } catch (const EffortUsedUp&) {
        ended = Ended::cut_off;
    } catch (const std::bad_alloc&) {
        failure = failed_with(part, "not enough memory");
    } catch (const std::exception& error) {
        failure = failed_with(part, error.what());
    } catch (...) {
        failure = failed_with(part, "unknown error");
    }
    // What a thread counts last is added at the end, when nothing stops it any more.
    const bool is_used_up = effort != nullptr && effort->left() == 0;
    return ended == Ended::whole && is_used_up ? Ended::cut_off : ended;
}

void Attempts::note(Ended ended, const std::string& failure) {
    not_whole_ += ended != Ended::whole;
    if (ended == Ended::cut_off) end_.cut_off = true;
    if (ended == Ended::failed) end_.failed.push_back(failure);
}

Effort& Attempts::above() {
    // With what this thread counted last: the shares that are made of it are the same whichever thread does the parts.
    const Spending counted(spending_on());
    return spending_on() != nullptr ? *spending_on() : all_;
}

bool Attempts::one(std::string_view part, double share, const std::function<void()>& work) {
    Effort& above = this->above();
    Effort effort(std::int64_t(share * double(above.left())));
    std::string failure;
    const Ended ended = attempt(part, &effort, work, failure);
    if (ended == Ended::cut_off) effort.use_up();
    above.note(effort.spent());
    note(ended, failure);
    return ended == Ended::whole;
}

bool Attempts::uncounted(SearchPart part, const std::function<void()>& work) {
    std::string failure;
    const Ended ended = attempt(name_of(part), nullptr, work, failure);
    note(ended, failure);
    return ended == Ended::whole;
}

std::vector<bool> Attempts::each(std::size_t count, int threads, double share_of_each, double share_of_all,
                                 const std::function<std::string_view(std::size_t)>& part,
                                 const std::function<bool(std::size_t)>& work) {
    Effort& above = this->above();
    const auto together = std::int64_t(share_of_all * double(above.left()));
    const auto most = std::int64_t(share_of_each * double(above.left()));
    std::vector<Effort> efforts(count);
    std::vector<Ended> ended(count, Ended::cut_off);
    std::vector<std::string> failures(count);
    std::atomic<std::size_t> last = count;  ///< those behind it are not needed
    for (Effort& effort : efforts) effort.comes_after(efforts.data(), most, together);
    in_parallel(count, threads, [&](std::size_t i) {
        if (i > last) return;
        bool is_last = false;
        ended[i] = attempt(
            part(i), &efforts[i], [&] { is_last = work(i); }, failures[i]);
        if (!is_last || ended[i] != Ended::whole) return;
        for (std::size_t before = last; i < before && !last.compare_exchange_weak(before, i);) {}
    });
    std::vector<bool> came_to_end(count, false);
    std::int64_t spent = 0;
    for (std::size_t i = 0; i < count && i <= last; ++i) {
        spent += efforts[i].spent();
        if (spent > together) {
            // Whether those behind it came to their ends is a matter of luck.
            spent = together;
            note(Ended::cut_off, "");
            break;
        }
        note(ended[i], failures[i]);
        came_to_end[i] = ended[i] == Ended::whole;
    }
    above.note(spent);
    return came_to_end;
}

void Attempts::run(const std::function<void()>& search) try { search(); } catch (const SearchEnded& ended) {
    std::rethrow_exception(ended.why);
}

}  // namespace tilescope
