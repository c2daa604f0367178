#pragma once

#include <Eigen/Core>
#include <functional>
#include <limits>
#include <string>

#include "dump/recording.h"
#include "dump/schema.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/estimate.h"

namespace tilescope {

/// One query head of one batch entry, with everything that its formulas take beside the tiles themselves.
struct HeadCall {
    Problem problem;  ///< with the entry's own sequence lengths
    Units units;
    RoundingModel rounding;
    bool bounds = true;  ///< false: values alone, errors mean nothing
    double alibi_slope = 0;
    double sink = -std::numeric_limits<double>::infinity();
    Eigen::VectorXd q_descale;  ///< [seqlen_q]
    Eigen::VectorXd k_descale;  ///< [seqlen_kv]
    Eigen::VectorXd v_descale;  ///< [seqlen_kv]
    // Beside these, where descales are by channel; empty: 1.
    Eigen::RowVectorXd q_channels;  ///< [head_dim]
    Eigen::RowVectorXd k_channels;  ///< [head_dim]
    Eigen::RowVectorXd v_channels;  ///< [head_dim_v]
    /// Fills a tile of the bias, from its first row and key; empty where the call has no bias.
    std::function<void(std::int64_t row, std::int64_t key, MatrixF& tile)> read_bias;
    /// Keys that a q row sees, in the tile that begins at a key; empty: those of visible_keys().
    std::function<KeyRange(std::int64_t row, std::int64_t first_key)> visible;
    double alibi_shift = 0;  ///< columns to the right that the diagonal of ALiBi is off by

    KeyRange visible_to(std::int64_t row, std::int64_t first_key) const {
        return visible ? visible(row, first_key) : visible_keys(problem, row);
    }
    /// Whether every row sees every key: none has to be asked.
    bool sees_all() const {
        return !visible && problem.mask == Mask::none && problem.window_left < 0 && problem.window_right < 0;
    }
    bool capped() const { return problem.logits_soft_cap != 0; }
    bool biased() const { return problem.alibi != Alibi::none || read_bias != nullptr; }
};

/// The rounding model of a recording: every element of its stages may be compared.
RoundingModel rounding_model_of(const Recording& recording, double confidence);

HeadCall make_head_call(const Recording& recording, const RoundingModel& rounding, std::int64_t batch,
                        std::int64_t head);

/// exp_argument_bound() of this call's exponential. A kernel that keeps raw scores multiplies them with
/// sm_scale and the descales in the argument.
ExpArgumentBound exp_argument_bound(const HeadCall& call);

/// Whether what is left of sm_scale beside the scales of q and k is a number of its own, which the kernel rounds.
bool has_rest_of_scale(const HeadCall& call);

/// Roundings of the product that turns a sum into a score: with sm_scale, or with what is left of it, and descales.
double scale_roundings(const HeadCall& call);

/// The largest factor that turns the kernel's own sum of products (of s or acc) into natural units: the
/// scales and descales that it applies after the sum.
double product_unit(const HeadCall& call, Stage stage);

/// What turns natural units into those of the dump: natural * at(row, col) is what the dump holds.
struct DumpFactor {
    double scalar = 1;
    Eigen::VectorXd row;  ///< of the tile; empty: 1
    Eigen::VectorXd col;

    bool is_one() const { return scalar == 1 && row.size() == 0; }
    double at(Eigen::Index i, Eigen::Index j) const {
        return row.size() == 0 ? scalar : scalar * row(i) * col(j);
    }
};

/// What P is multiplied with before its cast, R x N: p_scale, and descale_v of its key where that is declared.
DumpFactor operand_factor_of_p(const HeadCall& call, std::int64_t first_key, std::int64_t rows,
                               std::int64_t cols);

/// Of a tile of rows x cols elements, from its first q row and key. Natural units: scores after sm_scale, of
/// dequantised operands, logarithms to base e, P without p_scale.
DumpFactor dump_factor(const HeadCall& call, Stage stage, std::int64_t first_row, std::int64_t first_key,
                       std::int64_t rows, std::int64_t cols);

/// Throws Error(where) for a combination that no formula is known for.
void require_known_semantics(const Recording& recording);

}  // namespace tilescope
