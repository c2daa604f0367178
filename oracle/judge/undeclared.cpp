#include "oracle/judge/undeclared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "dump/schema/semantics.h"
#include "oracle/formula/budget.h"
#include "oracle/judge/tally_bytes.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Natural units by which a score is so far below the maximum that exp(s - m) is 0 in float32: the smallest
/// subnormal is 2^-149.
constexpr double p_is_zero = 104;

/// Where a row sees no recorded score, what no score is: kernels that mask with a number take -1e4 or less.
constexpr float no_score = -1e4f;

bool is_held(Dtype dtype, float value) {
    return decode(dtype, encode(dtype, value)) == value;
}

/// What one in natural units is in the dump's s: the scale of products and log2(e), where they are in it.
double unit_of_scores(const Recording& recording) {
    const Units& units = recording.units();
    return (units.s_scaled ? 1 : 1 / product_scale(recording.problem(), units)) *
           (units.s_log_base == LogBase::two ? std::numbers::log2e : 1);
}

bool is_folded(const FoldedScale& fold, float got, double q) {
    const double value = q * fold.factor;
    const double error = unit_roundoff(fold.dtype) * std::abs(value) + half_quantum(fold.dtype);
    return is_held(fold.dtype, got) &&
           std::abs(double(got) - value) <= error * (1 + 0x1p-10) + u_f32 * std::abs(value);
}

/// Whether every element of the recorded tiles fits.
bool is_folded(const Recording& recording, const FoldedScale& fold) {
    const bool is_q = fold.stage == Stage::q;
    std::int64_t seen = 0;
    for (std::int64_t i = 0; i < tile_count(recording.problem(), fold.stage); ++i) {
        const TileId tile = tile_at(recording.problem(), fold.stage, i);
        if (!recording.may_hold(tile)) continue;
        const Problem entry = problem_of(recording.problem(), recording.side_inputs(), tile.batch);
        if (tile_extent(entry, fold.stage, tile).rows <= 0) continue;
        const std::optional<MatrixF> got = load_tile(recording, entry, fold.stage, tile);
        if (!got) continue;
        const Matrix operand = is_q ? load_input(recording, Input::q, tile.batch, tile.head,
                                                 tile.q_block * entry.block_m, got->rows())
                                    : load_input(recording, Input::k, tile.batch, entry.head_kv(tile.head),
                                                 tile.kv_tile * entry.block_n, got->rows());
        for (Eigen::Index e = 0; e < operand.size(); ++e) {
            if (is_unwritten(got->data()[e]) || !is_folded(fold, got->data()[e], operand.data()[e]))
                return false;
            seen += operand.data()[e] != 0;
        }
    }
    return seen > 0;
}

}  // namespace

std::optional<FoldedScale> folded_scale(const Recording& recording, Stage stage) {
    const Problem& p = recording.problem();
    const Units& units = recording.units();
    const SideInputs& side = recording.side_inputs();
    const bool is_q = stage == Stage::q;
    const bool is_declared = (is_q ? units.q_scale : units.k_scale) != 1;
    if (!(is_q ? side.descale_q : side.descale_k).empty() || is_declared || !recording.has_stage(stage))
        return std::nullopt;
    for (const double factor : staged_scales(p)) {
        for (const Dtype dtype : {is_q ? p.dtype_q : p.dtype_k, Dtype::f16, Dtype::bf16, Dtype::f32}) {
            const FoldedScale fold{stage, factor, dtype};
            if (factor != 1 && is_folded(recording, fold)) return fold;
        }
    }
    return std::nullopt;
}

DeclaredView::DeclaredView(const Recording& of, const std::vector<FoldedScale>& folded)
    : RecordingView(of), units_(of.units()) {
    for (const FoldedScale& fold : folded) {
        (fold.stage == Stage::q ? units_.q_scale : units_.k_scale) = fold.factor;
        (fold.stage == Stage::q ? units_.q_cast : units_.k_cast) = fold.dtype;
    }
}

bool DeclaredView::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    if (!of().read_tile(stage, tile, out)) return false;
    if (stage == Stage::s && units().s_masked && !masks_with_number(units())) restore_mask(tile, out);
    return true;
}

const std::vector<float>& DeclaredView::visible_maxima(const TileId& q_block) const {
    const TileId block{q_block.batch, q_block.head, q_block.q_block, 0};
    constexpr std::size_t most_blocks = 1024;
    const auto known = maxima_.find(block);
    if (known != maxima_.end()) return known->second;
    if (maxima_.size() >= most_blocks) maxima_.clear();
    std::vector<float>& maxima = maxima_[block];
    const Problem entry = problem_of(problem(), side_inputs(), block.batch);
    const TileShape shape = tile_shape(entry, Stage::s);
    maxima.assign(std::size_t(shape.rows), minus_infinity);
    std::vector<float> s(std::size_t(shape.elements()));
    for (TileId tile = block; tile.kv_tile < entry.kv_tiles(); ++tile.kv_tile) {
        if (!tile_is_visible(entry, tile.q_block, tile.kv_tile) || !of().read_tile(Stage::s, tile, s))
            continue;
        for (std::int64_t i = 0; i < tile_extent(entry, Stage::s, tile).rows; ++i) {
            const KeyRange visible = visible_keys(entry, tile.q_block * entry.block_m + i);
            for (std::int64_t j = 0; j < shape.cols; ++j) {
                const float value = s[std::size_t(i * shape.cols + j)];
                if (visible.contains(tile.kv_tile * entry.block_n + j) && value > maxima[std::size_t(i)])
                    maxima[std::size_t(i)] = value;
            }
        }
    }
    return maxima;
}

