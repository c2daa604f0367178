// Terms of sums and maxima that are read at another index than theirs, which may be made of the row, the column and the
// number of the term: index formulas are tried on a few wrong results, and those that nearly all agree with are replayed.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/causes/table.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/identify/term_search.h"

namespace tilescope {

namespace {

/// What an index of an operand counts: rows of the result, its columns, or the terms.
enum class Axis : std::uint8_t { row, col, term };

/// An operand whose elements are the terms of a sum, or their factors.
struct TermOperand {
    Stage stage;
    std::string_view name;
    std::array<std::string_view, 3> names;  ///< of its row, its column, and of the third axis
    std::array<Axis, 3> axes;
    bool is_left = true;        ///< of the rows of the result
    bool ends_in_zeros = true;  ///< behind its last row, as staged operands do

    std::size_t term() const { return axes[0] == Axis::term ? 0 : 1; }
};

constexpr std::array<Axis, 3> of_row = {Axis::row, Axis::term, Axis::col};
constexpr std::array<Axis, 3> of_col = {Axis::col, Axis::term, Axis::row};
constexpr std::array<Axis, 3> down_col = {Axis::term, Axis::col, Axis::row};
constexpr std::array<Axis, 3> down_row = {Axis::term, Axis::row, Axis::col};

constexpr std::array<TermOperand, 16> term_operands = {{
    {Stage::s, "q", {"row", "d", "col"}, of_row},
    {Stage::s, "k", {"col", "d", "row"}, of_col, false},
    {Stage::m, "s", {"row", "col", ""}, of_row, true, false},
    {Stage::l, "p", {"row", "col", "lane"}, of_row, true, false},
    {Stage::acc, "p", {"row", "col", "d"}, of_row, true, false},
    {Stage::acc, "v", {"col", "d", "row"}, down_col, false},
    {Stage::delta, "dout", {"row", "d", ""}, of_row},
    {Stage::delta, "o", {"row", "d", ""}, of_row, false},
    {Stage::dp, "dout", {"row", "d", "col"}, of_row},
    {Stage::dp, "v", {"col", "d", "row"}, of_col, false},
    {Stage::dq, "ds", {"row", "col", "d"}, of_row},
    {Stage::dq, "k", {"col", "d", "row"}, down_col, false},
    {Stage::dk, "ds", {"row", "col", "d"}, down_row},
    {Stage::dk, "q", {"row", "d", "col"}, down_col, false},
    {Stage::dv, "p", {"row", "col", "d"}, down_row},
    {Stage::dv, "dout", {"row", "d", "col"}, down_col, false},
}};

/// The names of an index, of which those behind the third are of the tile.
constexpr std::size_t of_third = 2;
constexpr std::size_t of_result = 3;
constexpr std::array<std::string_view, 3> tile_names = {"kv_tile", "q_block", "head"};

struct TermNames {
    std::array<std::string_view, of_result + tile_names.size()> all;
    explicit TermNames(const TermOperand& operand) {
        std::ranges::copy(operand.names, all.begin());
        std::ranges::copy(tile_names, all.begin() + of_result);
    }
};

std::int64_t along(Axis axis, std::int64_t row, std::int64_t col) {
    return axis == Axis::row ? row : axis == Axis::col ? col : 0;
}

std::vector<std::int64_t> numbers_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                                     Eigen::Index col) {
    std::vector<std::int64_t> numbers;
    for (const Axis axis : operand.axes) numbers.push_back(along(axis, row, col));
    numbers.insert(numbers.end(), {site.id.kv_tile, site.id.q_block, site.id.head});
    return numbers;
}

/// How far each number counts.
std::vector<std::int64_t> lengths_of(const TermOperand& operand, const Problem& problem) {
    const TileShape shape = tile_shape(problem, operand.stage);
    const auto length = [&](Axis axis) {
        return axis == Axis::row   ? shape.rows
               : axis == Axis::col ? shape.cols
                                   : terms_of_sum(problem, operand.stage);
    };
    std::vector<std::int64_t> lengths;
    for (const Axis axis : operand.axes) lengths.push_back(length(axis));
    // Tiles are added up over parts in a gradient: its results are of none.
    if (!is_gradient(operand.stage))
        lengths.insert(lengths.end(), {problem.kv_tiles(), problem.q_blocks(), problem.heads});
    return lengths;
}

/// The operand as it was staged; of a gradient that of the part.
Matrix matrix_of(const TermOperand& operand, const SearchedTile& site, std::size_t part) {
    if (is_gradient(operand.stage)) {
        const GradientPart& of_part = (*site.parts)[part];
        if (!operand.is_left) return of_part.b.value;
        return operand.axes[0] == Axis::term ? Matrix(of_part.a.value.transpose()) : of_part.a.value;
    }
    SearchedTile own = site;
    if (operand.stage == Stage::m) return finished_scores(site).value;
    if (operand.stage == Stage::l) return p_added_up(own).value;
    if (operand.name == "p") return site.operand_p.value;
    if (operand.name == "q") return site.q.value;
    if (operand.name == "k") return site.k.value;
    if (operand.name == "v") return site.v.value;
    return operand.name == "o" ? site.o.value : site.dout.value;
}

std::size_t parts_of(const TermOperand& operand, const SearchedTile& site) {
    return is_gradient(operand.stage) ? site.parts->size() : 1;
}

/// What the operand's tile holds; behind the end of a sequence zeros, or hidden scores. Rows of P that no query has are
/// not known.
TileMemory memory_of(const TermOperand& operand, const Problem& problem, const Matrix& known) {
    const std::vector<std::int64_t> lengths = lengths_of(operand, problem);
    TileMemory memory{{}, lengths[1]};
    memory.values.assign(std::size_t(lengths[0] * lengths[1]), operand.ends_in_zeros ? 0 : quiet_nan);
    const double behind = operand.stage == Stage::m ? -infinity : 0;
    for (Eigen::Index i = 0; i < std::min<Eigen::Index>(known.rows(), lengths[0]); ++i)
        for (Eigen::Index j = 0; j < lengths[1]; ++j)
            memory.values[std::size_t(i * lengths[1] + j)] = j < known.cols() ? known(i, j) : behind;
    return memory;
}

double or_zero(const Matrix& operand, Eigen::Index row, Eigen::Index col) {
    return row < operand.rows() && col < operand.cols() ? operand(row, col) : 0;
}

/// What the operand's number of a term is multiplied with, in natural units.
double factor_of(const TermOperand& operand, const SearchedTile& site, std::size_t part, Eigen::Index row,
                 Eigen::Index col, Eigen::Index term) {
    switch (operand.stage) {
        case Stage::s:
            return site.call->problem.sm_scale *
                   (operand.is_left ? or_zero(site.k.value, col, term) : or_zero(site.q.value, row, term));
        case Stage::m:
            return 1;
        case Stage::l:
            return site.call->problem.l_lane(term) == col ? 1 : 0;
        case Stage::acc:
            return operand.is_left ? or_zero(site.v.value, term, col)
                                   : or_zero(site.operand_p.value, row, term);
        case Stage::delta:
            return or_zero(operand.is_left ? site.o.value : site.dout.value, row, term);
        case Stage::dp:
            return operand.is_left ? or_zero(site.v.value, col, term) : or_zero(site.dout.value, row, term);
        default: {
            const GradientPart& of_part = (*site.parts)[part];
            return kernel_unit(operand.stage, site) * (operand.is_left ? or_zero(of_part.b.value, term, col)
                                                                       : or_zero(of_part.a.value, row, term));
        }
    }
}

TermResult result_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                     Eigen::Index col) {
    TermResult result;
    result.numbers = numbers_of(operand, site, row, col);
    const std::int64_t terms = terms_of_sum(site.call->problem, operand.stage);
    for (std::size_t part = 0; part < parts_of(operand, site); ++part)
        for (Eigen::Index t = 0; t < terms; ++t)
            result.factors.push_back(factor_of(operand, site, part, row, col, t));
    result.carried = carried_over(operand.stage, site, row, col);
    result.threshold = site.call->units.m_stale_threshold;
    return result;
}

