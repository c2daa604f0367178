#include "oracle/causes/consequences.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "oracle/causes/left_out_tiles.h"
#include "oracle/causes/phantoms.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/table.h"
#include "oracle/formula/softmax.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double most_left = 0.01;  ///< of what diverges

/// The known mistake of the stage, of two the second, which has the changes of both; null where there is none.
const FoundCause* cause_in(std::span<const FoundCause> known, Stage stage) {
    const FoundCause* last = nullptr;
    for (const FoundCause& cause : known) {
        if (cause.stage != stage || !cause.changes) continue;
        if (!last || cause.changes->size() > last->changes->size()) last = &cause;
    }
    return last;
}

using Rows = std::function<bool(const SearchedTile&, Eigen::Index row)>;

/// Where the mistake may be made: where no rule tells its tiles or rows, in heads that diverge.
Rows rows_of(const FoundCause& cause, const Report& report) {
    if (cause.scope == Scope::everywhere || cause.scope == Scope::ruled)
        return [](auto&&...) { return true; };
    std::set<std::pair<std::int64_t, std::int64_t>> heads;
    for (const BadRow& bad : report.stage(cause.observed).tally.bad_rows) heads.insert({bad.batch, bad.head});
    return [heads = std::move(heads)](const SearchedTile& site, Eigen::Index) {
        return heads.contains({site.id.batch, site.id.head});
    };
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
    for (Estimate* p : {&site.p, &site.operand_p})
        if (p->value.rows() == site.rows()) append_columns({none, none, {}}, *p);
    for (Matrix* rows : {&site.k.value, &site.v.value})
        if (rows->cols() > 0) append_zeros(behind, *rows);
    const std::shared_ptr<const HeadCall> was = site.call;
    HeadCall& call = site.own_call();
    call.visible = [was](std::int64_t row, std::int64_t first_key) {
        KeyRange keys = was->visible_to(row, first_key);
        keys.last = std::min(keys.last, was->problem.seqlen_kv);
        return keys;
    };
    call.read_bias = nullptr;
    call.problem.seqlen_kv += behind;
    // The diagonal stays where it was.
    call.problem.diagonal_offset += diagonal_of(was->problem, 0) - diagonal_of(call.problem, 0);
    for (Eigen::VectorXd* descale : {&call.k_descale, &call.v_descale}) {
        const Eigen::Index known = descale->size();
        descale->conservativeResize(known + behind);
        descale->tail(behind).setConstant(known > 0 ? (*descale)(known - 1) : 1);
    }
    return site;
}

/// Changes of a stage, in some rows.
struct RowChanges {
    std::vector<Change> changes;
    Rows rows;
};

RowChanges row_changes_of(const FoundCause* cause, const Report& report) {
    if (!cause) return {{}, [](auto&&...) { return false; }};
    return {*cause->changes, rows_of(*cause, report)};
}

/// The same with the scores that the changes leave there.
SearchedTile filled_up_with(const RowChanges& of_s, const SearchedTile& site, std::int64_t behind) {
    SearchedTile full = filled_up(site, behind);
    const Estimate s = expected_with(of_s.changes, Stage::s, full);
    for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
        if (!of_s.rows(site, i)) continue;
        full.dumped_s.value.row(i).tail(behind) = s.value.row(i).tail(behind);
        full.dumped_s.error.row(i).tail(behind) = s.error.row(i).tail(behind);
    }
    return full;
}

std::int64_t columns_behind(const SearchedTile& site) {
    return site.call->problem.block_n - site.keys();
}

/// Maxima of the columns behind the keys, too.
Change left_in_maximum(RowChanges of_s) {
    return {.inputs = [of_s = std::move(of_s)](SearchedTile& site) {
        const std::int64_t behind = columns_behind(site);
        if (behind <= 0) return;
        const Estimate s = finished_scores(filled_up_with(of_s, site, behind));
        take_finished_scores(site);
        append_columns({s.value.rightCols(behind), s.error.rightCols(behind), {}}, site.dumped_s);
    }};
}

