#include "oracle/causes/consequences.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "oracle/causes/left_out_tiles.h"
#include "oracle/causes/phantoms.h"
#include "oracle/causes/table.h"
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
    Estimate p = expected_with(of_p, Stage::p, full);
    if (units.l_sums_cast_p) p = cast_probabilities(*full.call, p, full.call->problem.dtype_p);
    if (is_uncast && !of_p.empty()) {
        // Numbers of the mistake were found from P after its cast.
        p.error += p.value.unaryExpr([&](double of) { return cast_bound(units.p_cast, std::abs(of)); });
        summed = p;
    } else if (behind > 0) {
        append_columns({p.value.rightCols(behind), p.error.rightCols(behind), {}}, summed);
    }
}

Change left_in_sum(std::vector<Change> of_s, std::vector<Change> of_p) {
    return {.inputs = [of_s = std::move(of_s), of_p = std::move(of_p)](SearchedTile& site) {
        add_hidden_probabilities(of_s, of_p, site);
    }};
}

/// With all of them, and where one is not made without it.
std::vector<Change> all_left_in_sum(std::span<const FoundCause> known) {
    const std::vector<Change> of_s = changes_of(known, Stage::s);
    const std::vector<Change> of_p = changes_of(known, Stage::p);
    std::vector<Change> left;
    if (!of_s.empty() || !of_p.empty()) left.push_back(left_in_sum(of_s, of_p));
    if (!of_s.empty() && !of_p.empty()) {
        left.push_back(left_in_sum(of_s, {}));
        left.push_back(left_in_sum({}, of_p));
    }
    return left;
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

bool has_no_maximum(const Estimate& m, Eigen::Index row) {
    return m.value(row, 0) == -infinity;
}

/// A kernel takes a row whose maximum is -inf for one that saw no key: P subtracts nothing, sums do not go on, and the output is
/// that of an empty row.
std::vector<Change> guards_against_no_maximum(Stage stage) {
    if (stage == Stage::p)
        return {{.inputs = [](SearchedTile& site) {
            for (Eigen::Index i = 0; i < site.m.value.rows(); ++i)
                if (has_no_maximum(site.m, i)) site.m.value(i, 0) = 0;
            site.own_call().units.m_stale_threshold = infinity;
        }}};
    if (stage == Stage::o || stage == Stage::lse)
        return {{.inputs = [](SearchedTile& site) {
            for (RunningState& split : site.splits) {
                for (Eigen::Index i = 0; i < split.m.value.rows(); ++i) {
                    if (!has_no_maximum(split.m, i)) continue;
                    for (Estimate* sum : {&split.l, &split.acc}) {
                        sum->value.row(i).setZero();
                        sum->error.row(i).setZero();
                    }
                }
            }
        }}};
    if (stage != Stage::l && stage != Stage::acc) return {};
    return {{.inputs = [](SearchedTile& site) {
        for (Eigen::Index i = 0; i < site.factor.value.rows(); ++i)
            if (has_no_maximum(site.m, i) || has_no_maximum(site.before.m, i))
                site.factor.value(i, 0) = site.factor.error(i, 0) = 0;
    }}};
}

/// Whether each wrong element is as one of these has it. What is right may be so because the mistakes are not made
/// there.
bool explain(const Evidence& later, const std::vector<Change>& changes) {
    std::set<std::pair<const Observation*, Eigen::Index>> unexplained;
    for (std::size_t n = 0; n < changes.size(); ++n) {
        visit_sides(later, changes[n], [&](const Observation& seen, Eigen::Index i, Side side) {
            if (side == Side::changed) unexplained.erase({&seen, i});
            if (side == Side::neither && n == 0) unexplained.insert({&seen, i});
        });
    }
    return !changes.empty() && double(unexplained.size()) <= most_left * double(later.wrong_elements);
}

/// Whether all that is wrong was left unwritten in tiles that the kernel never came to.
bool is_of_left_out_tiles(const Evidence& later) {
    return std::ranges::all_of(later.seen, [&](const Observation& seen) {
        return !seen.is_bad() || is_left_out(*later.world, seen.site.id);
    });
}

}  // namespace

bool follows_from(std::span<const FoundCause> known, const Evidence& later) {
    const bool is_skipped = std::ranges::any_of(
        known, [](const FoundCause& cause) { return cause.name == skipped_kv_tile_name; });
    if (is_skipped && stage_info(later.observed).per_kv_tile && is_of_left_out_tiles(later)) return true;
    if (later.observed == Stage::l && explain(later, all_left_in_sum(known))) return true;
    const bool is_of_maxima = !changes_of(known, Stage::m).empty();
    if (is_of_maxima && explain(later, guards_against_no_maximum(later.observed))) return true;
    const bool is_divided = later.observed == Stage::lse && !changes_of(known, Stage::o).empty();
    return is_divided && later.world->has(Stage::o) && explain(later, {logarithm_of_divisor(later)});
}

}  // namespace tilescope
