// Sums that count columns behind the last key: which of them, and what these hold, is read out of what is too much.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "oracle/causes/phantoms.h"
#include "oracle/causes/signature.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/softmax.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// Some of the columns behind the keys, by their number in the tile or behind the last key.
struct TailColumns {
    std::string text;
    Places places;
    bool from_last_key = false;
    int free = 0;

    bool contains(Eigen::Index keys, Eigen::Index behind) const {
        return places.contains(from_last_key ? behind : keys + behind);
    }
};

/// Scores of the columns behind the keys: those of what may lie there, less a number, or one number.
struct TailScores {
    std::string text;
    std::optional<PhantomKeys> keys;  ///< none: the number
    double number = 0;                ///< in the dump's units
    int free = 0;

    std::optional<Estimate> of(const SearchedTile& site) const {
        const std::int64_t behind = site.call->problem.block_n - site.keys();
        if (behind <= 0) return std::nullopt;
        if (keys) return phantom_scores(site, *keys);
        const double unit = dump_factor(*site.call, Stage::m, site.first_row, 0, 1, 1).at(0, 0);
        const Matrix scores = Matrix::Constant(site.rows(), behind, number / unit);
        return Estimate{scores, 8 * u_f32 * scores.cwiseAbs(), {}};
    }
};

/// Probabilities of scores behind the keys, which are not in the maximum; cast as the product takes them, or as they are summed up.
Estimate tail_probabilities(const SearchedTile& site, const Estimate& scores, bool of_product) {
    SearchedTile own = site;
    for (Eigen::Index i = 0; i < own.m.value.rows(); ++i)
        if (std::isinf(own.m.value(i, 0))) own.m.value(i, 0) = 0;
    own.own_call().units.m_stale_threshold = infinity;
    const Estimate p = probabilities(*own.call, scores, own.m);
    const bool is_cast = of_product || own.call->units.l_sums_cast_p;
    return is_cast ? cast_probabilities(*own.call, p, own.call->problem.dtype_p) : p;
}

/// Rows of V for the columns of P, and scores that they may be of.
void add_tail_values(const Matrix& values, const Estimate& scores, SearchedTile& site) {
    take_finished_scores(site);
    append_columns(scores, site.dumped_s);
    const Eigen::Index keys = site.v.value.rows();
    site.v.value.conservativeResize(keys + values.rows(), Eigen::NoChange);
    site.v.value.bottomRows(values.rows()) = values;
    HeadCall& call = site.own_call();
    call = with_phantom_keys(call, values.rows());
    call.problem.seqlen_kv += values.rows();
}

Change counts_tail(Stage acts, const TailColumns& columns, const TailScores& scores) {
    return {.inputs = [=](SearchedTile& site) {
        std::optional<Estimate> tail = scores.of(site);
        if (!tail) return;
        const bool is_product = acts == Stage::acc;
        const auto values = is_product
                                ? phantom_rows(site, Stage::v, scores.keys.value_or(PhantomKeys::zeros),
                                               site.first_key + site.keys(), tail->value.cols())
                                : std::nullopt;
        if (is_product && !values) return;
        Estimate p = tail_probabilities(site, *tail, is_product);
        for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
            if (columns.contains(site.keys(), j)) continue;
            p.value.col(j).setZero();
            p.error.col(j).setZero();
        }
        site.own_call().units.m_stale_threshold = infinity;
        if (is_product) add_tail_values(*values, *tail, site);
        append_columns(p, is_product || site.call->units.l_sums_cast_p ? site.operand_p : site.p);
    }};
}

/// A wrong row of a tile with columns behind its keys: what each lane has too much.
struct TailRow {
    const Observation* seen = nullptr;
    Eigen::Index row = 0;
    std::vector<double> more;
    std::vector<double> error;
};

std::vector<TailRow> tail_rows(const Evidence& evidence) {
    constexpr std::size_t most = 64;
    std::vector<TailRow> rows;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad() || seen.site.keys() >= seen.site.call->problem.block_n) continue;
        for (Eigen::Index i = 0; i < seen.got.rows() && rows.size() < most; ++i) {
            if (!seen.bad_rows[std::size_t(i)]) continue;
            TailRow next{&seen, i, {}, {}};
            for (Eigen::Index lane = 0; lane < seen.got.cols(); ++lane) {
                const double factor = seen.factor.at(i, lane);
                next.more.push_back(seen.natural(i, lane) - seen.expected.value(i, lane) / factor);
                next.error.push_back(seen.expected.error(i, lane) / std::abs(factor));
            }
            rows.push_back(std::move(next));
        }
    }
    return rows;
}

/// What the columns add to the lane of a row, each of them `each(column)`.
double added_by_tail(const TailRow& row, const TailColumns& columns, std::size_t lane, const auto& each) {
    const SearchedTile& site = row.seen->site;
    double sum = 0;
    for (Eigen::Index j = 0; j < site.call->problem.block_n - site.keys(); ++j)
        if (columns.contains(site.keys(), j) &&
            site.call->problem.l_lane(site.keys() + j) == std::int64_t(lane))
            sum += each(j);
    return sum;
}

/// Whether these columns, with these scores, are what nearly all rows have too much, as far as a cast of each leaves it open.
bool are_added(const std::vector<TailRow>& rows, const TailColumns& columns, const TailScores& scores) {
    constexpr double of_cast = 0.02;
    const Observation* seen = nullptr;
    std::optional<Estimate> p;
    std::size_t off = 0;
    for (const TailRow& row : rows) {
        if (row.seen != seen) {
            seen = row.seen;
            const auto tail = scores.of(seen->site);
            if (!tail) return false;
            p = tail_probabilities(seen->site, *tail, false);
        }
        for (std::size_t lane = 0; lane < row.more.size(); ++lane) {
            const auto added = [&](const Matrix& of) {
                return added_by_tail(row, columns, lane, [&](Eigen::Index j) { return of(row.row, j); });
            };
            const double sum = added(p->value);
            const double open = std::max(of_cast * std::abs(sum), added(p->error));
            if (std::abs(sum - row.more[lane]) <= 2 * row.error[lane] + open) continue;
            if (++off * 50 > rows.size()) return false;
            break;
        }
    }
    return true;
}

