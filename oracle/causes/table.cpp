#include "oracle/causes/cause.h"

namespace tilescope {

const std::vector<Cause>& all_causes() {
    static const std::vector<Cause> causes = [] {
        std::vector<Cause> all;
        for (const auto part :
             {operand_causes, mask_causes, score_causes, bias_causes, layout_causes, max_causes,
              probability_causes, sum_causes, accumulator_causes, output_causes, lse_causes, precision_causes,
              coverage_causes, fragment_causes, place_causes}) {
            for (Cause& cause : part()) all.push_back(std::move(cause));
        }
        return all;
    }();
    return causes;
}

}  // namespace tilescope