void DeclaredView::restore_mask(const TileId& tile, std::span<float> s) const {
    const Problem entry = problem_of(problem(), side_inputs(), tile.batch);
    const TileShape extent = tile_extent(entry, Stage::s, tile);
    const std::int64_t cols = tile_shape(entry, Stage::s).cols;
    const double apart = p_is_zero * unit_of_scores(*this);
    std::vector<float> maxima;
    for (std::int64_t i = 0; i < extent.rows; ++i) {
        const KeyRange visible = visible_keys(entry, tile.q_block * entry.block_m + i);
        for (std::int64_t j = 0; j < extent.cols; ++j) {
            float& value = s[std::size_t(i * cols + j)];
            if (visible.contains(tile.kv_tile * entry.block_n + j)) continue;
            if (value == minus_infinity) ++masked_infinities_;
            if (!std::isfinite(value)) continue;
            if (maxima.empty()) {
                const std::scoped_lock lock(mutex_);
                maxima = visible_maxima(tile);
            }
            const double most = maxima[std::size_t(i)];
            if (!(double(value) < (std::isfinite(most) ? most - apart : double(no_score)))) continue;
            ++masked_numbers_;
            float lowest = masked_value_;
            while (value < lowest && !masked_value_.compare_exchange_weak(lowest, value)) {}
            value = minus_infinity;
        }
    }
}

void DeclaredView::fold_what_it_read(WorkSharing& sharing) {
    struct Read {
        std::int64_t numbers = 0;
        std::int64_t infinities = 0;
        float value = 0;
    };
    Read read{masked_numbers_, masked_infinities_, masked_value_};
    fold(sharing, read, [](const Read& part, Read& whole) {
        whole = {whole.numbers + part.numbers, whole.infinities + part.infinities,
                 std::min(whole.value, part.value)};
    });
    masked_numbers_ = read.numbers;
    masked_infinities_ = read.infinities;
    masked_value_ = read.value;
}

CastOfScores::CastOfScores(const Recording& recording) {
    const Problem& p = recording.problem();
    const Units& units = recording.units();
    const double log_base = units.s_log_base == LogBase::two ? std::numbers::log2e : 1;
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        candidates_.push_back({dtype});
        if (units.s_scaled) candidates_.push_back({dtype, double(float(product_scale(p, units) * log_base))});
    }
}

void CastOfScores::look_at(const MatrixF& got, const Estimate& expected) {
    const std::scoped_lock lock(mutex_);
    for (Candidate& candidate : candidates_) {
        const double u = unit_roundoff(candidate.dtype);
        const double quantum = half_quantum(candidate.dtype) * candidate.scale;
        for (Eigen::Index i = 0; candidate.fits && i < got.size(); ++i) {
            const float value = got.data()[i];
            const double should = expected.value.data()[i];
            if (double(value) == should || std::isnan(should)) continue;
            const auto before = float(double(value) / candidate.scale);
            const bool held = candidate.scale == 1
                                  ? is_held(candidate.dtype, value)
                                  : float(double(decode(candidate.dtype, encode(candidate.dtype, before))) *
                                          candidate.scale) == value;
            const double error = expected.error.data()[i];
            const double rounding = u * (std::abs(should) + error) + quantum;
            candidate.fits =
                held && std::isfinite(should) && std::abs(double(value) - should) <= error + rounding;
        }
    }
}

void CastOfScores::fold_what_it_saw(WorkSharing& sharing) {
    std::vector<std::uint8_t> fits;
    for (const Candidate& candidate : candidates_) fits.push_back(candidate.fits);
    fold(sharing, fits, [](const std::vector<std::uint8_t>& part, std::vector<std::uint8_t>& whole) {
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = whole[i] && part[i];
    });
    for (std::size_t i = 0; i < fits.size(); ++i) candidates_[i].fits = fits[i];
}

std::optional<CastOfScores::Found> CastOfScores::found() const {
    for (const Candidate& candidate : candidates_) {
        if (!candidate.fits) continue;
        const std::string what = fmt::format("s is rounded to {}", dtype_info(candidate.dtype).name);
        if (candidate.scale == 1) return Found{what, "a cast of s (cast of /tiles/s)"};
        return Found{what + " before sm_scale", "a cast of s (record it there: scaled = false, and cast)"};
    }
    return std::nullopt;
}

bool may_be_undeclared(const Recording& recording, const Report& report) {
    if (!report.guilty || report.atol || report.rtol || !report.other.empty()) return false;
    const Element& first = *report.first_divergence;
    if (report.guilty == Stage::q || report.guilty == Stage::k)
        return folded_scale(recording, *report.guilty).has_value();
    if (report.guilty != Stage::s || !std::isfinite(first.got)) return false;
    if (first.expected == double(minus_infinity)) return first.got < 0;
    CastOfScores cast(recording);
    const MatrixF got = MatrixF::Constant(1, 1, float(first.got));
    cast.look_at(got, {Matrix::Constant(1, 1, first.expected), Matrix::Constant(1, 1, first.tolerance), {}});
    return cast.found().has_value();
}

}  // namespace tilescope
