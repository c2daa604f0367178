#include "oracle/causes/unknown_memory.h"

#include <cmath>
#include <functional>

#include "oracle/solve/unknown_terms.h"

namespace tilescope {

namespace {

/// A line of the product that takes unknown numbers, and what its results say of them.
struct UnknownLine {
    Eigen::Index line = 0;
    std::vector<Eigen::Index> terms;  ///< of which the number is not known
    Eigen::VectorXd left;             ///< of each result: less what is known
    Eigen::VectorXd error;
    UnknownTerms unknown;
};

double& element_at(const TermOperand& operand, Matrix& taken, Eigen::Index line, Eigen::Index term) {
    return operand.has_terms_down() ? taken(term, line) : taken(line, term);
}

void for_each_unknown_line(const TermOperand& operand, const SearchedTile& site, const Matrix& taken,
                           const std::function<void(const UnknownLine&)>& see) {
    if (!taken.hasNaN()) return;
    const std::optional<SlotNumbers> dumped = dumped_product_results(operand.stage, site);
    if (!dumped) return;
    const Matrix lines = operand.has_terms_down() ? Matrix(taken.transpose()) : taken;
    const Eigen::Index count = operand.is_left ? dumped->taken.rows() : dumped->taken.cols();
    const Eigen::Index results = operand.is_left ? dumped->taken.cols() : dumped->taken.rows();
    for (Eigen::Index line = 0; line < std::min(count, lines.rows()); ++line) {
        UnknownLine next;
        next.line = line;
        for (Eigen::Index t = 0; t < lines.cols(); ++t)
            if (std::isnan(lines(line, t))) next.terms.push_back(t);
        if (next.terms.empty()) continue;
        Eigen::MatrixXd factors(results, Eigen::Index(next.terms.size()));
        next.left.resize(results);
        next.error.resize(results);
        std::vector<bool> is_known;
        for (Eigen::Index n = 0; n < results; ++n) {
            const Eigen::Index row = operand.is_left ? line : n;
            const Eigen::Index col = operand.is_left ? n : line;
            const TermResult result = result_of(operand, site, row, col);
            const Eigen::Map<const Eigen::VectorXd> of_terms(result.factors.data(),
                                                             Eigen::Index(result.factors.size()));
            factors.row(n) = of_terms(next.terms).transpose();
            double known = 0;
            for (Eigen::Index t = 0; t < lines.cols(); ++t)
                if (of_terms(t) != 0 && !std::isnan(lines(line, t))) known += of_terms(t) * lines(line, t);
            next.left(n) = dumped->taken(row, col) - known;
            next.error(n) = dumped->error(row, col);
            is_known.push_back(std::isfinite(next.left(n)));
        }
        next.unknown = spend_sums(factors, is_known);
        see(next);
    }
}

}  // namespace

bool is_product_of_operands(Stage stage) {
    return stage == Stage::s || stage == Stage::acc || stage == Stage::dp;
}

TermLine line_of_results(const TermOperand& operand, const SearchedTile& site, const SlotNumbers& results,
                         Eigen::Index line) {
    TermLine all;
    const Eigen::Index count = operand.is_left ? results.taken.cols() : results.taken.rows();
    for (Eigen::Index n = 0; n < count; ++n) {
        const Eigen::Index row = operand.is_left ? line : n;
        const Eigen::Index col = operand.is_left ? n : line;
        if (!std::isfinite(results.taken(row, col))) continue;
        TermResult next = result_of(operand, site, row, col);
        next.carried = 0;
        next.got = results.taken(row, col);
        next.error = results.error(row, col);
        all.push_back(std::move(next));
    }
    return all;
}

void fill_unknown(const TermOperand& operand, const SearchedTile& site, Matrix& taken) {
    const Matrix known = taken;
    taken = known.array().isNaN().select(0, known);
    for_each_unknown_line(operand, site, known, [&](const UnknownLine& line) {
        const Eigen::VectorXd found = line.unknown.from_spent * line.left(line.unknown.spent);
        for (std::size_t i = 0; i < line.terms.size(); ++i)
            element_at(operand, taken, line.line, line.terms[i]) = found(Eigen::Index(i));
    });
}

void leave_open_unknown(const TermOperand& operand, const SearchedTile& site, const Matrix& taken,
                        Matrix& error) {
    for_each_unknown_line(operand, site, taken, [&](const UnknownLine& line) {
        for (Eigen::Index n = 0; n < line.left.size(); ++n) {
            double& of = operand.is_left ? error(line.line, n) : error(n, line.line);
            of = line.unknown.open[std::size_t(n)] ? infinity : of + line.unknown.error(n, line.error);
        }
    });
}

}  // namespace tilescope
