#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dump/schema/dtype.h"
#include "oracle/causes/table.h"
#include "oracle/describe/real.h"
#include "oracle/solve/curve.h"

namespace tilescope {

// From wrong elements to candidates whose change is a function that was read out of them.

/// Whether functions can be read out of the numbers: the stage is dumped itself, and nothing else is known to be
/// wrong with it. On top of another mistake a function would fit too easily.
bool can_be_read(const Evidence& evidence);
/// The same of what is done to results alone, which may be results of another mistake.
bool results_can_be_read(const Evidence& evidence);

/// known_constants() as numbers of a curve.
std::vector<KnownNumber> known_numbers(const Evidence& evidence);

/// What the cast that follows a value on its way to the dump may round off.
double cast_after(const SearchedTile& site, Stage stage, double magnitude);

/// Whether the element is one of those looked at: a few thousand of each kind tell a curve.
class Thinned {
 public:
    explicit Thinned(const Evidence& evidence);
    bool takes(bool wrong) { return wrong ? wrong_++ % wrong_step_ == 0 : right_++ % right_step_ == 0; }

 private:
    std::int64_t wrong_step_ = 1;
    std::int64_t right_step_ = 1;
    std::int64_t wrong_ = 0;
    std::int64_t right_ = 0;
};

/// What a value becomes; where its error leaves open on which side of a step it is, both pass.
Uncertain passed_through(const Curve& curve, Uncertain x);

/// The same of a whole estimate whose elements are x / unit.
void pass_through(const Curve& curve, double unit, Estimate& estimate);

/// Candidates whose numbers are round first: of what explains as much, the simpler one is shown.
struct CurveCandidates {
    std::vector<Candidate> round;
    std::vector<Candidate> others;

    std::vector<Candidate> all() const;
};

/// A candidate for each curve through the points.
void add_curves(const Evidence& evidence, const std::vector<CurvePoint>& points, const std::string& variable,
                const std::function<Change(const Curve&)>& change, CurveCandidates& candidates);

}  // namespace tilescope
