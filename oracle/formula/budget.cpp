#include "oracle/formula/budget.h"

#include <algorithm>
#include <cmath>

namespace tilescope {

RoundingModel rounding_model(double confidence, const std::array<double, stage_count>& elements,
                             const TensorCore& tensor_core) {
    const auto stages = double(std::ranges::count_if(elements, [](double count) { return count > 0; }));
    RoundingModel model{.tensor_core = tensor_core};
    for (std::size_t i = 0; i < elements.size(); ++i) {
        const double failure = (1 - confidence) / (std::max(stages, 1.0) * std::max(elements[i], 1.0));
        model.lambda[i] = std::sqrt(2 * std::log(2 / failure));
    }
    return model;
}

AccumulationBound accumulation_bound(const RoundingModel& model, Stage stage, Accumulation accumulation) {
    const SumRounding rounding = sum_rounding(model.tensor_core, accumulation);
    return {rounding, model.lambda_of(stage) * rounding.to_nearest};
}

}  // namespace tilescope
