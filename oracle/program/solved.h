#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "oracle/program/formula_samples.h"
#include "oracle/program/rewrites.h"
#include "oracle/program/searched_call.h"

namespace tilescope {

/// Rewrites of the formula of the wrong stage, and of those before it, that are solved for, from what its parts must have held: indices by vote, functions by fit,
/// weights of terms by least squares, conditions by the places at which they must have held; the shortest first.
class SolvedRewrites {
 public:
    explicit SolvedRewrites(SearchedCall& searched);
    SolvedRewrites(const SolvedRewrites&) = delete;
    SolvedRewrites& operator=(const SolvedRewrites&) = delete;

    std::vector<ProgramRewrite> all() const;
    /// Those that explain every other one of some places: of two mistakes the one that is made there, where the other is not.
    std::vector<ProgramRewrite> of_halves() const;

 private:
    void add_halves(const PlaceNumber& number, std::vector<ProgramRewrite>& found) const;

    SearchedCall& searched_;
    FormulaSamples samples_;
    // What the samples are taken from has to stay.
    std::deque<TileRun> runs_;
    std::deque<ObserveTile> observers_;
};

/// Rewrites that explain what is known of a part of a formula, as they are offered.
class RewriteOffers {
 public:
    RewriteOffers(Program& program, const FormulaSamples& samples) : program_(program), samples_(samples) {}

    const FormulaSamples& samples() const { return samples_; }
    ProgramBuilder& build() { return build_; }
    const Program& program() const { return program_; }
    std::vector<PlaceNumber> numbers_of(const NodeSamples& of) const {
        return place_numbers(program_, of.axes, of.by_block);
    }

    /// `instead` stands where the node does; `values`: of each sample. Where it would break what is right a condition is looked for: of
    /// the place, or of what the node is.
    void offer(const NodeSamples& of, int instead, const std::vector<double>& values, double bits,
               const char* slot);
    /// The same, where it breaks nothing.
    void offer_everywhere(const NodeSamples& of, int instead, const std::vector<double>& values, double bits,
                          const char* slot);
    /// What a state is before the first block, without being held against the samples.
    void add_start(int stage, int instead, double bits);
    /// Without being held against the samples.
    void add(int stage, int node, int instead, double bits, const char* slot);

    std::vector<ProgramRewrite> take() { return std::move(found_); }

 private:
    /// Places of samples that the values tell apart; nullopt: they do not explain what is wrong.
    struct Outcome {
        std::vector<LabelledIndices> places;
        bool breaks_nothing = false;
    };
    static std::optional<Outcome> outcome_of(const NodeSamples& of, const std::vector<double>& values);

    Program& program_;
    ProgramBuilder build_{program_};
    const FormulaSamples& samples_;
    std::vector<ProgramRewrite> found_;
};

/// Each of them for one part of the formula.
void offer_functions(RewriteOffers& offers, const NodeSamples& of);
void offer_operands(RewriteOffers& offers, const NodeSamples& of);
void offer_conditions(RewriteOffers& offers, const NodeSamples& of);
void offer_comparisons_of_reals(RewriteOffers& offers, const NodeSamples& of);
void offer_indices(RewriteOffers& offers, const NodeSamples& of);
void offer_flat_reads(RewriteOffers& offers, const NodeSamples& of);
void offer_tile_maps(RewriteOffers& offers, const NodeSamples& of);
void offer_weights(RewriteOffers& offers, const SumSamples& of);
void offer_casts_of_some(RewriteOffers& offers, const SumSamples& of);
void offer_bounds(RewriteOffers& offers, const SumSamples& of);
void offer_functions_of_terms(RewriteOffers& offers, const SumSamples& of);

/// Comparisons that may stand in the place of another one, and another number in them.
inline constexpr std::array<ProgramOp, 6> all_comparisons = {ProgramOp::less,  ProgramOp::at_most,
                                                             ProgramOp::more,  ProgramOp::at_least,
                                                             ProgramOp::equal, ProgramOp::unequal};
inline constexpr double bits_of_other_comparison = 2.5;
inline constexpr double bits_of_other_number = 6;
/// In the formulas: a number, that it is 0, and one that has more than a few digits.
inline constexpr double bits_of_real = 8;
inline constexpr double bits_of_zero = 5;
inline constexpr double bits_of_left_out = 3;
inline constexpr double bits_of_type = 4;
inline constexpr double bits_of_real_that_is_not_round = 16;
/// Of the places that are wrong, that a rewrite may leave unexplained; fewer places tell nothing.
inline constexpr double unexplained_share = 0.02;
inline constexpr std::int64_t fewest_places = 4;

}  // namespace tilescope
