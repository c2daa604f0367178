#include "oracle/judge/work_sharing.h"

#include <new>

#include "dump/schema/error.h"

namespace tilescope {

void WorkSharing::begin(std::int64_t count) {
    agree_on(nullptr, count);
    start(count);
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
