#include "oracle/causes/rescaling.h"

#include <cmath>
#include <functional>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

using Rescaling = std::function<void(Estimate& factor)>;

/// `by` of each row's factor. Before the first tile there is nothing to rescale.
Rescaling each_factor(double (*by)(double), double error_of_factor) {
    return [=](Estimate& factor) {
        for (Eigen::Index i = 0; i < factor.value.rows(); ++i) {
            double& value = factor.value(i, 0);
            if (value == 0) continue;
            const double relative = factor.error(i, 0) / value;
            value = by(value);
            factor.error(i, 0) = error_of_factor * relative * value;
        }
    };
}

/// Of the state that it is made in, and where neither was dumped of both, which kernels rescale by one factor.
std::vector<Candidate> rescales(const Evidence& evidence, const Rescaling& rescaling) {
    const Change change{.inputs = [=](SearchedTile& site) { rescaling(site.factor); }};
    std::vector<Candidate> candidates = always(change);
    if (evidence.acts != Stage::l || evidence.observed != Stage::o) return candidates;
    candidates.push_back({{{"of", "l and acc"}}, change});
    candidates.back().change.rescaling = rescaling;
    return candidates;
}

}  // namespace

std::vector<Candidate> not_rescaled(const Evidence& evidence) {
    return rescales(evidence, [](Estimate& factor) {
        factor.value.setOnes();
        factor.error.setZero();
    });
}

std::vector<Candidate> rescaled_inversely(const Evidence& evidence) {
    return rescales(evidence, each_factor([](double x) { return 1 / x; }, 1));
}

std::vector<Candidate> tile_not_rescaled(const Evidence& evidence) {
    if (!evidence.units().p_of_tile_max) return {};
    return always({.inputs = [](SearchedTile& site) {
        const Estimate s = finished_scores(site);
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            const double most = s.value.row(i).maxCoeff();
            if (most == -infinity) continue;
            const double by = std::exp(site.m.value(i, 0) - most);
            for (Estimate* p : {&site.p, &site.operand_p}) {
                p->value.row(i) *= by;
                p->error.row(i) = p->error.row(i) * by + 8 * u_f32 * p->value.row(i);
            }
        }
    }});
}

std::vector<Candidate> not_multiplied_with_l(const Evidence& evidence) {
    if (!evidence.units().acc_normalised) return {};
    return always({.inputs = [](SearchedTile& site) {
        for (Eigen::Index i = 0; i < site.l_before.value.rows(); ++i) {
            const double l = site.l_before.value(i, 0);
            if (!(l > 0)) continue;
            site.before.acc.value.row(i) /= l;
            site.before.acc.error.row(i) /= l;
        }
    }});
}

std::vector<Candidate> rescaled_twice(const Evidence& evidence) {
    return rescales(evidence, each_factor([](double x) { return x * x; }, 2));
}

}  // namespace tilescope
