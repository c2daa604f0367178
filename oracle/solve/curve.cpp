#include "oracle/solve/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "oracle/solve/effort.h"
#include "oracle/solve/line.h"

namespace tilescope {

namespace {

using Kind = CurveDomain::Kind;
using Points = std::vector<CurvePoint>;

constexpr std::size_t fewest_points = 6;

std::uint32_t bits_of(double x) {
    return std::bit_cast<std::uint32_t>(float(x));
}

// ---- bits

/// What became of one bit of the wrong numbers of which it is certain.
struct BitCount {
    std::int64_t certain = 0;
    std::int64_t same = 0;
    std::int64_t was_set = 0;
    std::int64_t is_set = 0;
};

BitCount count_bit(const Points& points, int bit) {
    BitCount count;
    for (const CurvePoint& point : points) {
        const std::uint32_t low = bits_of(point.x - 2 * point.error) >> bit;
        if (low != bits_of(point.x + 2 * point.error) >> bit) continue;
        const bool was = low & 1;
        const bool is = bits_of(point.got) >> bit & 1;
        ++count.certain;
        count.same += was == is;
        count.was_set += was;
        count.is_set += is;
    }
    return count;
}

int zeros_at_the_end(const Points& points, double CurvePoint::*number) {
    int zeros = 32;
    for (const CurvePoint& point : points)
        if (point.*number != 0) zeros = std::min(zeros, std::countr_zero(bits_of(point.*number)));
    return zeros;
}

/// Bits that are cleared, set or inverted in every wrong number; the last ones may all be cleared.
std::optional<CurveRule> fitted_bits(const Points& wrong) {
    constexpr std::int64_t enough = 16;
    CurveRule rule;
    rule.is_line = false;
    for (int bit = 31; bit >= 0; --bit) {
        const BitCount count = count_bit(wrong, bit);
        if (count.certain < std::max(enough, std::int64_t(wrong.size() / 4))) break;
        const auto most = std::int64_t(std::ceil(nearly_all * double(count.certain)));
        const std::uint32_t one = std::uint32_t(1) << bit;
        if (count.same >= most) continue;
        if (count.certain - count.is_set >= most) {
            rule.keep &= ~one;
        } else if (count.is_set >= most) {
            rule.set |= one;
        } else if (count.certain - count.same >= most) {
            rule.flip |= one;
        } else {
            return std::nullopt;
        }
    }
    // Digits that are cut off leave zeros; those of a narrow type do so in either direction.
    const auto is_towards_zero = [](const CurvePoint& point) {
        return std::abs(point.got) <= (std::abs(point.x) + 2 * point.error) * (1 + 1e-6);
    };
    const int zeros = zeros_at_the_end(wrong, &CurvePoint::got);
    const bool is_cut = zeros < 32 && zeros >= 8 && zeros > zeros_at_the_end(wrong, &CurvePoint::x);
    if (is_cut && rule.set == 0 && rule.flip == 0 && std::ranges::all_of(wrong, is_towards_zero))
        rule.keep &= ~((std::uint32_t(1) << zeros) - 1);
    if (rule.keep == 0xffffffff && rule.set == 0 && rule.flip == 0) return std::nullopt;
    return rule;
}

/// Of the usual rules those that nearly all points lie on: where what is there was rounded, or computed from the number
/// with the other bits, its own bits do not tell.
std::vector<CurveRule> listed_bits(const Points& wrong) {
    std::vector<CurveRule> rules;
    for (const CurveRule& rule : simple_bit_rules()) {
        const auto most_off = std::int64_t((1 - nearly_all) * double(wrong.size()));
        std::int64_t off = 0;
        for (const CurvePoint& point : wrong)
            if (std::abs(rule.of(point.x) - point.got) > off_by(point, 1) && ++off > most_off) break;
        if (off <= most_off) rules.push_back(rule);
    }
    return rules;
}

// ---- domains

bool splits(const Points& wrong, const Points& right, const CurveDomain& domain) {
    spend(8 * std::ssize(wrong) + 8 * std::ssize(right));
    const auto most_outside = std::int64_t(0.01 * double(wrong.size()));
    std::int64_t outside = 0;
    for (const CurvePoint& point : wrong)
        if (!domain.contains(point.x) && ++outside > most_outside) return false;
    outside = 0;
    return std::ranges::any_of(
        right, [&](const CurvePoint& point) { return !domain.contains(point.x) && ++outside == 4; });
}

/// The bound of the wrong values, as a simple number on the side of the right ones. `value` is of growing
/// distance from them.
std::vector<double> bounds_of(const Points& wrong, const Points& right, const auto& value) {
    std::vector<double> inner;
    for (const CurvePoint& point : wrong) inner.push_back(value(point));
    std::ranges::sort(inner);
    inner.erase(std::unique(inner.begin(), inner.end()), inner.end());
    const double first = inner.front();
    double outer = -std::numeric_limits<double>::infinity();
    for (const CurvePoint& point : right)
        if (const double at = value(point); at < first) outer = std::max(outer, at);
    // Where the mistake is not made everywhere, right values may lie among the wrong ones: then the bound is
    // about as far away as they are from each other.
    const double gap = inner[std::min<std::size_t>(4, inner.size() - 1)] - first;
    // A number of few digits a little further on is likelier, if what is right there is of other places.
    const double far = first - 8 * gap - 0.02 * std::abs(first);
    std::vector<double> bounds;
    for (const double least : {far, std::max(outer, far), first - gap}) {
        if (!(least < first)) continue;
        // Less than the first one, which is within.
        const double half = 0.5 * (first - least);
        const double bound = simplest_number(first - half * (1 + 1e-9), half, {}).value;
        if (std::ranges::find(bounds, bound) == bounds.end()) bounds.push_back(bound);
    }
    return bounds;
}

std::vector<CurveDomain> domains_of(const Points& wrong, const Points& right) {
    std::vector<CurveDomain> domains = {{}};
    const auto add = [&](const CurveDomain& domain) {
        if (splits(wrong, right, domain)) domains.push_back(domain);
    };
    add({Kind::below, 0});
    add({Kind::above, 0});
    for (const double at : bounds_of(wrong, right, [](const CurvePoint& p) { return p.x; }))
        add({Kind::above, at});
    for (const double at : bounds_of(wrong, right, [](const CurvePoint& p) { return -p.x; }))
        add({Kind::below, -at});
    const auto has_signs = [&](double sign) {
        return std::ranges::any_of(wrong, [=](const CurvePoint& p) { return p.x * sign > 0; });
    };
    if (has_signs(1) && has_signs(-1)) {
        for (const double at : bounds_of(wrong, right, [](const CurvePoint& p) { return std::abs(p.x); }))
            add({Kind::beyond, at});
        for (const double at : bounds_of(wrong, right, [](const CurvePoint& p) { return -std::abs(p.x); }))
            add({Kind::within, -at});
    }
    if (wrong.size() < 16) return domains;
    for (int bit = 30; bit >= 16; --bit) add({Kind::bit_set, 0, bit});
    return domains;
}

// ---- text

std::string text_of(const NamedRule& named, const std::string& x) {
    const CurveRule& rule = named.rule;
    if (!rule.is_line) {
        std::string text = fmt::format("bits of {}", x);
        if (rule.keep != 0xffffffff) text += fmt::format(" & {:#010x}", rule.keep);
        if (rule.set != 0) text += fmt::format(" | {:#010x}", rule.set);
        if (rule.flip != 0) text += fmt::format(" ^ {:#010x}", rule.flip);
        return text;
    }
    if (rule.slope == 0)
        return rule.mirrored ? fmt::format("{} with the sign of {}", named.offset, x) : named.offset;
    std::string text = rule.slope == 1 ? x : rule.slope == -1 ? "-" + x : named.slope + " * " + x;
    if (rule.offset == 0) return text;
    const bool minus = named.offset.starts_with('-');
    return text + (minus ? " - " : " + ") + named.offset.substr(minus ? 1 : 0);
}

std::string text_of(const CurveDomain& domain, const std::string& x) {
    switch (domain.kind) {
        case Kind::above:
            return fmt::format("{} > {:.6g}", x, domain.at);
        case Kind::below:
            return fmt::format("{} < {:.6g}", x, domain.at);
        case Kind::within:
            return fmt::format("|{}| < {:.6g}", x, domain.at);
        case Kind::beyond:
            return fmt::format("|{}| > {:.6g}", x, domain.at);
        case Kind::bit_set:
            return fmt::format("bit {} of {} is set", domain.bit, x);
        case Kind::all:
            break;
    }
    return "";
}

/// Whether the curve goes on where its domain ends: then the end is no parameter of its own.
bool is_continuous(const Curve& curve) {
    const bool has_end = curve.domain.kind == Kind::above || curve.domain.kind == Kind::below;
    return has_end && curve.rule.is_line && curve.rule.of(curve.domain.at) == curve.domain.at;
}

std::string formula_of(const Curve& curve, const NamedRule& named, const std::string& x) {
    const Kind kind = curve.domain.kind;
    const CurveRule& rule = curve.rule;
    if (kind == Kind::all) return text_of(named, x);
    const bool at_zero = curve.domain.at == 0 && rule.is_line && rule.offset == 0;
    if (kind == Kind::below && at_zero && rule.slope == -1) return fmt::format("|{}|", x);
    if (kind == Kind::above && at_zero && rule.slope == -1) return fmt::format("-|{}|", x);
    if (is_continuous(curve) && rule.slope == 0)
        return fmt::format("{}({}, {:.6g})", kind == Kind::above ? "min" : "max", x, curve.domain.at);
    return fmt::format("{} where {}", text_of(named, x), text_of(curve.domain, x));
}

// ---- together

/// Moves the end of the domain to where the rule meets the identity, if that is where it may be.
void join_at_end(const Points& wrong, Curve& curve) {
    const CurveRule& rule = curve.rule;
    const bool has_end = curve.domain.kind == Kind::above || curve.domain.kind == Kind::below;
    if (!has_end || !rule.is_line || rule.slope == 1 || curve.domain.at == 0) return;
    CurveDomain joined = curve.domain;
    joined.at = rule.offset / (1 - rule.slope);
    const double size = 0.1 * std::abs(curve.domain.at) + 1e-3;
    const auto in = std::ranges::count_if(wrong, [&](const CurvePoint& p) { return joined.contains(p.x); });
    if (std::abs(joined.at - curve.domain.at) <= size && double(in) >= 0.99 * double(wrong.size()))
        curve.domain = joined;
}

std::int64_t right_points_off(const Points& right, const Curve& curve) {
    return std::ranges::count_if(right, [&](const CurvePoint& point) {
        return std::abs(curve.of(point.x) - point.x) > 2 * off_by(point, 1);
    });
}

Points mirrored(const Points& points) {
    Points all = points;
    for (CurvePoint& point : all) {
        if (point.x >= 0) continue;
        point.x = -point.x;
        point.got = -point.got;
    }
    return all;
}

/// One number in the place of all others, which needs no x that is known well.
std::vector<NamedRule> constant_of(const Points& wrong) {
    const CurvePoint& any = wrong[wrong.size() / 2];
    const auto same = std::ranges::count_if(
        wrong, [&](const CurvePoint& p) { return std::abs(p.got - any.got) <= 1e-6 * std::abs(any.got); });
    if (double(same) < nearly_all * double(wrong.size()) || distinct_values(wrong) < 4) return {};
    const KnownNumber number = simplest_number(any.got, 1e-6 * std::abs(any.got), {});
    if (!number.is_round) return {};
    NamedRule rule;
    rule.rule.slope = 0;
    rule.rule.offset = number.value;
    rule.offset = number.name;
    return {rule};
}

std::vector<NamedRule> rules_of(const Points& wrong, const Points& right,
                                const std::vector<KnownNumber>& known) {
    std::vector<NamedRule> rules = fitted_lines(wrong, known);
    const bool has_both = std::ranges::any_of(wrong, [](const CurvePoint& p) { return p.x > 0; }) &&
                          std::ranges::any_of(wrong, [](const CurvePoint& p) { return p.x < 0; });
    if (rules.empty() && has_both) {
        rules = fitted_lines(mirrored(wrong), known);
        for (NamedRule& rule : rules) rule.rule.mirrored = true;
    }
    const auto fits = [&](const CurveRule& rule) {
        const auto is_on = [&](const CurvePoint& p, double y) {
            return std::abs(rule.of(p.x) - y) <= off_by(p, rule.slope);
        };
        return std::ranges::all_of(wrong, [&](const CurvePoint& p) { return is_on(p, p.got); }) &&
               std::ranges::all_of(right, [&](const CurvePoint& p) { return is_on(p, p.x); });
    };
    // Numbers of one order alone may look as if one number had been added; those of another tell.
    const bool are_lines = !rules.empty();
    if (std::ranges::any_of(rules, fits, &NamedRule::rule)) return rules;
    std::vector<CurveRule> bits;
    if (const auto fitted = fitted_bits(wrong)) bits.push_back(*fitted);
    if (bits.empty()) bits = listed_bits(wrong);
    for (const CurveRule& rule : bits)
        if (!are_lines || fits(rule)) rules.push_back({rule, "", "", 1, true});
    return rules;
}

}  // namespace

double CurveRule::of(double x) const {
    if (grid) return grid->rounded(x);
    if (!is_line) return double(std::bit_cast<float>(((bits_of(x) & keep) | set) ^ flip));
    if (slope == 0) return mirrored ? std::copysign(offset, x * (offset < 0 ? -1 : 1)) : offset;
    return mirrored ? std::copysign(1.0, x) * (slope * std::abs(x) + offset) : slope * x + offset;
}

std::vector<CurveRule> simple_bit_rules() {
    std::vector<CurveRule> rules;
    const auto add = [&](std::uint32_t keep, std::uint32_t set, std::uint32_t flip) {
        CurveRule rule;
        rule.is_line = false;
        rule.keep = keep;
        rule.set = set;
        rule.flip = flip;
        rules.push_back(rule);
    };
    for (int kept = 0; kept <= 8; ++kept) add(0xffffffffu << (23 - kept), 0, 0);
    for (std::uint32_t bits = 1; bits < 16; ++bits) {
        add(0xffffffff, bits << 20, 0);
        add(0xffffffff, 0, bits << 20);
        add(~(bits << 20), 0, 0);
    }
    return rules;
}

Curve curve_of(const CurveDomain& domain, const CurveRule& rule, const std::string& variable) {
    const NamedRule named{rule, fmt::format("{:.6g}", rule.slope), fmt::format("{:.6g}", rule.offset), 1,
                          true};
    Curve curve{domain, rule, 1, true, ""};
    if (rule.is_line)
        curve.parameters = std::max(1, int(rule.slope != 1 && rule.slope != 0) + int(rule.offset != 0));
    curve.parameters += domain.kind != Kind::all && !is_continuous(curve);
    curve.formula = formula_of(curve, named, variable);
    return curve;
}

std::vector<Curve> curves_through(const std::vector<CurvePoint>& points,
                                  const std::vector<KnownNumber>& known, const std::string& variable) {
    Points wrong;
    Points right;
    for (const CurvePoint& point : points) (point.wrong ? wrong : right).push_back(point);
    spend(256 * std::ssize(points));
    if (wrong.size() < fewest_points) return {};
    std::vector<NamedRule> rules = constant_of(wrong);
    if (rules.empty()) {
        // What x may be off by is to be little beside what was made of it.
        const std::size_t uncertain = std::erase_if(wrong, [](const CurvePoint& point) {
            return point.error > 0.25 * std::abs(point.got - point.x);
        });
        if (wrong.size() < std::max(fewest_points, uncertain)) return {};
        rules = rules_of(wrong, right, known);
    }
    std::vector<Curve> curves;
    if (rules.empty()) return curves;
    const std::vector<CurveDomain> domains = domains_of(wrong, right);
    for (const NamedRule& named : rules) {
        for (const CurveDomain& domain : domains) {
            Curve curve{domain, named.rule, named.parameters, true, ""};
            join_at_end(wrong, curve);
            const bool has_step = domain.kind != Kind::all && !is_continuous(curve);
            const bool has_end = domain.kind == Kind::above || domain.kind == Kind::below;
            // A number beyond a bound that it does not meet is what scattered places look like.
            if (has_step && has_end && named.rule.is_line && named.rule.slope == 0 && named.rule.offset != 0)
                continue;
            curve.is_round = named.is_round;
            // Digits that no rule gives are as long as another number.
            curve.parameters += has_step + !named.is_round;
            curve.formula = formula_of(curve, named, variable);
            const bool is_known = std::ranges::any_of(
                curves, [&](const Curve& other) { return other.formula == curve.formula; });
            if (!is_known) curves.push_back(curve);
            // Where it holds for right points as well, a part of the domain says no more.
            if (domain.kind == Kind::all && right_points_off(right, curve) == 0) break;
        }
    }
    return curves;
}

std::vector<Curve> roundings_through(const Points& points, const std::vector<NumberGrid>& known) {
    std::vector<Curve> curves;
    for (const NumberGrid& grid : grids_of(points, known)) {
        CurveRule rule;
        rule.is_line = false;
        rule.grid = grid;
        // Digits that no rule gives are as long as another number.
        curves.push_back({{}, rule, grid.is_round ? 1 : 2, grid.is_round, grid.name});
    }
    return curves;
}

}  // namespace tilescope
