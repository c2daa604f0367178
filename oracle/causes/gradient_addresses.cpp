// Indices of the backward pass that point elsewhere: of the terms of its sums, of p, dp and delta in ds, and of lse in p.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "oracle/causes/table.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/identify/address_map.h"
#include "oracle/identify/value_index.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

// ---- the index of a sum's terms

/// Where an operand is read that should be read at x.
struct TermMap {
    std::string text;
    std::vector<std::int64_t> from;  ///< of each term
};

/// The maps that stay within the tile, each once; the identity is none of them.
std::vector<TermMap> term_maps(const std::string& x, std::int64_t length) {
    std::vector<TermMap> maps;
    std::set<std::vector<std::int64_t>> known;
    const auto add = [&](std::string text, const std::function<std::int64_t(std::int64_t)>& map) {
        TermMap next{std::move(text), {}};
        bool moves = false;
        for (std::int64_t i = 0; i < length; ++i) {
            const std::int64_t from = map(i);
            if (from < 0 || from >= length) return;
            moves = moves || from != i;
            next.from.push_back(from);
        }
        if (moves && known.insert(next.from).second) maps.push_back(std::move(next));
    };
    add("0", [](std::int64_t) { return 0; });
    add(fmt::format("{} - {}", length - 1, x), [=](std::int64_t i) { return length - 1 - i; });
    for (std::int64_t n = 1; n < std::min<std::int64_t>(length, 64); ++n) {
        add(fmt::format("{} ^ {}", x, n), [=](std::int64_t i) { return i ^ n; });
        add(fmt::format("min({}, {})", x, n), [=](std::int64_t i) { return std::min(i, n); });
        add(fmt::format("max({}, {})", x, n), [=](std::int64_t i) { return std::max(i, n); });
        add(fmt::format("max({} - {}, 0)", x, n),
            [=](std::int64_t i) { return std::max<std::int64_t>(i - n, 0); });
        if (n == 1) continue;
        add(fmt::format("{} % {}", x, n), [=](std::int64_t i) { return i % n; });
        add(fmt::format("{0} / {1} * {1}", x, n), [=](std::int64_t i) { return i / n * n; });
        add(fmt::format("{} / {}", x, n), [=](std::int64_t i) { return i / n; });
        add(fmt::format("{0} / {1} * {1} + {2} - {0} % {1}", x, n, n - 1),
            [=](std::int64_t i) { return i / n * n + n - 1 - i % n; });
        for (std::int64_t odd = 3; odd < n && (n & (n - 1)) == 0 && n <= 32; odd += 2)
            add(fmt::format("{0} / {1} * {1} + {0} * {2} % {1}", x, n, odd),
                [=](std::int64_t i) { return i / n * n + i * odd % n; });
    }
    for (int low = 0; low < 5; ++low) {
        for (int high = low + 1; high < 6; ++high)
            add(fmt::format("{} with bits {} and {} exchanged", x, low, high), [=](std::int64_t i) {
                const std::int64_t differ = (i >> low ^ i >> high) & 1;
                return i ^ (differ << low | differ << high);
            });
    }
    return maps;
}

/// An operand of a sum, whose terms are its columns or its rows.
struct TermOperand {
    Stage sum;
    const char* name;
    const char* text;  ///< of an element, with the index of the term in braces
    const char* term;
    bool is_left;
};

constexpr std::array<TermOperand, 10> term_operands = {{
    {Stage::delta, "dout", "dout[row][{}]", "d", true},
    {Stage::delta, "o", "o[row][{}]", "d", false},
    {Stage::dp, "dout", "dout[row][{}]", "d", true},
    {Stage::dp, "v", "v[col][{}]", "d", false},
    {Stage::dq, "ds", "ds[row][{}]", "col", true},
    {Stage::dq, "k", "k[{}][d]", "col", false},
    {Stage::dk, "ds", "ds[{}][col]", "row", true},
    {Stage::dk, "q", "q[{}][d]", "row", false},
    {Stage::dv, "p", "p[{}][col]", "row", true},
    {Stage::dv, "dout", "dout[{}][d]", "row", false},
}};

/// Element (i, t) of a left operand, (t, j) of a right one; 0 behind the end of a tail.
double or_zero(const Matrix& operand, Eigen::Index row, Eigen::Index col) {
    return row < operand.rows() && col < operand.cols() ? operand(row, col) : 0;
}

/// The sum with the terms of one operand read elsewhere, in natural units.
double sum_with(const TermOperand& operand, const SearchedTile& site, const std::vector<std::int64_t>& from,
                Eigen::Index i, Eigen::Index j) {
    const auto dot = [&](const Matrix& left, const Matrix& right) {
        double sum = 0;
        for (Eigen::Index t = 0; t < Eigen::Index(from.size()); ++t) {
            const Eigen::Index other = from[std::size_t(t)];
            sum += or_zero(left, i, operand.is_left ? other : t) *
                   or_zero(right, operand.is_left ? t : other, j);
        }
        return sum;
    };
    if (operand.sum == Stage::delta) return dot(site.dout.value, site.o.value.row(i).transpose());
    if (operand.sum == Stage::dp) return dot(site.dout.value, site.v.value.transpose());
    double sum = 0;
    for (const GradientPart& part : *site.parts) sum += dot(part.a.value, part.b.value);
    return sum * kernel_unit(operand.sum, site);
}

