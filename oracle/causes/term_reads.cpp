// Terms of sums and maxima that are read at another index than theirs, which may be made of the row, the column and the
// number of the term: index formulas are tried on a few wrong results, and those that nearly all agree with are replayed.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "oracle/causes/table.h"
#include "oracle/causes/term_operands.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/causes/unknown_memory.h"
#include "oracle/solve/term_search.h"

namespace tilescope {

namespace {

/// Other extents, by name where they are those of the recording alone.
std::vector<Expr> strides_of(const Problem& problem) {
    std::vector<Expr> strides = {Coordinate::seqlen_q, Coordinate::seqlen_kv, Coordinate::heads_kv,
                                 Coordinate::heads};
    constexpr std::int64_t around = 8;
    std::vector<std::int64_t> numbers;
    for (const std::int64_t extent : {problem.head_dim, problem.head_dim_v, problem.block_n, problem.block_m})
        for (std::int64_t by = -around; by <= around; ++by) numbers.push_back(extent + by);
    std::ranges::sort(numbers);
    numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
    for (const std::int64_t number : numbers)
        if (number > 0) strides.emplace_back(number);
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
    question.ranges = ranges_of(operand, problem);
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

/// Whole lines of the product that have something wrong, those with the most results.
std::vector<TermLine> lines_of(const TermOperand& operand, const std::vector<WrongSum>& wrong,
                               const TermQuestion& question) {
    constexpr std::size_t few = 4;
    std::map<const Observation*, SlotNumbers> results;
    std::set<std::pair<const Observation*, Eigen::Index>> known;
    std::vector<TermLine> lines;
    for (std::size_t i = 0; i < wrong.size(); ++i) {
        const Observation& seen = *wrong[i].seen;
        const Eigen::Index line = operand.is_left ? wrong[i].row : wrong[i].col;
        if (!known.insert({&seen, line}).second) continue;
        if (!results.contains(&seen)) results[&seen] = product_results(seen);
        lines.push_back(line_of_results(operand, seen.site, results[&seen], line));
        for (TermResult& result : lines.back()) result.memory = question.results[i].memory;
    }
    std::ranges::stable_sort(lines, std::greater(), &TermLine::size);
    if (lines.size() > few) lines.resize(few);
    std::erase_if(lines, [](const TermLine& line) { return line.empty(); });
    return lines;
}

// ---- the replay

/// A mistake: which terms of which operand are read where.
struct OtherRead {
    TermOperand operand;
    TermRead read;

    /// Whether one staged operand has it for all results.
    bool is_of_operand() const { return operand.stage != Stage::m && !read.address.takes(operand.third()); }
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
    const TermAddress right = operand.right(mistake.read.address.padding);
    const TileMemory memory = memory_of(operand, site.call->problem, known).padded(right.padding);
    const std::vector<CoordinateRange> ranges = ranges_of(operand, site.call->problem);
    const std::int64_t cols = ranges[1].length;
    Place place = place_of_term(operand, site, 0, 0);
    Matrix all(ranges[0].length, cols);
    for (Eigen::Index i = 0; i < all.rows(); ++i) {
        for (Eigen::Index j = 0; j < all.cols(); ++j) {
            place[operand.coordinates[0]] = i;
            place[operand.coordinates[1]] = j;
            const bool is_moved = mistake.read.holds(operand.has_terms_down() ? i : j);
            all(i, j) = memory.at((is_moved ? mistake.read.address : right).at(place, cols));
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
    const bool turned = is_gradient(operand.stage) && operand.has_terms_down() && operand.is_left;
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
    } else if (is_product_of_operands(operand.stage)) {
        Matrix all = taken(mistake, site, matrix_of(operand, site, 0));
        fill_unknown(operand, site, all);
        const bool is_p = operand.name == "p";
        if (is_p) take(mistake, site, site.operand_p.error);
        Matrix& values = is_p ? site.operand_p.value : operand_of(operand, site).value;
        values = all.topLeftCorner(values.rows(), values.cols()).eval();
    } else {
        take(mistake, site, operand_of(operand, site).value);
    }
}

/// Of a line of the operand of which an element is not known no result is, but what the others of a product tell.
void forget_unknown(const OtherRead& mistake, const SearchedTile& site, Matrix& error) {
    const TermOperand& operand = mistake.operand;
    if (is_product_of_operands(operand.stage)) {
        const Matrix like = matrix_of(operand, site, 0);
        leave_open_unknown(operand, site, taken(mistake, site, Matrix::Ones(like.rows(), like.cols())),
                           error);
        return;
    }
    for (std::size_t part = 0; part < parts_of(operand, site); ++part) {
        Matrix ones = matrix_of(operand, site, part);
        ones.setOnes();
        const Matrix all = taken(mistake, site, ones);
        for (Eigen::Index i = 0; i < all.rows(); ++i) {
            for (Eigen::Index j = 0; j < all.cols(); ++j) {
                if (!std::isnan(all(i, j))) continue;
                const Eigen::Index line = operand.has_terms_down() ? j : i;
                // Both operands of delta have a row for each of its results.
                const bool names_a_row = operand.is_left || operand.stage == Stage::delta;
                if (names_a_row && line < error.rows()) error.row(line).setConstant(infinity);
                if (!names_a_row && line < error.cols()) error.col(line).setConstant(infinity);
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
    const TermAddress right = operand.right(mistake.read.address.padding);
    std::vector<TileMemory> memories;
    for (std::size_t part = 0; part < parts_of(operand, site); ++part)
        memories.push_back(
            memory_of(operand, site.call->problem, matrix_of(operand, site, part)).padded(right.padding));
    ReadResults results{Matrix(rows, cols), Matrix(rows, cols)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const ReadResult of = read_result(mistake.read, right, result_of(operand, site, i, j), memories,
                                              operand.term(), operand.stage == Stage::m);
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
        const ReadResults right = read_results({mistake.operand, {mistake.operand.right(), {}}}, site,
                                               sums.value.rows(), sums.value.cols());
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
    const std::int64_t cols = ranges_of(operand, problem)[1].length;
    const bool is_product = operand.stage != Stage::m && operand.stage != Stage::l;
    Candidate candidate{
        {{is_product ? "multiplies" : "reads", std::string(operand.name) + mistake.read.address.text(cols)}},
        change_of(mistake),
        1 + mistake.read.choices()};
    if (mistake.read.only)
        candidate.parameters.push_back({"for", mistake.read.only->text(coordinate_name(operand.term()))});
    return candidate;
}

}  // namespace

std::vector<Candidate> terms_read_elsewhere(const Evidence& evidence) {
    constexpr std::size_t few = 48;
    constexpr std::size_t most = 6;
    std::vector<Candidate> candidates;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, few);
    if (wrong.size() < 4) return candidates;
    for (const TermOperand& operand : all_term_operands()) {
        if (operand.stage != evidence.acts) continue;
        const TermQuestion question = question_of(operand, evidence.problem(), wrong);
        std::vector<TermRead> reads = find_term_reads(question, most);
        if (reads.empty() && is_product_of_operands(operand.stage))
            reads = find_unknown_reads(question, lines_of(operand, wrong, question), most);
        for (const TermRead& read : reads)
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
