#include "oracle/judge/work_sharing.h"

#include <new>
#include <numeric>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

// How a reply begins.
constexpr char answered = 'a';
constexpr char failed = 'f';
constexpr char lacks_memory = 'm';

}  // namespace

std::int64_t count_of(std::span<const WorkSharing::Stretch> stretches) {
    const auto add = [](std::int64_t sum, const WorkSharing::Stretch& one) { return sum + one.count; };
    return std::accumulate(stretches.begin(), stretches.end(), std::int64_t(0), add);
}

void WorkSharing::begin(std::span<const Stretch> stretches) {
    agree_on(nullptr, count_of(stretches));
    start(stretches);
}

void WorkSharing::begin(std::int64_t count) {
    const Stretch all{count, everyone};
    begin(std::span(&all, 1));
}

void WorkSharing::answer_with(Answerer answerer) {
    answerer_ = std::move(answerer);
    start_answering();
}

std::string WorkSharing::reply_to(std::string_view question) const noexcept {
    try {
        try {
            return answered + answerer_(question);
        } catch (const Error& error) {
            return failed + std::string(error.what());
        }
    } catch (const std::bad_alloc&) {
        return {lacks_memory};
    } catch (const std::exception&) {
        return {failed};
    }
}

std::string WorkSharing::ask(int process, const std::string& question) {
    std::string reply = send_question(process, question);
    if (reply.front() == lacks_memory) throw std::bad_alloc();
    const bool is_answer = reply.front() == answered;
    reply.erase(0, 1);
    if (!is_answer) throw FailedElsewhere(reply, process);
    return reply;
}

void WorkSharing::blame_who_failed(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const FailedElsewhere& elsewhere) {
        blame(elsewhere.process());
    } catch (...) {
        return;
    }
}

void WorkSharing::fold(const Parts& parts) {
    agree_on(nullptr, of_parts);
    if (processes() > 1) add_up(parts);
}

void WorkSharing::agree_on(const std::exception_ptr& failure, std::int64_t on) {
    if (const std::optional<FailedTogether> first = first_failure(failure, depth_, on))
        throw FailedTogether(*first);
}

Failure caught_failure(std::int64_t piece, const WorkSharing& sharing) {
    Failure failure{piece, sharing.process(), false, {}, std::current_exception()};
    try {
        throw;
    } catch (const std::bad_alloc&) {
        failure.is_of_memory = true;
    } catch (const FailedElsewhere& error) {
        failure.process = error.process();
        failure.line = error.what();
    } catch (const std::exception& error) {
        failure.line = error.what();
    } catch (...) {
        failure.line = "unknown failure";
    }
    return failure;
}

void keep_first_failure(const Failure& failure, Failure& first) {
    if (failure.piece >= 0 && (first.piece < 0 || failure.piece < first.piece)) first = failure;
}

void rethrow(const Failure& failure, WorkSharing& sharing) {
    if (failure.piece < 0) return;
    sharing.blame(failure.process);
    if (failure.thrown) std::rethrow_exception(failure.thrown);
    if (failure.is_of_memory) throw std::bad_alloc();
    throw Error(failure.line);
}

}  // namespace tilescope
