// Functions of the terms of a sum, a maximum or a minimum, and of their factors.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "dump/schema/rounding.h"
#include "oracle/program/curve_words.h"
#include "oracle/program/solved.h"
#include "oracle/solve/factor_function.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

constexpr std::size_t fewest_sums = 8;
constexpr int lowest_bit = 16;
constexpr int highest_bit = 24;

/// A number in each term of a sum, and what it is multiplied with.
class TermSamples {
 public:
    explicit TermSamples(ProgramOp op) : op_(op) {}

    /// Of one of the factors, as it is or before its cast.
    void take_factor(const SumSamples& of, std::size_t factor, bool is_uncast) {
        for (const SumSample& sample : of.samples) {
            if (sample.factors.empty()) break;
            const std::vector<double>& x = (is_uncast ? sample.uncast : sample.factors)[factor];
            std::vector<double> others(x.size(), 1);
            for (std::size_t i = 0; i < sample.factors.size(); ++i) {
                for (std::size_t k = 0; i != factor && k < x.size(); ++k) others[k] *= sample.factors[i][k];
            }
            if (!x.empty()) add(sample, x, others);
        }
    }
    /// Of the whole products.
    void take_terms(const SumSamples& of) {
        for (const SumSample& sample : of.samples) {
            if (sample.factors.empty()) break;
            std::vector<double> terms = sample.factors.front();
            for (std::size_t i = 1; i < sample.factors.size(); ++i) {
                for (std::size_t k = 0; k < terms.size(); ++k) terms[k] *= sample.factors[i][k];
            }
            add(sample, terms, std::vector<double>(terms.size(), 1));
        }
    }

    const std::vector<SumOfProducts>& sums() const { return sums_; }
    double least() const { return least_; }
    double most() const { return most_; }

    bool are_of(const Curve& curve) const {
        std::size_t unexplained = 0;
        for (const SumOfProducts& sum : sums_) {
            const double value = of(sum, curve);
            const double off = sum.error + 4 * u_f32 * std::abs(sum.got);
            if (value == sum.got || std::abs(value - sum.got) <= off) continue;
            if (double(++unexplained) > unexplained_share * double(sums_.size())) return false;
        }
        return true;
    }

 private:
    void add(const SumSample& sample, const std::vector<double>& x, const std::vector<double>& others) {
        SumOfProducts& sum = sums_.emplace_back();
        sum.got = sample.needed;
        sum.error = sample.error;
        for (std::size_t k = 0; k < x.size(); ++k) {
            sum.factors.emplace_back(x[k], others[k]);
            if (!std::isfinite(x[k])) continue;
            least_ = std::min(least_, x[k]);
            most_ = std::max(most_, x[k]);
        }
    }
    double of(const SumOfProducts& sum, const Curve& curve) const {
        const bool is_sum = op_ == ProgramOp::sum;
        double all = is_sum ? 0 : op_ == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
        for (const auto& [x, others] : sum.factors) {
            const double term = curve.of(x) * others;
            all = is_sum ? all + term : op_ == ProgramOp::most ? std::max(all, term) : std::min(all, term);
        }
        return all;
    }

    ProgramOp op_;
    std::vector<SumOfProducts> sums_{};
    double least_ = HUGE_VAL;
    double most_ = -HUGE_VAL;
};

/// Of a maximum the term that it is of is one of these.
std::vector<Curve> functions_of_extreme(const TermSamples& terms) {
    std::array<std::vector<CurvePoint>, 4> points;
    for (const SumOfProducts& sum : terms.sums()) {
        const auto value = [](const auto& factor) { return factor.first; };
        const auto size = [](const auto& factor) { return std::abs(factor.first); };
        const auto [least, most] = std::ranges::minmax_element(sum.factors, {}, value);
        const auto [nearest, farthest] = std::ranges::minmax_element(sum.factors, {}, size);
        std::size_t k = 0;
        for (const auto& one : {least, most, nearest, farthest})
            points[k++].push_back({one->first, sum.error, sum.got, true});
    }
    std::vector<Curve> curves;
    for (const std::vector<CurvePoint>& of_one : points) {
        for (const Curve& curve : curves_through(of_one, factors_of_bases(), "x")) curves.push_back(curve);
    }
    return curves;
}

/// Those that have no number of their own.
std::vector<Curve> usual_functions() {
    std::vector<Curve> curves = casts();
    const auto add = [&](const CurveDomain& domain, const CurveRule& rule) {
        curves.push_back(curve_of(domain, rule, "x"));
    };
    for (const CurveRule& rule : simple_bit_rules()) add({}, rule);
    for (const double slope : {0.0, -1.0, 2.0, 0.5}) {
        CurveRule rule;
        rule.slope = slope;
        for (const auto kind : {CurveDomain::Kind::below, CurveDomain::Kind::above}) add({kind, 0}, rule);
        for (int bit = lowest_bit; bit < highest_bit; ++bit) add({CurveDomain::Kind::bit_set, 0, bit}, rule);
    }
    return curves;
}

