#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/hook/stage.h"

namespace tilescope::bench {

/// One recording with a known fault, judged.
struct CauseCase {
    std::string plant;
    std::string where;                ///< input, shape and seed, or the file
    std::vector<Stage> stages;        ///< of which each is right; empty: none is
    std::vector<std::string> causes;  ///< of which each is right; empty: the cause is not asked for
    bool changed = true;              ///< whether the fault changed a dumped element
    bool diverged = false;
    std::string guilty;              ///< stage; empty: none
    std::vector<std::string> named;  ///< causes that share the first rank
    std::vector<std::string> later;  ///< the others
    std::string told;                ///< the first cause, with its numbers and its place; empty: none
    bool cut_off = false;            ///< the search did not come to its end: what it named counts as none
    std::string error;

    bool stage_right() const;
    bool cause_right() const;
    /// Wrong in what was asked of it.
    bool is_missed() const { return !stage_right() || (!causes.empty() && !cause_right()); }
    /// What the confusion matrix counts: the right cause, the first one named, or why there is none.
    std::string answer() const;
};

struct Rate {
    std::int64_t of = 0;
    std::int64_t right = 0;
    double share() const { return of == 0 ? 0 : double(right) / double(of); }
};

/// Cases whose fault changed something, by plant in the order of their first case.
class CauseTally {
 public:
    explicit CauseTally(std::string title) : title_(std::move(title)) {}
    void add(CauseCase result);
    /// Rates by plant, the confusion matrix, and up to `misses` of the cases that went wrong.
    void print(int misses) const;
    std::string to_json() const;

 private:
    struct Row {
        std::int64_t cases = 0;
        std::int64_t changed = 0;
        std::int64_t diverged = 0;
        Rate stage;
        Rate cause;
        std::int64_t tied = 0;
        std::int64_t cut_off = 0;
        std::map<std::string, std::int64_t> answers;
    };
    Row total() const;
    void print_misses(int misses) const;

    std::string title_;
    std::vector<std::string> order_;
    std::map<std::string, Row> rows_;
    std::vector<CauseCase> missed_;
};

}  // namespace tilescope::bench
