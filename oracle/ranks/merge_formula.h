#pragma once

#include <Eigen/Core>
#include <limits>
#include <span>
#include <string_view>

#include "dump/schema.h"

namespace tilescope {

/// o and lse of one row over some of its keys, in natural units, and how far off each may be.
struct PartialRow {
    Eigen::RowVectorXd o;  ///< [head_dim_v]
    Eigen::RowVectorXd o_error;
    double lse = -std::numeric_limits<double>::infinity();  ///< -inf: no key is seen, and o is 0
    double lse_error = 0;

    bool is_empty() const { return lse == -std::numeric_limits<double>::infinity(); }
};

/// A row over no key.
PartialRow empty_row(Eigen::Index head_dim_v);
/// A row as recorded: without error.
PartialRow exact_row(Eigen::RowVectorXd o, double lse);

/// What becomes of two partial rows: o = a o_a + b o_b.
struct MergeWeights {
    double a = 0;
    double b = 0;
    double lse = 0;
};

/// lse = ln(e^lse_a + e^lse_b), o = e^(lse_a - lse) o_a + e^(lse_b - lse) o_b.
MergeWeights merge_weights(double lse_a, double lse_b);

/// The same of rows over different keys, with what any of the usual float32 formulas may be off by.
/// Types: float64 estimates of float32 rows.
/// Max error: that of `a` and `b`, and oracle/ERROR_BUDGET.md, "Merging".
/// Valid range: every row; NaN where one of them is.
PartialRow merge_rows(const PartialRow& a, const PartialRow& b);

/// A way to merge wrongly.
struct MergeMistake {
    std::string_view name;
    std::string_view says;
    std::string_view look_at;
    /// `merged`: how many steps the first row is merged from. In natural units.
    MergeWeights (*weights)(double lse_a, double lse_b, int merged, LogBase base);
    Dtype kept_in = Dtype::f32;  ///< the type that every log-sum-exp goes through, that of a first step, too
};
std::span<const MergeMistake> merge_mistakes();

/// merge_rows() with other weights. What a row over no key is merged with stays as it is, but for its type.
PartialRow merge_wrongly(const PartialRow& a, const PartialRow& b, int merged, LogBase base,
                         const MergeMistake& mistake);

}  // namespace tilescope
