#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording.h"
#include "oracle/program/attention.h"

namespace tilescope {

// What the text of attention is made of: each of its parts writes lines of one program.

/// The unit of scores and maxima: a number in it, times the factors, is a logarithm to the base.
struct ScoreUnit {
    std::vector<std::string> factors{};
    LogBase base = LogBase::e;
};

/// "x * a * b", "x / a / b"
std::string times(std::string x, const std::vector<std::string>& factors);
std::string over(std::string x, const std::vector<std::string>& factors);
/// A number of one unit in another: what both have is left out.
std::string converted(const std::string& x, const ScoreUnit& from, const ScoreUnit& to);

std::string number_text(double number);
/// A factor that is 1 is none.
std::vector<std::string> factor_text(double factor);
/// ": bf16", and nothing for float32.
std::string typed(Dtype dtype);
std::string added_up(Accumulation how);
std::string empty_row_text(EmptyRow row);
/// "exp" or "exp2"; "log" or "log2".
std::string exponential_name(LogBase base);
std::string logarithm_name(LogBase base);

/// Where rows or keys of a shard lie in the whole call: a whole number, the index or what its range makes of it. Numbers in
/// it are sizes, as those of a window are none of a position.
struct PositionText {
    std::string text{};
    std::map<std::string, std::int64_t> sizes{};
};
PositionText position_text(const Positions& positions, const std::string& axis, const std::string& of);
/// Of rows and keys, and of the whole call.
std::map<std::string, std::int64_t> position_sizes(const Problem& problem);

/// An operand as gradients may multiply with it, and what it has been multiplied with itself.
struct GradientOperand {
    std::string name{};
    double scale = 1;
};

/// A part writes lines behind those of the parts before it, and leaves the names that later ones take.
struct AttentionText {
    explicit AttentionText(const Recording& of) : recording(of), p(of.problem()), u(of.units()) {}

    template <class... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text += fmt::format(format, std::forward<Args>(args)...) + "\n";
    }
    bool is_forward() const { return p.direction == Direction::forward; }
    bool is_biased() const { return p.alibi != Alibi::none || recording.has_bias(); }
    bool has_lengths() const {
        const SideInputs& side = recording.side_inputs();
        return !side.seqlens_q.empty() || !side.seqlens_kv.empty();
    }
    std::string kv_head() const { return p.is_interleaved() ? "h % heads_kv" : "h / group"; }

    const Recording& recording;
    const Problem& p;
    const Units& u;
    std::string text{};
    std::string q{};  ///< operands as the products take them
    std::string k{};
    std::string v{};
    std::string descale_of_v{};  ///< name of the input; empty: there is none
    bool v_has_descale = false;  ///< what stands for V is multiplied with it already
    /// Of a backward pass: as they are staged, or as they were before a scale.
    std::string dout{};
    std::vector<GradientOperand> q_in_gradients{};
    std::vector<GradientOperand> k_in_gradients{};
    std::string tangent{};  ///< of the soft cap
    std::string score{};    ///< the score that the softmax takes
    ScoreUnit score_unit{};
    MergedFrom merged_from = MergedFrom::outputs;
};

/// Axes, sizes and inputs; the operands as they are staged.
void write_inputs(AttentionText& to);
void write_operands(AttentionText& to);
/// The score and its unit.
void write_scores(AttentionText& to);
/// From the maxima to the outputs.
void write_softmax(AttentionText& to);
void write_gradients(AttentionText& to);

/// The condition that a key is not hidden; empty: none is.
std::string visible_text(const AttentionText& of);
/// Whether a number stands for hidden scores. A backward pass has none: there P is 0.
bool hides_with_number(const AttentionText& of);
/// How far the maximum may stay behind. Where nothing that depends on it was recorded, the true one serves for any.
struct StaleMax {
    double threshold = 0;
    bool is_shown = true;
};
StaleMax stale_max(const AttentionText& of);
/// The unit of m.
ScoreUnit unit_of_max(const AttentionText& of);

/// exp(x - y) of two numbers, each in its unit, to the base two where either is.
std::string exponential_text(const std::string& x, const ScoreUnit& of_x, const std::string& y,
                             const ScoreUnit& of_y, double log_scale = 0);

/// A stage that is an exponential: what a kernel may flush, or its own function is off by, is left open. `declared`: the
/// stage's name with its axes. `log_scale`: that of a factor in it.
void write_exponential(AttentionText& to, const std::string& declared, const std::string& formula,
                       double log_scale = 0);

/// P before its cast, as it was recorded, and as an operand of its product with V.
struct Probabilities {
    std::string before_cast{};
    std::string operand{};
};
Probabilities name_probabilities(const AttentionText& of);
/// Before its cast; `less`: what its exponent is relative to. Then its cast.
void write_probability(AttentionText& to, const Probabilities& p, const std::string& less,
                       const ScoreUnit& unit);
void write_cast(AttentionText& to, const Probabilities& p);

/// m + log(l), of an m in its unit and of an l with its scale: in the base of m, and in that of lse.
std::string log_sum_exp_text(const AttentionText& of, const std::string& m, const std::string& l);
std::string lse_text(const AttentionText& of, const std::string& m, const std::string& l);

/// l where it is not split into lanes; `state` is written behind a state.
std::string sum_of_row(const AttentionText& of, const std::string& state = "");

}  // namespace tilescope
