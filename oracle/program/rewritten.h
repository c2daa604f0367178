#pragma once

#include <utility>
#include <vector>

#include "oracle/program/rewrites.h"

namespace tilescope {

/// A formula in the place of the declared one, for as long as it lives.
class Rewritten {
 public:
    Rewritten(Program& program, const ProgramRewrite& rewrite, Dtype dtype)
        : array_(program.arrays[std::size_t(rewrite.stage)]), declared_(array_), program_(program) {
        (rewrite.is_start ? array_.start : array_.value) = rewrite.value;
        array_.dtype = dtype;
        also_ = rewrite.also;
        exchange_others();
    }
    ~Rewritten() {
        array_ = declared_;
        exchange_others();
    }
    Rewritten(const Rewritten&) = delete;
    Rewritten& operator=(const Rewritten&) = delete;

 private:
    void exchange_others() {
        for (StageFormula& other : also_)
            std::swap(program_.arrays[std::size_t(other.stage)].value, other.value);
    }

    ProgramArray& array_;
    ProgramArray declared_;
    Program& program_;
    std::vector<StageFormula> also_;
};

}  // namespace tilescope
