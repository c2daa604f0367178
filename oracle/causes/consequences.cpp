#include "oracle/causes/consequences.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "oracle/causes/phantoms.h"
#include "oracle/formula/softmax.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double most_left = 0.01;  ///< of what diverges

/// Of the known mistakes those that are made in the stage.
std::vector<Change> changes_of(std::span<const FoundCause> known, Stage stage) {
    std::vector<Change> changes;
    for (const FoundCause& cause : known)
        if (cause.stage == stage && cause.changes) changes = *cause.changes;
    return changes;
}

void append_zeros(Eigen::Index count, Matrix& rows) {
    const Eigen::Index before = rows.rows();
    rows.conservativeResize(before + count, Eigen::NoChange);
    rows.bottomRows(count).setZero();
}

/// With the keys behind seqlen_kv, which are zeros and masked.
SearchedTile filled_up(SearchedTile site, std::int64_t behind) {
    const Matrix none = Matrix::Zero(site.rows(), behind);
    append_columns({Matrix::Constant(site.rows(), behind, -infinity), none, {}}, site.dumped_s);
    append_columns({none, none, {}}, site.p);
    append_columns({none, none, {}}, site.operand_p);
    append_zeros(behind, site.k.value);
    append_zeros(behind, site.v.value);
    const std::shared_ptr<const HeadCall> was = site.call;
    HeadCall& call = site.own_call();
    call.visible = [was](std::int64_t row, std::int64_t first_key) {
        KeyRange keys = was->visible_to(row, first_key);
        keys.last = std::min(keys.last, was->problem.seqlen_kv);
        return keys;
    };
    call.read_bias = nullptr;
    call.problem.seqlen_kv += behind;
    for (Eigen::VectorXd* descale : {&call.k_descale, &call.v_descale}) {
        const Eigen::Index known = descale->size();
        descale->conservativeResize(known + behind);
        descale->tail(behind).setConstant(known > 0 ? (*descale)(known - 1) : 1);
    }
    return site;
}

/// What no dump has of P: before its cast, where it is dumped after it, and in the columns behind the keys.
void add_hidden_probabilities(const std::vector<Change>& of_s, const std::vector<Change>& of_p,
                              SearchedTile& site) {
    const Units& units = site.call->units;
    const bool is_uncast = units.p_cast != Dtype::f32 && !units.l_sums_cast_p;
    Estimate& summed = units.l_sums_cast_p ? site.operand_p : site.p;
    const std::int64_t keys = site.keys();
    const std::int64_t behind = site.call->problem.block_n - keys;
    SearchedTile full = behind > 0 ? filled_up(site, behind) : site;
    if (!of_s.empty() && behind > 0) {
        const Estimate s = expected_with(of_s, Stage::s, full);
        full.dumped_s.value.rightCols(behind) = s.value.rightCols(behind);
        full.dumped_s.error.rightCols(behind) = s.error.rightCols(behind);
    }
    for (Eigen::Index i = 0; i < full.m.value.rows(); ++i)
        if (std::isinf(full.m.value(i, 0))) full.m.value(i, 0) = 0;
    Units& changed = full.own_call().units;
    changed.m_stale_threshold = infinity;
    if (is_uncast) changed.p_cast = Dtype::f32;
    const Estimate p = expected_with(of_p, Stage::p, full);
    if (is_uncast && !of_p.empty()) {
        summed = p;
    } else if (behind > 0) {
        append_columns({p.value.rightCols(behind), p.error.rightCols(behind), {}}, summed);
    }
}

/// What the known mistakes leave in l or acc by P that is not dumped, and by the maximum before the tile that the
/// factor of the rescaling is made of.
std::optional<Change> left_in_sums(std::span<const FoundCause> known, Stage sum) {
    const std::vector<Change> of_s = changes_of(known, Stage::s);
    const std::vector<Change> of_m = changes_of(known, Stage::m);
    const std::vector<Change> of_p = changes_of(known, Stage::p);
    const bool has_hidden = sum == Stage::l && (!of_s.empty() || !of_p.empty());
    if (!has_hidden && of_m.empty()) return std::nullopt;
    return Change{.inputs = [=](SearchedTile& site) {
        SearchedTile other = site;
        for (const Change& change : of_m)
            if (change.inputs) change.inputs(other);
        if (!of_m.empty()) site.factor = rescale_factor(*site.call, other.before.m, site.m);
        if (has_hidden) add_hidden_probabilities(of_s, of_p, site);
    }};
}

/// How much the row of o is less than it should be, and how uncertain that is, relative.
struct Shrinking {
    double by = 1;
    double error = 0;
};

Shrinking shrinking_of(const MatrixF& got, const DumpFactor& factor, const Estimate& expected,
                       Eigen::Index row) {
    double products = 0;
    double squares = 0;
    double errors = 0;
    for (Eigen::Index j = 0; j < got.cols(); ++j) {
        const double o = double(got(row, j)) / factor.at(row, j);
        products += o * expected.value(row, j);
        squares += o * o;
        errors += std::abs(o) * expected.error(row, j);
    }
    return {products / squares, errors / std::abs(products)};
}

/// lse of the sum that o was divided by.
Change logarithm_of_divisor(const Evidence& later) {
    const Recording& recording = later.world->recording();
    return {.result = [&recording](const SearchedTile& site, Estimate& lse) {
        const Problem& problem = site.call->problem;
        const std::optional<MatrixF> o = load_tile(recording, problem, Stage::o, site.id);
        if (!o || o->rows() != lse.value.rows()) return;
        const Estimate expected = expected_of(Stage::o, site);
        const DumpFactor factor =
            dump_factor(*site.call, Stage::o, site.first_row, site.first_key, o->rows(), o->cols());
        for (Eigen::Index i = 0; i < o->rows(); ++i) {
            const Shrinking shrinking = shrinking_of(*o, factor, expected, i);
            if (!(shrinking.by > 0)) continue;
            lse.value(i, 0) += std::log(shrinking.by);
            lse.error(i, 0) += shrinking.error;
        }
    }};
}

bool explains(const Evidence& later, const Change& change) {
    const Misfit misfit = misfit_of(later, change);
    return double(misfit.in_bad_tiles()) <= most_left * double(later.wrong_elements) && misfit.tells_values();
}

}  // namespace

bool follows_from(std::span<const FoundCause> known, const Evidence& later) {
    if (later.observed == Stage::l || later.observed == Stage::acc) {
        const std::optional<Change> left = left_in_sums(known, later.observed);
        return left && explains(later, *left);
    }
    const bool is_divided = later.observed == Stage::lse && !changes_of(known, Stage::o).empty();
    return is_divided && later.world->has(Stage::o) && explains(later, logarithm_of_divisor(later));
}

}  // namespace tilescope
