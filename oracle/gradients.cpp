#include "oracle/gradients.h"

#include <cmath>

#include "oracle/products.h"

namespace tilescope {

Estimate row_delta(const HeadCall& call, const Matrix& dout, const Matrix& o) {
    const Estimate products = sum_of_products(call, Stage::delta, Accumulation::fma_f32, dout, o, true,
                                              Matrix::Zero(dout.rows(), o.rows()));
    return {products.value.diagonal(), products.error.diagonal()};
}

Estimate probability_gradients(const HeadCall& call, const Matrix& dout, const Operand& v) {
    Estimate dp = sum_of_products(call, Stage::dp, call.units.dp_accumulation, dout, v.value, true,
                                  Matrix::Zero(dout.rows(), v.value.rows()));
    if (!call.bounds) return dp;
    if (v.error > 0) add_product(dout.cwiseAbs() * v.error, v.value.cwiseAbs(), true, dp.error);
    // The product of the sum with descale_v.
    if (!call.units.v_dequantised) dp.error += u_f32 * dp.value.cwiseAbs();
    return dp;
}

double ds_roundings(const HeadCall& call) {
    return call.units.p_scale == 1 ? 3 : 5;
}

Estimate score_gradients(const HeadCall& call, const Estimate& p, const Estimate& dp, const Estimate& delta) {
    Estimate ds = zeros(p.value.rows(), p.value.cols());
    const double products = gamma(ds_roundings(call), u_f32) + u_oracle;
    for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
            const double probability = p.value(i, j);
            if (probability == 0 && p.error(i, j) == 0) continue;
            const double difference = dp.value(i, j) - delta.value(i, 0);
            const double value = probability * difference;
            ds.value(i, j) = value;
            if (!call.bounds) continue;
            const double of_difference =
                dp.error(i, j) + delta.error(i, 0) + (u_f32 + u_oracle) * std::abs(difference);
            ds.error(i, j) = std::abs(probability) * of_difference +
                             p.error(i, j) * (std::abs(difference) + of_difference) +
                             products * std::abs(value) + flush_to_zero / call.units.ds_scale;
        }
    }
    return ds;
}

Estimate chain_cap(const Estimate& ds, const Estimate& derivative) {
    Estimate product{ds.value.cwiseProduct(derivative.value), Matrix()};
    product.error = ds.error.cwiseProduct(derivative.value.cwiseAbs() + derivative.error) +
                    ds.value.cwiseAbs().cwiseProduct(derivative.error);
    return product;
}

}  // namespace tilescope
