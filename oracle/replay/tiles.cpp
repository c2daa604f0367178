#include "oracle/replay/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "dump/recording/array_shape.h"
#include "dump/recording/visible_tiles.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/vector_kernels.h"
#include "oracle/replay/replay.h"

namespace tilescope {

namespace {

/// Of K or V, read at once: 1 MiB.
constexpr std::int64_t part_elements = std::int64_t(1) << 18;

/// What is declared of one of the operands.
struct OperandUnits {
    bool dequantised;
    double scale;
    Dtype cast;
    const Eigen::VectorXd& descale;
    const Eigen::RowVectorXd& channels;
    Eigen::RowVectorXd taken = {};  ///< channels of k, which q is multiplied with; empty: none

    bool is_descaled(Eigen::Index first, Eigen::Index rows) const {
        return channels.size() > 0 || (descale.segment(first, rows).array() != 1).any();
    }
    /// What no copy is multiplied with beside the descale.
    bool is_scaled() const { return scale != 1 || taken.size() > 0; }
};

OperandUnits units_of(const HeadCall& call, Stage stage) {
    const Units& u = call.units;
    switch (stage) {
        case Stage::q:
            // A sum over channels cannot take them afterwards.
            return {u.q_dequantised, u.q_scale,
                    u.q_cast,        call.q_descale,
                    call.q_channels, u.k_dequantised ? Eigen::RowVectorXd() : call.k_channels};
        case Stage::k:
            return {u.k_dequantised, u.k_scale, u.k_cast, call.k_descale, call.k_channels};
        default:
            return {u.v_dequantised, 1, u.v_cast, call.v_descale, call.v_channels};
    }
}

/// diag(rows) values diag(channels), in place; empty: 1.
void descale_rows_and_channels(const Eigen::VectorXd& rows, const Eigen::RowVectorXd& channels,
                               Matrix& values) {
    values = rows.asDiagonal() * values;
    if (channels.size() > 0) values.array().rowwise() *= channels.array();
}

/// What staging multiplies an operand with.
struct StagingProducts {
    const char* name;
    int roundings;  ///< the scale is one of float64 in the file, and rounded by the kernel
};

StagingProducts products_of(const OperandUnits& units, bool descaled) {
    if (!units.is_scaled()) return {"product with the descale", 1};
    if (!descaled) return {"product with the scale", 2};
    return {"products with descale and scale", 3};
}

/// At least what products that are cast are off by, in natural units.
void add_rounding(const OperandUnits& units, const StagingProducts& products, Operand& operand) {
    double relative = products.roundings == 1 ? u_f32 : gamma(products.roundings, u_f32);
    double absolute = flush_to_zero;
    if (units.cast != Dtype::f32) {
        relative += unit_roundoff(units.cast);
        absolute = half_quantum(units.cast);
    }
    absolute /= units.scale;
    if (units.taken.size() > 0) absolute /= units.taken.cwiseAbs().minCoeff();
    operand.error = std::max(operand.error, relative);
    operand.absolute = std::max(operand.absolute, absolute);
}

/// An element that is no copy.
template <class Error>
Error staged_error(Dtype cast, const StagingProducts& products, double value) {
    const double magnitude = std::abs(value);
    const double unit = products.roundings == 1 ? u_f32 : gamma(products.roundings, u_f32);
    Error error;
    error.add(unit * magnitude, [&] {
        return TermName{products.name, fmt::format("{:.3g} * {:.3g}", unit, magnitude), "IEEE 754"};
    });
    error.add(cast_bound(cast, magnitude * (1 + unit)),
              [&] { return rounding_to(cast, "cast to", magnitude, half_quantum(cast)); });
    error.add_flush_to_zero(flush_to_zero);
    return error;
}

}  // namespace

bool is_needed(const Recording& recording, const Problem& entry, Stage stage, const TileId& tile) {
    if (is_output(stage)) return true;
    if (stage_info(stage).per_kv_tile) return tile_is_seen(recording, entry, tile);
    for (TileId any = tile; any.kv_tile < entry.kv_tiles(); ++any.kv_tile)
        if (tile_is_seen(recording, entry, any)) return true;
    return false;
}

bool takes_part(const Recording& recording, const Problem& entry, std::span<const Stage> stages,
                const TileId& tile) {
    return tile_is_seen(recording, entry, tile) || std::ranges::any_of(stages, [&](Stage stage) {
               return recording.has_stage(stage) && recording.has_tile(stage, tile);
           });
}

std::optional<MatrixF> load_tile(const Recording& recording, const Problem& entry, Stage stage,
                                 const TileId& tile) {
    const TileShape shape = tile_shape(entry, stage);
    const TileShape extent = tile_extent(entry, stage, tile);
    if (extent.rows <= 0 || extent.cols <= 0) return std::nullopt;
    MatrixF whole(shape.rows, shape.cols);
    if (!recording.read_tile(stage, tile, {whole.data(), std::size_t(whole.size())})) return std::nullopt;
    MatrixF values =
        extent == shape ? std::move(whole) : MatrixF(whole.topLeftCorner(extent.rows, extent.cols));
    // Whoever prefills arrays and writes them whole stores tiles that the kernel skipped.
    const auto all_unwritten = [&] {
        return std::all_of(values.data(), values.data() + values.size(), is_unwritten);
    };
    if (!is_named(stage) && all_unwritten() && !is_needed(recording, entry, stage, tile)) return std::nullopt;
    return values;
}

Matrix load_input(const Recording& recording, Input input, std::int64_t batch, std::int64_t head,
                  std::int64_t row, std::int64_t count) {
    MatrixF values(count, input_shape(recording.problem(), input).cols);
    recording.read_input(input, batch, head, row, count, {values.data(), std::size_t(values.size())});
    return values.cast<double>();
}

HeadInputs::Parts::Parts(Input of, std::int64_t keys, std::int64_t cols)
    : input(of),
      part_rows(std::max<std::int64_t>(part_elements / cols, 1)),
      parts(std::size_t((keys + part_rows - 1) / part_rows)) {}

HeadInputs::HeadInputs(const Recording& recording, std::int64_t batch, std::int64_t head_kv)
    : recording_(recording),
      batch_(batch),
      head_kv_(head_kv),
      keys_(problem_of(recording.problem(), recording.side_inputs(), batch).seqlen_kv),
      k_(Input::k, keys_, input_shape(recording.problem(), Input::k).cols),
      v_(Input::v, keys_, input_shape(recording.problem(), Input::v).cols) {}

Matrix HeadInputs::rows(Parts& of, std::int64_t first, std::int64_t count) const {
    Matrix rows(count, input_shape(recording_.problem(), of.input).cols);
    for (std::int64_t done = 0; done < count;) {
        const std::int64_t row = first + done;
        const std::int64_t begin = row / of.part_rows * of.part_rows;
        Part& part = of.parts[std::size_t(row / of.part_rows)];
        std::call_once(part.is_read, [&] {
            MatrixF values(std::min(of.part_rows, keys_ - begin), rows.cols());
            recording_.read_input(of.input, batch_, head_kv_, begin, values.rows(),
                                  {values.data(), std::size_t(values.size())});
            part.rows = std::move(values);
        });
        const std::int64_t here = std::min(count - done, begin + part.rows.rows() - row);
        vector_kernels().widen({&part.rows(row - begin, 0), std::size_t(here * rows.cols())}, &rows(done, 0));
        done += here;
    }
    return rows;
}

std::shared_ptr<const HeadInputs> HeadInputCache::get(std::int64_t batch, std::int64_t head_kv) {
    const std::scoped_lock lock(mutex_);
    std::weak_ptr<const HeadInputs>& known = heads_[{batch, head_kv}];
    if (std::shared_ptr<const HeadInputs> inputs = known.lock()) return inputs;
    auto inputs = std::make_shared<HeadInputs>(recording_, batch, head_kv);
    known = inputs;
    return inputs;
}

StagedOperand staged_operand(const HeadCall& call, Stage stage, std::int64_t first, Matrix raw,
                             bool with_expected) {
    StagedOperand staged;
    if (stage == Stage::dout) {
        // Nothing scales it.
        if (with_expected) staged.expected = {raw, Matrix::Zero(raw.rows(), raw.cols())};
        staged.natural.value = std::move(raw);
        return staged;
    }
    const OperandUnits units = units_of(call, stage);
    const bool descaled = units.is_descaled(first, raw.rows());
    if (with_expected) staged.expected.error.setZero(raw.rows(), raw.cols());
    if (!descaled && !units.is_scaled()) {
        if (with_expected) staged.expected.value = raw;
        staged.natural.value = std::move(raw);
        return staged;
    }
    staged.natural.value = raw;
    descale_rows_and_channels(units.descale.segment(first, raw.rows()), units.channels, staged.natural.value);
    const bool descales = descaled && units.dequantised;
    const bool rounds = descales || units.is_scaled();
    const StagingProducts products = products_of(units, descales);
    if (rounds) add_rounding(units, products, staged.natural);
    if (!with_expected) return staged;
    staged.expected.value = (units.dequantised ? staged.natural.value : raw) * units.scale;
    if (units.taken.size() > 0) staged.expected.value.array().rowwise() *= units.taken.array();
    if (!rounds) return staged;
    staged.expected.error = staged.expected.value.unaryExpr(
        [&](double value) { return staged_error<ErrorSum>(units.cast, products, value).total(); });
    return staged;
}

BudgetTerms operand_terms(const HeadCall& call, Stage stage, std::int64_t first, const Estimate& expected,
                          Eigen::Index row, Eigen::Index col) {
    // Copies round nothing.
    if (expected.error(row, col) == 0) return {};
    const OperandUnits units = units_of(call, stage);
    const bool descales = units.dequantised && units.is_descaled(first, expected.value.rows());
    return staged_error<BudgetTerms>(units.cast, products_of(units, descales), expected.value(row, col));
}

Operand dumped_operand(const HeadCall& call, Stage stage, std::int64_t first, const StagedOperand& staged,
                       const MatrixF& dumped) {
    if (stage == Stage::dout) return {settle(staged.expected, dumped).value, 0};
    const OperandUnits units = units_of(call, stage);
    Matrix value = settle(staged.expected, dumped).value;
    if (units.scale != 1) value /= units.scale;
    if (units.taken.size() > 0) value.array().rowwise() /= units.taken.array();
    if (!units.dequantised)
        descale_rows_and_channels(units.descale.segment(first, value.rows()), units.channels, value);
    return {std::move(value), 0};
}

Operand gradient_operand(const HeadCall& call, Stage stage, const Operand& staged) {
    const OperandUnits units = units_of(call, stage);
    if (!units.is_scaled()) return staged;
    Operand operand = staged;
    add_rounding(units, products_of(units, false), operand);
    if (!staged.is_exact() || !units.dequantised || !units.is_descaled(0, units.descale.size()))
        return operand;
    // The operand before its scale is a product with the descale, and rounded as the dumped one is, on its own.
    const double quantum = units.cast == Dtype::f32 ? flush_to_zero : half_quantum(units.cast);
    operand.error += u_f32 + unit_roundoff(units.cast);
    operand.absolute += quantum;
    return operand;
}

}  // namespace tilescope