/// Whether most of the wrong sums are those of the map, as far as a few tell.
bool may_be(const TermOperand& operand, const std::vector<WrongSum>& wrong, const TermMap& map) {
    std::size_t tried = 0;
    std::size_t off = 0;
    for (const WrongSum& one : wrong) {
        const double sum = sum_with(operand, one.seen->site, map.from, one.row, one.col);
        off += !(std::abs(sum - one.sum.got) <= 3 * one.sum.error);
        if (off * 8 > ++tried + 8) return false;
    }
    return off * 8 <= tried;
}

void read_columns(const std::vector<std::int64_t>& from, Matrix& values) {
    const Matrix old = values;
    for (Eigen::Index t = 0; t < old.cols(); ++t) {
        const Eigen::Index other = from[std::size_t(t)];
        if (other < old.cols()) {
            values.col(t) = old.col(other);
        } else {
            values.col(t).setZero();
        }
    }
}

void read_terms(const TermOperand& operand, const std::vector<std::int64_t>& from, SearchedTile& site) {
    if (!is_gradient(operand.sum)) {
        Operand& other = operand.sum == Stage::dp ? site.v : site.o;
        read_columns(from, operand.is_left ? site.dout.value : other.value);
        return;
    }
    for (GradientPart& part : site.own_parts()) {
        if (operand.is_left) {
            read_columns(from, part.a.value);
            read_columns(from, part.a.error);
            // What was hidden may be read now, and what is read may be hidden.
            part.scores.setZero();
        } else {
            Matrix transposed = part.b.value.transpose();
            read_columns(from, transposed);
            part.b.value = transposed.transpose();
        }
    }
}

}  // namespace

std::vector<Candidate> terms_read_elsewhere(const Evidence& evidence) {
    constexpr std::size_t few = 48;
    std::vector<Candidate> candidates;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, few);
    if (wrong.size() < 8) return candidates;
    const std::int64_t length = terms_of_sum(evidence.problem(), evidence.acts);
    for (const TermOperand& operand : term_operands) {
        if (operand.sum != evidence.acts) continue;
        for (const TermMap& map : term_maps(operand.term, length)) {
            if (!may_be(operand, wrong, map)) continue;
            const auto change = [=](SearchedTile& site) { read_terms(operand, map.from, site); };
            candidates.push_back(
                {{{"multiplies", fmt::format(fmt::runtime(operand.text), map.text)}}, {.inputs = change}, 2});
        }
    }
    return candidates;
}

namespace {

// ---- what ds and p are made of

/// A number of each element of the tile, or of each of its rows, that the stage takes.
struct TakenNumber {
    Stage stage;
    const char* name;
    bool of_rows;
    Estimate& (*in)(SearchedTile&);
    /// What it must have been where the result is `got`, and by how much that may be off.
    std::pair<double, double> (*solved)(const SearchedTile&, const Matrix& scores, double got, double error,
                                        Eigen::Index, Eigen::Index);
};

constexpr std::array<TakenNumber, 4> taken_numbers = {{
    {Stage::ds, "p", false, [](SearchedTile& site) -> Estimate& { return site.p; },
     [](const SearchedTile& site, const Matrix&, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double difference = site.dp.value(i, j) - site.delta.value(i, 0);
         return std::pair(got / difference, error / std::abs(difference));
     }},
    {Stage::ds, "dp", false, [](SearchedTile& site) -> Estimate& { return site.dp; },
     [](const SearchedTile& site, const Matrix&, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double p = site.p.value(i, j);
         const double delta = site.delta.value(i, 0);
         return std::pair(got / p + delta, error / std::abs(p) + 2 * u_f32 * std::abs(delta));
     }},
    {Stage::ds, "delta", true, [](SearchedTile& site) -> Estimate& { return site.delta; },
     [](const SearchedTile& site, const Matrix&, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double p = site.p.value(i, j);
         const double dp = site.dp.value(i, j);
         return std::pair(dp - got / p, error / std::abs(p) + 2 * u_f32 * std::abs(dp));
     }},
    {Stage::p, "lse", true, [](SearchedTile& site) -> Estimate& { return site.m; },
     [](const SearchedTile&, const Matrix& scores, double got, double error, Eigen::Index i, Eigen::Index j) {
         const double s = scores(i, j);
         return std::pair(s - std::log(got), error / got + 4 * u_f32 * std::abs(s));
     }},
}};

/// The rows of all heads, one after the other; of delta those that were dumped.
std::vector<double> all_rows(const CauseSearch& world, Stage stage) {
    const Problem& problem = world.recording().problem();
    std::vector<double> values;
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < problem.heads; ++head) {
            const HeadCall& call = *world.call(batch, head);
            Matrix rows = Matrix::Constant(problem.seqlen_q, 1, quiet_nan);
            if (stage == Stage::p) {
                const double unit = call.units.lse_log_base == LogBase::two ? std::log(2.0) : 1;
                rows.topRows(call.problem.seqlen_q) =
                    unit * load_input(world.recording(), Input::lse, batch, head, 0, call.problem.seqlen_q);
            } else {
                for (std::int64_t q_block = 0; q_block < call.problem.q_blocks(); ++q_block)
                    if (const auto tile = load_tile(world.recording(), call.problem, Stage::delta,
                                                    {batch, head, q_block, 0}))
                        rows.middleRows(q_block * problem.block_m, tile->rows()) = tile->cast<double>();
            }
            values.insert(values.end(), rows.data(), rows.data() + rows.size());
        }
    }
    return values;
}