bool is_made_in(const RowChanges& of_m, const SearchedTile& site, Eigen::Index row) {
    const auto is_here = [&](const Change& change) { return !change.where || change.where(site, row, 0); };
    return of_m.rows(site, row) && std::ranges::any_of(of_m.changes, is_here);
}

/// Sums are rescaled from the maximum that m went on from.
Change rescaled_from_other_maximum(RowChanges of_m) {
    return {.inputs = [of_m = std::move(of_m)](SearchedTile& site) {
        SearchedTile changed = site;
        for (const Change& change : of_m.changes)
            if (change.inputs) change.inputs(changed);
        const Estimate factor = rescale_factor(*site.call, changed.before.m, site.m);
        for (Eigen::Index i = 0; i < factor.value.rows(); ++i) {
            if (!is_made_in(of_m, site, i)) continue;
            site.factor.value(i, 0) = factor.value(i, 0);
            site.factor.error(i, 0) = factor.error(i, 0);
        }
    }};
}

/// What no dump has of P: before its cast, where it is dumped after it, and in the columns behind the keys.
void add_hidden_probabilities(const RowChanges& of_s, const std::vector<Change>& of_p, SearchedTile& site) {
    const Units& units = site.call->units;
    const bool is_uncast = units.p_cast != Dtype::f32 && !units.l_sums_cast_p;
    Estimate& summed = units.l_sums_cast_p ? site.operand_p : site.p;
    const std::int64_t behind = columns_behind(site);
    SearchedTile full = behind > 0 ? filled_up_with(of_s, site, behind) : site;
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

Change left_in_sum(RowChanges of_s, std::vector<Change> of_p) {
    return {.inputs = [of_s = std::move(of_s), of_p = std::move(of_p)](SearchedTile& site) {
        add_hidden_probabilities(of_s, of_p, site);
    }};
}

/// Products of zeros with P as it is in the columns behind the keys: NaN and infinities show in them.
Change left_in_product(std::vector<Change> of_p) {
    return {.inputs = [of_p = std::move(of_p)](SearchedTile& site) {
        const std::int64_t behind = columns_behind(site);
        if (behind <= 0) return;
        SearchedTile full = filled_up(site, behind);
        const Estimate p =
            cast_probabilities(*full.call, expected_with(of_p, Stage::p, full), full.call->problem.dtype_p);
        full.operand_p.value.rightCols(behind) = p.value.rightCols(behind);
        full.operand_p.error.rightCols(behind) = p.error.rightCols(behind);
        site = std::move(full);
    }};
}

/// The same with accumulators of ones: o is one over what it is divided by.
SearchedTile with_accumulators_of_ones(SearchedTile site) {
    for (RunningState& split : site.splits) {
        split.acc.value.setOnes();
        split.acc.error.setZero();
    }
    return site;
}

/// lse of the sum that o is divided by.
Change logarithm_of_divisor(std::vector<Change> of_o) {
    return {.result = [of_o = std::move(of_o)](const SearchedTile& site, Estimate& lse) {
        const SearchedTile ones = with_accumulators_of_ones(site);
        const Estimate right = expected_of(Stage::o, ones);
        const Estimate changed = expected_with(of_o, Stage::o, ones);
        for (Eigen::Index i = 0; i < lse.value.rows(); ++i) {
            const double shrinking = right.value(i, 0) / changed.value(i, 0);
            if (!(shrinking > 0) || std::isinf(shrinking)) continue;
            lse.value(i, 0) += std::log(shrinking);
            lse.error(i, 0) += changed.error(i, 0) / changed.value(i, 0);
        }
    }};
}

bool has_no_maximum(const Estimate& m, Eigen::Index row) {
    return m.value(row, 0) == -infinity;
}

/// A kernel takes a row whose maximum is -inf for one that saw no key: P subtracts nothing, and its cast cuts what is too large,
/// sums do not go on, and the output is that of an empty row.
std::vector<Change> guards_against_no_maximum(Stage stage) {
    if (stage == Stage::p)
        return {{.inputs =
                     [](SearchedTile& site) {
                         for (Eigen::Index i = 0; i < site.m.value.rows(); ++i)
                             if (has_no_maximum(site.m, i)) site.m.value(i, 0) = 0;
                         site.own_call().units.m_stale_threshold = infinity;
                     },
                 .result = cut_to_range}};
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

/// In sums. With all of them, and where one is not made without it.
std::vector<Consequence> left_in_sums(const FoundCause* in_s, const FoundCause* in_p, const Report& report) {
    std::vector<Consequence> left;
    const RowChanges of_s = row_changes_of(in_s, report);
    const std::vector<Change> of_p = in_p ? *in_p->changes : std::vector<Change>();
    if (in_s) left.push_back({left_in_sum(of_s, {}), in_s});
    if (!in_p) return left;
    // Numbers of P were found after its cast: of what is summed before it they tell too little to search beside them.
    left.push_back({left_in_sum(row_changes_of(nullptr, report), of_p), in_p, false});
    if (in_s) left.push_back({left_in_sum(of_s, of_p), in_s, false});
    return left;
}

/// And it after each of those that are there.
void add_with_each(const Consequence& other, std::vector<Consequence>& all) {
    const std::vector<Consequence> before = all;
    all.push_back(other);
    for (const Consequence& first : before)
        all.push_back({{.inputs =
                            [a = first.change.inputs, b = other.change.inputs](SearchedTile& site) {
                                a(site);
                                b(site);
                            }},
                       other.of,
                       first.is_exact});
}

/// Whether all that is wrong was left unwritten in tiles that the kernel never came to.
bool is_of_left_out_tiles(const Evidence& later) {
    return std::ranges::all_of(later.seen, [&](const Observation& seen) {
        return !seen.is_bad() || is_left_out(*later.world, seen.site.id);
    });
}

}  // namespace

std::vector<Consequence> consequences_of(std::span<const FoundCause> known, const Evidence& later,
                                         const Report& report) {
    const Stage stage = later.observed;
    const FoundCause* in_s = cause_in(known, Stage::s);
    const FoundCause* in_m = cause_in(known, Stage::m);
    const FoundCause* in_o = cause_in(known, Stage::o);
    std::vector<Consequence> all;
    const FoundCause* in_p = cause_in(known, Stage::p);
    if (stage == Stage::l) all = left_in_sums(in_s, in_p, report);
    if (stage == Stage::acc && in_p) all.push_back({left_in_product(*in_p->changes), in_p, false});
    if (stage == Stage::m && in_s) all.push_back({left_in_maximum(row_changes_of(in_s, report)), in_s});
    if (in_m && (stage == Stage::l || stage == Stage::acc))
        add_with_each({rescaled_from_other_maximum(row_changes_of(in_m, report)), in_m}, all);
    if (const FoundCause* shown = in_m ? in_m : in_p)
        for (Change& guard : guards_against_no_maximum(stage)) all.push_back({std::move(guard), shown});
    if (stage == Stage::lse && in_o && later.world->has(Stage::o))
        all.push_back({logarithm_of_divisor(*in_o->changes), in_o});
    return all;
}

const FoundCause* leaving_out(std::span<const FoundCause> known, const Evidence& later) {
    const auto skipped = std::ranges::find(known, skipped_kv_tile_name, &FoundCause::name);
    const bool is_left_out =
        skipped != known.end() && stage_info(later.observed).per_kv_tile && is_of_left_out_tiles(later);
    return is_left_out ? &*skipped : nullptr;
}

const FoundCause* explaining(const Evidence& later, std::span<const Consequence> consequences) {
    std::set<std::pair<const Observation*, Eigen::Index>> unexplained;
    for (std::size_t n = 0; n < consequences.size(); ++n) {
        visit_sides(later, consequences[n].change, [&](const Observation& seen, Eigen::Index i, Side side) {
            if (side == Side::changed) unexplained.erase({&seen, i});
            if (side == Side::neither && n == 0) unexplained.insert({&seen, i});
        });
        if (double(unexplained.size()) <= most_left * double(later.wrong_elements)) return consequences[n].of;
    }
    return nullptr;
}

}  // namespace tilescope
