#include "oracle/products.h"

#include <cmath>

#include "oracle/views.h"

namespace tilescope {

bool all_finite(const Matrix& values) {
    return vector_kernels().all_finite({values.data(), std::size_t(values.size())});
}

void add_product(const Matrix& a, const Matrix& b, bool transposed, Matrix& sum) {
    vector_kernels().add_product(view(a), view(b), transposed, view(sum));
}

Estimate sum_of_products(const HeadCall& call, Stage stage, Accumulation accumulation, const Matrix& a,
                         const Matrix& b, bool transposed, Matrix start, double scale, double after) {
    Estimate sum{std::move(start), Matrix::Zero(a.rows(), transposed ? b.rows() : b.cols())};
    if (!call.bounds) {
        add_product(a, b, transposed, sum.value);
        if (scale != 1) sum.value *= scale;
        return sum;
    }
    const AccumulationBound bound = accumulation_bound(call.rounding, stage, accumulation);
    // The root of the squares is at least the sum / sqrt(terms): too short a sum gains nothing by it.
    const double gain = bound.per_partial_sum * std::sqrt(double(a.cols()));
    const bool is_worth_it = bound.per_root_squares > 0 && 1.25 * bound.per_root_squares < gain;
    vector_kernels().sum_of_products(
        view(a), view(b), transposed,
        {.per_partial_sum = bound.per_partial_sum * scale,
         .per_root_squares = is_worth_it ? bound.per_root_squares * scale : 0,
         .per_value = u_oracle + after,
         .constant = bound.underflow * product_unit(call, stage) * double(a.cols()) * scale + flush_to_zero,
         .scale = scale,
         .norm_share = bound.norm_share},
        view(sum.value), view(sum.error));
    if (bound.operand > 0)
        add_product(a.cwiseAbs() * (bound.operand * scale), b.cwiseAbs(), transposed, sum.error);
    return sum;
}

}  // namespace tilescope