const std::vector<Curve>& usual_curves() {
    static const std::vector<Curve> usual = usual_functions();
    return usual;
}

/// Which terms of a maximum were passed through a function, as its results tell.
class PlacesOfFunction {
 public:
    PlacesOfFunction(const SumSamples& of, const Curve& curve, bool is_most)
        : of_(of), curve_(curve), sign_(is_most ? 1 : -1) {}

    /// nullopt: it explains none of what is wrong, or not all.
    std::optional<std::vector<LabelledIndices>> all() {
        for (const std::vector<SumSample>* const samples : {&of_.samples, &of_.right}) {
            for (const SumSample& sample : *samples) {
                if (!take(sample)) return std::nullopt;
            }
        }
        return std::move(places_);
    }

 private:
    /// What is beyond the result is none of its terms, and of what it is one is.
    bool take(const SumSample& sample) {
        const double off = sample.error + 4 * u_f32 * std::abs(sample.needed);
        const auto is_it = [&](double term) { return std::abs(term - sample.needed) <= off; };
        const auto is_beyond = [&](double term) { return sign_ * (term - sample.needed) > off; };
        std::int64_t own = 0;
        std::int64_t passed = 0;
        for (const double term : sample.terms) {
            own += is_it(term) ? 1 : 0;
            passed += is_it(curve_.of(term)) ? 1 : 0;
            if (is_beyond(term) && is_beyond(curve_.of(term))) return false;
        }
        if (own + passed == 0) return false;
        for (std::size_t k = 0; k < sample.terms.size(); ++k) {
            const double term = sample.terms[k];
            const double other = curve_.of(term);
            const bool is_inside = is_beyond(term) || (own == 0 && passed == 1 && is_it(other));
            const bool is_outside = is_beyond(other) || (passed == 0 && own == 1 && is_it(term));
            if (is_inside == is_outside) continue;
            LabelledIndices& place = places_.emplace_back(LabelledIndices{sample.at, is_inside});
            place.at[std::size_t(of_.axis)] = std::int32_t(sample.first + std::int64_t(k));
        }
        return true;
    }

    const SumSamples& of_;
    const Curve& curve_;
    double sign_;
    std::vector<LabelledIndices> places_{};
};

/// What takes the place of a term, and the bits of a guard in it.
struct TermInstead {
    int node = -1;
    double bits = 0;
};

/// The function of the term that is `node`. A maximum passes over what is no number, as what bits of an infinity may leave: it may have to
/// stay what it was. None: it has no words.
std::vector<TermInstead> instead_of(RewriteOffers& offers, ProgramOp op, int node, const Curve& curve,
                                    double least, double most) {
    ProgramBuilder& build = offers.build();
    const std::optional<int> instead = curve_node(build, node, curve, least, most);
    if (!instead) return {};
    std::vector<TermInstead> all{{*instead, 0}};
    const double hidden = op == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
    if (op == ProgramOp::sum || !std::isnan(curve.of(hidden))) return all;
    const int number = build.real(hidden);
    all.push_back({build.chosen(*instead, build.of_two(ProgramOp::unequal, node, number), number), 2});
    return all;
}

/// What so many of the results are that they are hardly terms.
std::optional<double> commonest(const std::vector<SumSample>& samples) {
    std::map<double, std::int64_t> counts;
    for (const SumSample& sample : samples) ++counts[sample.needed];
    const auto best = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    if (best == counts.end() || best->second < fewest_places || !std::isfinite(best->first))
        return std::nullopt;
    return best->first;
}

/// What so many of the results are times one of their terms, or more than it, that it is no chance: a number for both.
std::vector<CurveRule> commonest_lines(const std::vector<SumSample>& samples) {
    constexpr std::size_t most_looked_at = 256;
    constexpr double width = 1e-5;
    std::vector<CurveRule> lines;
    for (const bool is_times : {true, false}) {
        std::vector<double> numbers;
        for (std::size_t i = 0; i < std::min(samples.size(), most_looked_at); ++i) {
            for (const double term : samples[i].terms) {
                const double number = is_times ? samples[i].needed / term : samples[i].needed - term;
                if (std::isfinite(number)) numbers.push_back(number);
            }
        }
        std::ranges::sort(numbers);
        std::size_t most = 0;
        double low = 0;
        double high = 0;
        for (std::size_t first = 0, end = 0; first < numbers.size(); ++first) {
            while (end < numbers.size() && numbers[end] - numbers[first] <= width * std::abs(numbers[first]))
                ++end;
            const bool is_itself = std::abs(numbers[first] - (is_times ? 1 : 0)) <= width;
            if (is_itself || end - first <= most) continue;
            most = end - first;
            low = numbers[first];
            high = numbers[end - 1];
        }
        if (std::ssize(samples) < fewest_places || 4 * most < std::min(samples.size(), most_looked_at))
            continue;
        const double middle = (low + high) / 2;
        const double off = std::max((high - low) / 2, std::ldexp(std::abs(middle), -23));
        const double number = simplest_number(middle, off, factors_of_bases()).value;
        CurveRule rule;
        (is_times ? rule.slope : rule.offset) = number;
        lines.push_back(rule);
    }
    return lines;
}