/// Other extents, by name where they are those of the recording alone.
std::vector<NamedStride> strides_of(const Problem& problem) {
    std::vector<NamedStride> strides = {{"seqlen_q", problem.seqlen_q},
                                        {"seqlen_kv", problem.seqlen_kv},
                                        {"heads_kv", problem.heads_kv},
                                        {"heads", problem.heads}};
    constexpr std::int64_t around = 8;
    std::vector<std::int64_t> numbers;
    for (const std::int64_t extent : {problem.head_dim, problem.head_dim_v, problem.block_n, problem.block_m})
        for (std::int64_t by = -around; by <= around; ++by) numbers.push_back(extent + by);
    std::ranges::sort(numbers);
    numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
    for (const std::int64_t number : numbers)
        if (number > 0) strides.push_back({"", number});
    return strides;
}

/// Elements between the rows of a staged tile that kernels leave free; scores and P before its cast have none.
std::vector<std::int64_t> paddings_of(Stage stage) {
    if (stage == Stage::m || stage == Stage::l) return {0};
    return {0, 8, 4, 2, 1, 16, 3, 5, 6, 7};
}

TermQuestion question_of(const TermOperand& operand, const Problem& problem,
                         const std::vector<WrongSum>& wrong) {
    TermQuestion question;
    question.is_maximum = operand.stage == Stage::m;
    question.term = operand.term();
    question.lengths = lengths_of(operand, problem);
    question.strides = strides_of(problem);
    question.paddings = paddings_of(operand.stage);
    const Observation* seen = nullptr;
    std::size_t first = 0;
    for (const WrongSum& one : wrong) {
        const SearchedTile& site = one.seen->site;
        if (one.seen != seen) {
            seen = one.seen;
            first = question.memories.size();
            for (std::size_t part = 0; part < parts_of(operand, site); ++part)
                question.memories.push_back(memory_of(operand, problem, matrix_of(operand, site, part)));
        }
        question.results.push_back(result_of(operand, site, one.row, one.col));
        question.results.back().memory = first;
        question.results.back().got = one.sum.got;
        question.results.back().error = one.sum.error;
    }
    return question;
}