/// The one number that these columns hold in all rows, m + log(more / columns); nullopt where it is none, or has no few digits.
std::optional<TailScores> one_score(const std::vector<TailRow>& rows, const TailColumns& columns) {
    std::vector<double> scores;
    for (const TailRow& row : rows) {
        const SearchedTile& site = row.seen->site;
        const double unit = dump_factor(*site.call, Stage::m, site.first_row, 0, 1, 1).at(0, 0);
        double more = 0;
        double count = 0;
        for (std::size_t lane = 0; lane < row.more.size(); ++lane) {
            more += row.more[lane];
            count += added_by_tail(row, columns, lane, [](Eigen::Index) { return 1.0; });
        }
        const double score = (site.m.value(row.row, 0) + std::log(more / count)) * unit;
        if (std::isfinite(score)) scores.push_back(score);
    }
    const double middle = median_of(std::move(scores));
    const double simple = std::round(2 * middle) / 2;
    if (!std::isfinite(middle) || std::abs(simple - middle) > 1e-3) return std::nullopt;
    return TailScores{masked_with(digits(simple)), std::nullopt, simple, 1};
}

std::vector<TailColumns> ways_to_count(std::int64_t block_n, std::int64_t behind) {
    std::vector<TailColumns> ways = {{digits(behind), {0, 0, block_n}}};
    for (std::int64_t count = 1; count < behind; ++count)
        ways.push_back({"the first " + digits(count), {0, 0, count}, true, 1});
    for (const Places& part : parts_of(block_n))
        ways.push_back({"columns " + to_string(part), part, false, 2});
    return ways;
}

std::vector<Candidate> tail_counted(const Evidence& evidence) {
    constexpr std::size_t most_candidates = 12;
    std::vector<Candidate> candidates;
    const auto has_tail = [](const Observation& seen) {
        return seen.is_bad() && seen.site.keys() < seen.site.call->problem.block_n;
    };
    const auto tail = std::ranges::find_if(evidence.seen, has_tail);
    if (tail == evidence.seen.end()) return {};
    const std::int64_t block_n = evidence.problem().block_n;
    const bool is_sum = evidence.direct() && evidence.acts == Stage::l;
    const std::vector<TailRow> rows = is_sum ? tail_rows(evidence) : std::vector<TailRow>();
    const auto add = [&](const TailColumns& columns, const TailScores& scores) {
        candidates.push_back({{{"keys", columns.text}, {"they are", scores.text}},
                              counts_tail(evidence.acts, columns, scores),
                              columns.free + scores.free});
    };
    for (const TailColumns& columns : ways_to_count(block_n, block_n - tail->site.keys())) {
        const bool are_all = columns.free == 0;
        for (const NamedPhantoms& phantoms : all_phantoms) {
            const TailScores scores{phantoms.name, phantoms.keys};
            if (are_all || (!rows.empty() && are_added(rows, columns, scores))) add(columns, scores);
        }
        if (rows.empty() || candidates.size() > most_candidates) continue;
        if (const auto score = one_score(rows, columns); score && are_added(rows, columns, *score))
            add(columns, *score);
    }
    return candidates;
}

/// Maxima that may stay behind are those of a kernel that leaves them by its threshold.
void settle_maxima(const SearchedTile& site, Estimate& m) {
    const double threshold = site.call->units.m_stale_threshold;
    if (threshold == 0) return;
    const Estimate s = finished_scores(site);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        const double before = site.before.m.value(i, 0);
        const double most = s.value.cols() > 0 ? s.value.row(i).maxCoeff() : -infinity;
        const double settled = risen(before, most, threshold);
        if (!std::isfinite(settled)) continue;
        m.value(i, 0) = settled;
        m.error(i, 0) = 8 * u_f32 * std::abs(settled);
    }
}

std::vector<Candidate> m_includes_tail(const Evidence&) {
    std::vector<Candidate> candidates;
    for (const NamedPhantoms& phantoms : all_phantoms) {
        const auto change = [which = phantoms.keys](SearchedTile& site) {
            const auto scores = phantom_scores(site, which);
            if (!scores) return;
            take_finished_scores(site);
            append_columns(*scores, site.dumped_s);
        };
        candidates.push_back({{{"keys", phantoms.name}}, {.inputs = change, .result = settle_maxima}});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> tail_causes() {
    return {
        {"m_includes_tail",
         "tail",
         {Stage::m},
         "keys past seqlen_kv take part in the row maximum",
         "the mask of the last KV tile",
         m_includes_tail,
         "--input negative with seqlen_kv that no tile divides"},
        {"tail_counted",
         "tail",
         {Stage::l, Stage::acc},
         "keys past seqlen_kv are counted in the sum",
         "the mask of the last KV tile",
         tail_counted,
         "seqlen_kv that no tile divides"},
        {"tail_not_masked",
         "tail",
         {Stage::s},
         "keys past seqlen_kv are not masked: they take part like any other",
         "the mask of the last KV tile",
         tail_not_masked,
         "seqlen_kv that no tile divides"},
        {"dot_runs_on",
         "layout",
         {Stage::s},
         "the product of q and k runs on behind head_dim, into the next rows",
         "the bound of the loads along head_dim",
         dot_runs_on},
    };
}

}  // namespace tilescope
