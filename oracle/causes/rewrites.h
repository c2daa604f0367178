#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oracle/causes/signature.h"
#include "oracle/causes/variables.h"

namespace tilescope {

// Mistakes by name whose change is data: a variable that becomes another number, by an expression of variables.

using Generator = std::function<std::vector<Candidate>(const Evidence&)>;
/// Numbers that var::constant may be.
using Constants = std::function<std::vector<NamedConstant>(const Evidence&)>;

Generator rewrites(std::vector<Rewrite> all);
/// A candidate for each constant, which the parameter says, if it has a name; `is_factor`: see Candidate.
Generator rewrites_with(std::string parameter, Constants constants, std::vector<Rewrite> all,
                        bool is_factor = false);
/// What holds of kernels that declare it, and nothing of others.
Generator where_declared(bool (*declared)(const Evidence&), Generator generate);
/// With a parameter more.
Generator told(CauseParameter parameter, Generator generate, int free_parameters = 0);
Generator all_of(std::vector<Generator> all);

inline Expr number(double value) {
    return Expr::of_real(value);
}
inline Expr larger_of(const Expr& x, const Expr& y) {
    return Expr::of_two(Op::at_least, x, y);
}
/// y where x is not 0, else 0.
inline Expr if_any(const Expr& x, const Expr& y) {
    return Expr::of_two(Op::if_any, x, y);
}

}  // namespace tilescope