// ---- the replay

/// A mistake: which terms of which operand are read where.
struct OtherRead {
    TermOperand operand;
    TermRead read;

    /// With the extents of another recording.
    TermRead in(const SearchedTile& site) const {
        TermRead resolved = read;
        for (const NamedStride& stride : strides_of(site.world->recording().problem()))
            if (!stride.name.empty() && stride.name == read.address.stride_name)
                resolved.address.stride = stride.value;
        return resolved;
    }
    /// Whether one staged operand has it for all results.
    bool is_of_operand() const { return operand.stage != Stage::m && !read.address.takes(of_third); }
};

Operand& operand_of(const TermOperand& operand, SearchedTile& site) {
    if (operand.name == "q") return site.q;
    if (operand.name == "k") return site.k;
    if (operand.name == "v") return site.v;
    return operand.name == "o" ? site.o : site.dout;
}

/// The numbers of the operand's tile as its products take them, whole; NaN where that is not known.
Matrix taken(const OtherRead& mistake, const SearchedTile& site, const Matrix& known) {
    const TermOperand& operand = mistake.operand;
    const TermRead read = mistake.in(site);
    const TermAddress right{.padding = read.address.padding};
    const TileMemory memory = memory_of(operand, site.call->problem, known).padded(right.padding);
    const std::vector<std::int64_t> lengths = lengths_of(operand, site.call->problem);
    std::vector<std::int64_t> numbers = numbers_of(operand, site, 0, 0);
    Matrix all(lengths[0], lengths[1]);
    for (numbers[0] = 0; numbers[0] < lengths[0]; ++numbers[0]) {
        for (numbers[1] = 0; numbers[1] < lengths[1]; ++numbers[1]) {
            const bool is_moved = read.holds(numbers[operand.term()]);
            all(numbers[0], numbers[1]) =
                memory.at((is_moved ? read.address : right).of(numbers, lengths[1]));
        }
    }
    return all;
}