/// That is none where they are left out.
void offer_functions_in_places(RewriteOffers& offers, const SumSamples& of) {
    const ProgramOp op = offers.program().node(of.node).op;
    if (op == ProgramOp::sum || std::ssize(of.samples) < fewest_places) return;
    const int term = offers.program().node(of.node).of[0];
    std::vector<PlaceNumber> numbers{{of.axis, PlaceNumber::Kind::index}};
    if (offers.program().axes[std::size_t(of.axis)].block >= 0)
        numbers.push_back({of.axis, PlaceNumber::Kind::within});
    for (const PlaceNumber& number : place_numbers(offers.program(), of.axes)) numbers.push_back(number);
    const auto offer = [&](const Curve& curve, double bits, const char* slot) {
        auto places = PlacesOfFunction(of, curve, op == ProgramOp::most).all();
        if (!places || places->empty()) return;
        ProgramBuilder& build = offers.build();
        for (const TermInstead& instead : instead_of(offers, op, term, curve, -HUGE_VAL, HUGE_VAL)) {
            // Where it is, or where it is not.
            for (const auto& [here, elsewhere] :
                 {std::pair(instead.node, term), std::pair(term, instead.node)}) {
                const auto condition = find_condition(offers.samples().call(), build, *places, numbers);
                if (condition)
                    offers.add(of.stage, term, build.chosen(here, condition->node, elsewhere),
                               bits + instead.bits + condition->bits, slot);
                for (LabelledIndices& place : *places) place.is_inside = !place.is_inside;
            }
        }
    };
    CurveRule none;
    none.slope = 0;
    none.offset = op == ProgramOp::most ? -HUGE_VAL : HUGE_VAL;
    offer(curve_of({}, none, "x"), 2, "range");
    for (const Curve& curve : usual_curves())
        offer(curve, bits_of_left_out + bits_of_curve(curve), "function");
    for (const CurveRule& line : commonest_lines(of.samples)) {
        const Curve curve = curve_of({}, line, "x");
        offer(curve, bits_of_left_out + bits_of_curve(curve), "number");
    }
    if (const std::optional<double> number = commonest(of.samples)) {
        none.offset = *number;
        // In the place of the term, or of what is beyond it.
        const auto beyond = op == ProgramOp::most ? CurveDomain::Kind::above : CurveDomain::Kind::below;
        for (const CurveDomain& domain : {CurveDomain(), CurveDomain{beyond, *number}}) {
            const Curve constant = curve_of(domain, none, "x");
            offer(constant, bits_of_left_out + bits_of_curve(constant), "number");
        }
    }
}

/// `node` takes the place of `replaced`, whose number in the terms it is.
void offer_functions_of(RewriteOffers& offers, const SumSamples& of, int replaced, int node,
                        const TermSamples& terms) {
    if (terms.sums().size() < fewest_sums || !std::isfinite(terms.least())) return;
    const bool is_sum = offers.program().node(of.node).op == ProgramOp::sum;
    std::vector<Curve> curves = is_sum ? functions_of_factor(terms.sums(), "x") : functions_of_extreme(terms);
    curves.insert(curves.end(), usual_curves().begin(), usual_curves().end());
    for (const Curve& curve : curves) {
        if (!terms.are_of(curve)) continue;
        for (const TermInstead& instead :
             instead_of(offers, offers.program().node(of.node).op, node, curve, terms.least(), terms.most()))
            offers.add(of.stage, replaced, instead.node,
                       bits_of_left_out + bits_of_curve(curve) + instead.bits, "function");
    }
}

}  // namespace

void offer_functions_of_terms(RewriteOffers& offers, const SumSamples& of) {
    const ProgramOp op = offers.program().node(of.node).op;
    for (std::size_t k = 0; k < of.factors.size(); ++k) {
        const ProgramNode& factor = offers.program().node(of.factors[k]);
        if (factor.is_whole) continue;
        const int uncast = factor.of[0];
        for (const bool is_uncast : {false, true}) {
            if (is_uncast && factor.op != ProgramOp::cast) continue;
            TermSamples terms(op);
            terms.take_factor(of, k, is_uncast);
            offer_functions_of(offers, of, of.factors[k], is_uncast ? uncast : of.factors[k], terms);
        }
    }
    offer_functions_in_places(offers, of);
    const int term = offers.program().node(of.node).of[0];
    if (of.factors.size() < 2) return;
    TermSamples terms(op);
    terms.take_terms(of);
    offer_functions_of(offers, of, term, term, terms);
}

}  // namespace tilescope