/// Memory that a tile's numbers are read from, and where the tile begins in it.
struct NumberMemory {
    std::shared_ptr<const ValueIndex> values;
    std::int64_t ld = 1;
    std::int64_t first = 0;
};

NumberMemory memory_of(const TakenNumber& taken, const std::shared_ptr<const ValueIndex>& rows,
                       const SearchedTile& site) {
    const Problem& problem = site.world->recording().problem();
    if (taken.of_rows)
        return {rows, 1, (site.id.batch * problem.heads + site.id.head) * problem.seqlen_q + site.first_row};
    SearchedTile own = site;
    const Matrix& tile = taken.in(own).value;
    std::vector<double> values(std::size_t(tile.rows() * problem.block_n), quiet_nan);
    for (Eigen::Index i = 0; i < tile.rows(); ++i)
        for (Eigen::Index j = 0; j < tile.cols(); ++j)
            values[std::size_t(i * problem.block_n + j)] = tile(i, j);
    return {std::make_shared<const ValueIndex>(std::move(values)), problem.block_n, 0};
}

/// `by_rows`: of each row one element, which tells an order of the rows.
std::optional<AddressMap> map_of_tile(const TakenNumber& taken, const Observation& seen,
                                      const NumberMemory& memory, bool by_rows) {
    std::vector<AddressSample> samples;
    const Matrix scores = taken.stage == Stage::p ? finished_scores(seen.site).value : Matrix();
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double got = seen.natural(i, j);
            const double error =
                2 * seen.expected.error(i, j) / std::abs(seen.factor.at(i, j)) + 4 * u_f32 * std::abs(got);
            // Where next to nothing is left of it the number is not known.
            if (!(std::abs(got) > 32 * error) || !std::isfinite(got) || samples.size() > 2048) continue;
            if (taken.stage == Stage::p && !(got > 0)) continue;
            const auto [value, off] = taken.solved(seen.site, scores, got, error, i, j);
            if (!std::isfinite(value) || !std::isfinite(off)) continue;
            samples.push_back({i, by_rows ? 0 : j, memory.values->sources(value, off, memory.first)});
            if (by_rows && !samples.back().sources.empty()) break;
        }
    }
    return find_address_map(samples, memory.ld, {"row", "col"});
}

/// The tile's numbers as the map takes them; unknown beyond what is known of the memory.
Change takes_from(const TakenNumber& taken, const std::shared_ptr<const ValueIndex>& rows,
                  const AddressMap& map) {
    return {.inputs = [=](SearchedTile& site) {
        const NumberMemory memory = memory_of(taken, rows, site);
        Estimate& numbers = taken.in(site);
        for (Eigen::Index i = 0; i < numbers.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < numbers.value.cols(); ++j) {
                const std::int64_t at = memory.first + map.apply(i, taken.of_rows ? 0 : j);
                const double value = memory.values->has(at) ? memory.values->at(at) : quiet_nan;
                numbers.error(i, j) = std::isnan(value) ? infinity : 0;
                numbers.value(i, j) = std::isnan(value) ? 0 : value;
            }
        }
    }};
}

std::vector<Candidate> numbers_read_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || evidence.problem().direction == Direction::forward) return candidates;
    const auto rows = std::make_shared<const ValueIndex>(all_rows(*evidence.world, evidence.acts));
    for (const TakenNumber& taken : taken_numbers) {
        if (taken.stage != evidence.acts) continue;
        std::set<std::string> texts;
        std::size_t tiles = 0;
        for (const Observation& seen : evidence.seen) {
            if (!seen.is_bad() || ++tiles > 3) break;
            const NumberMemory memory = memory_of(taken, rows, seen.site);
            auto map = map_of_tile(taken, seen, memory, false);
            if (!map && taken.of_rows) map = map_of_tile(taken, seen, memory, true);
            if (!map || map->parameters == 0 || !texts.insert(map->text).second) continue;
            candidates.push_back(
                {{{"takes", taken.name + map->text}}, takes_from(taken, rows, *map), cost_of(*map)});
        }
    }
    return candidates;
}

}  // namespace

std::vector<Cause> gradient_address_causes() {
    return {{"numbers_read_elsewhere",
             "address",
             {Stage::p, Stage::ds},
             "lse, p, dp or delta are those of other elements or rows",
             "the index with which the row's lse and delta, or the tile's p and dp, are read",
             numbers_read_elsewhere}};
}

}  // namespace tilescope