Matrix without_nan(const Matrix& values) {
    return values.array().isNaN().select(0, values);
}

/// `values` with the numbers of the operand's tile as they are taken. Row sums take all columns, others those that exist.
void take(const OtherRead& mistake, const SearchedTile& site, Matrix& values) {
    const TermOperand& operand = mistake.operand;
    const bool turned = is_gradient(operand.stage) && operand.axes[0] == Axis::term && operand.is_left;
    Matrix all = without_nan(taken(mistake, site, turned ? Matrix(values.transpose()) : values));
    if (turned) all.transposeInPlace();
    const Eigen::Index cols = operand.stage == Stage::l ? all.cols() : values.cols();
    values = all.topLeftCorner(values.rows(), cols).eval();
}

void take_operand(const OtherRead& mistake, SearchedTile& site) {
    const TermOperand& operand = mistake.operand;
    const auto take_estimate = [&](Estimate& estimate) {
        take(mistake, site, estimate.value);
        take(mistake, site, estimate.error);
    };
    if (is_gradient(operand.stage)) {
        for (GradientPart& part : site.own_parts()) {
            if (!operand.is_left) {
                take(mistake, site, part.b.value);
                continue;
            }
            take_estimate(part.a);
            // What was hidden may be read now, and what is read may be hidden.
            part.scores.setZero();
        }
    } else if (operand.stage == Stage::l) {
        take_estimate(p_added_up(site));
    } else if (operand.name == "p") {
        take_estimate(site.operand_p);
    } else {
        take(mistake, site, operand_of(operand, site).value);
    }
}

/// Of a line of the operand of which an element is not known no result is.
void forget_unknown(const OtherRead& mistake, const SearchedTile& site, Matrix& error) {
    const TermOperand& operand = mistake.operand;
    const std::vector<std::int64_t> lengths = lengths_of(operand, site.call->problem);
    for (std::size_t part = 0; part < parts_of(operand, site); ++part) {
        Matrix ones = matrix_of(operand, site, part);
        ones.setOnes();
        const Matrix all = taken(mistake, site, ones);
        for (Eigen::Index i = 0; i < all.rows(); ++i) {
            for (Eigen::Index j = 0; j < all.cols(); ++j) {
                if (!std::isnan(all(i, j))) continue;
                const Eigen::Index line = operand.term() == 0 ? j : i;
                if (operand.is_left && line < error.rows()) error.row(line).setConstant(infinity);
                if (!operand.is_left && operand.stage == Stage::delta) error.row(line).setConstant(infinity);
                if (!operand.is_left && operand.stage != Stage::delta && line < error.cols())
                    error.col(line).setConstant(infinity);
            }
        }
    }
}

/// One result after the other; NaN where a term is not known.
struct ReadResults {
    Matrix value;
    Matrix magnitude;
};

ReadResults read_results(const OtherRead& mistake, const SearchedTile& site, Eigen::Index rows,
                         Eigen::Index cols) {
    const TermOperand& operand = mistake.operand;
    const TermRead read = mistake.in(site);
    std::vector<TileMemory> memories;
    for (std::size_t part = 0; part < parts_of(operand, site); ++part)
        memories.push_back(memory_of(operand, site.call->problem, matrix_of(operand, site, part))
                               .padded(read.address.padding));
    ReadResults results{Matrix(rows, cols), Matrix(rows, cols)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const ReadResult of = read_result(read, result_of(operand, site, i, j), memories, operand.term(),
                                              operand.stage == Stage::m);
            results.value(i, j) = of.value;
            results.magnitude(i, j) = of.magnitude;
        }
    }
    return results;
}

