#pragma once

#include "oracle/explain/explain.h"
#include "oracle/formula/budget_terms.h"
#include "oracle/formula/head_call.h"

namespace tilescope {

/// The estimate of one element, in natural units, and the terms of its error.
struct ExplainedElement {
    double expected = 0;
    double error = 0;
    BudgetTerms terms;
};

/// Of a recording of the backward pass. `call` is that of the first query head that the element is computed
/// from.
ExplainedElement explain_gradient(const Recording& recording, const HeadCall& call,
                                  const ElementPlace& place);

}  // namespace tilescope
