#include "oracle/causes/rescaling.h"

#include <cmath>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// `by` of each row's factor. Before the first tile there is nothing to rescale.
Change rescales(double (*by)(double), double error_of_factor) {
    return {.inputs = [=](SearchedTile& site) {
        for (Eigen::Index i = 0; i < site.factor.value.rows(); ++i) {
            double& value = site.factor.value(i, 0);
            if (value == 0) continue;
            const double relative = site.factor.error(i, 0) / value;
            value = by(value);
            site.factor.error(i, 0) = error_of_factor * relative * value;
        }
    }};
}

}  // namespace

std::vector<Candidate> not_rescaled(const Evidence&) {
    return always({.inputs = [](SearchedTile& site) {
        site.factor.value.setOnes();
        site.factor.error.setZero();
    }});
}

std::vector<Candidate> rescaled_inversely(const Evidence&) {
    return always(rescales([](double x) { return 1 / x; }, 1));
}

std::vector<Candidate> rescaled_twice(const Evidence&) {
    return always(rescales([](double x) { return x * x; }, 2));
}

}  // namespace tilescope