/// The same bound of terms of another size: what the largest sum is off by, of its own terms, the others are of theirs.
Matrix scaled_errors(const Matrix& error, const Matrix& right, const Matrix& read) {
    Eigen::Index i = 0;
    Eigen::Index j = 0;
    const double most = right.maxCoeff(&i, &j);
    const double relative = most > 0 ? error(i, j) / most : 64 * u_f32;
    return error + relative * (read - right).cwiseMax(0);
}

Change replaces_sums(const OtherRead& mistake) {
    const Stage stage = mistake.operand.stage;
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        Estimate sums = stage == Stage::s ? scaled_scores(*site.call, site.q, site.k) : std::move(result);
        const ReadResults read = read_results(mistake, site, sums.value.rows(), sums.value.cols());
        const ReadResults right =
            read_results({mistake.operand, {}}, site, sums.value.rows(), sums.value.cols());
        sums.value = without_nan(read.value);
        sums.error = scaled_errors(sums.error, right.magnitude, without_nan(read.magnitude));
        result = stage == Stage::s
                     ? dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sums))
                     : std::move(sums);
        result.error = read.value.array().isNaN().select(infinity, result.error);
    }};
}

Change replaces_maxima(const OtherRead& mistake) {
    return {.result = [=](const SearchedTile& site, Estimate& m) {
        const Matrix read = read_results(mistake, site, m.value.rows(), 1).value;
        m.value = without_nan(read);
        m.error = read.unaryExpr([](double most) {
            return std::isnan(most) ? infinity : std::isinf(most) ? 0 : 8 * u_f32 * std::abs(most);
        });
    }};
}

Change change_of(const OtherRead& mistake) {
    if (mistake.operand.stage == Stage::m) return replaces_maxima(mistake);
    if (!mistake.is_of_operand()) return replaces_sums(mistake);
    return {.inputs = [=](SearchedTile& site) { take_operand(mistake, site); },
            .result = [=](const SearchedTile& site,
                          Estimate& sums) { forget_unknown(mistake, site, sums.error); }};
}

Candidate candidate_of(const OtherRead& mistake, const Problem& problem) {
    const TermOperand& operand = mistake.operand;
    const TermNames names(operand);
    const std::int64_t cols = lengths_of(operand, problem)[1];
    const bool is_product = operand.stage != Stage::m && operand.stage != Stage::l;
    Candidate candidate{{{is_product ? "multiplies" : "reads",
                          std::string(operand.name) + mistake.read.address.text(names.all, cols)}},
                        change_of(mistake),
                        1 + mistake.read.parameters()};
    if (mistake.read.only)
        candidate.parameters.push_back({"for", mistake.read.only->text(names.all[operand.term()])});
    return candidate;
}

}  // namespace

std::vector<Candidate> terms_read_elsewhere(const Evidence& evidence) {
    constexpr std::size_t few = 48;
    constexpr std::size_t most = 6;
    std::vector<Candidate> candidates;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, few);
    if (wrong.size() < 4) return candidates;
    for (const TermOperand& operand : term_operands) {
        if (operand.stage != evidence.acts) continue;
        const TermQuestion question = question_of(operand, evidence.problem(), wrong);
        for (const TermRead& read : find_term_reads(question, most))
            candidates.push_back(candidate_of({operand, read}, evidence.problem()));
    }
    return candidates;
}

std::vector<Cause> term_read_causes() {
    return {{"sum_reads_elsewhere",
             "address",
             {Stage::m, Stage::l},
             "the row maximum or the row sum is taken over other elements than those of its row",
             "the index with which the maximum reads the scores, or the sum P",
             terms_read_elsewhere}};
}

}  // namespace tilescope
