// Row sums that add up other elements of P than those of their row.

#include <algorithm>
#include <cmath>

#include "oracle/causes/other_places.h"
#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// Where in P, whose rows of block_n columns lie one behind the other, a sum reads the element of its row and column.
struct SumAddress {
    std::string text;
    std::function<std::int64_t(std::int64_t row, std::int64_t col)> of;
};

std::vector<SumAddress> sum_addresses(std::int64_t rows, std::int64_t cols) {
    using I = std::int64_t;
    std::vector<SumAddress> all = {
        {"col * block_n + row", [=](I row, I col) { return col * cols + row; }},
        {"col * block_m + row", [=](I row, I col) { return col * rows + row; }},
        {"row * block_m + col", [=](I row, I col) { return row * rows + col; }},
    };
    for (const I n : {2, 4}) {
        all.push_back(
            {"row * block_n + col * " + digits(n), [=](I row, I col) { return row * cols + col * n; }});
        all.push_back(
            {"row * block_n + col / " + digits(n), [=](I row, I col) { return row * cols + col / n; }});
        all.push_back(
            {"row * block_n * " + digits(n) + " + col", [=](I row, I col) { return row * n * cols + col; }});
    }
    for (const OtherPlace& row : other_places("row", rows))
        all.push_back(
            {"(" + row.text + ") * block_n + col", [=](I r, I col) { return row.from(r) * cols + col; }});
    for (const OtherPlace& col : other_places("col", cols))
        all.push_back(
            {"row * block_n + (" + col.text + ")", [=](I row, I c) { return row * cols + col.from(c); }});
    return all;
}

/// P as the sum reads it. Past seqlen_kv it is 0; of what lies beyond its rows nothing is known.
Estimate read_at(const SumAddress& address, const Estimate& p, std::int64_t cols) {
    Estimate read = zeros(p.value.rows(), cols);
    for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const std::int64_t at = address.of(i, j);
            const bool known = at >= 0 && at / cols < p.value.rows();
            if (!known) read.error(i, j) = infinity;
            if (!known || at % cols >= p.value.cols()) continue;
            read.value(i, j) = p.value(at / cols, at % cols);
            read.error(i, j) = p.error(at / cols, at % cols);
        }
    }
    return read;
}

Change reads_at(const SumAddress& address) {
    return {.inputs = [=](SearchedTile& site) {
        Estimate& p = site.call->units.l_sums_cast_p ? site.operand_p : site.p;
        p = read_at(address, p, site.call->problem.block_n);
    }};
}

/// Whether most of the wrong sums of the tile, as far as they are known, are those of the change.
bool may_be(const Observation& seen, const Change& change) {
    const Estimate l = expected_with({&change, 1}, Stage::l, seen.site);
    std::int64_t tried = 0;
    std::int64_t right = 0;
    for (Eigen::Index i = 0; i < l.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < l.value.cols(); ++j) {
            if (!seen.is_wrong(i, j) || !std::isfinite(l.error(i, j))) continue;
            ++tried;
            right += std::abs(l.value(i, j) - seen.natural(i, j)) <= 2 * l.error(i, j);
        }
    }
    return tried >= 4 && right * 10 >= tried * 9;
}

std::vector<Candidate> sum_reads_elsewhere(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    const Observation& seen = evidence.seen.front();
    if (!evidence.direct() || !evidence.known.empty() || !seen.is_bad()) return candidates;
    for (const SumAddress& address : sum_addresses(evidence.problem().block_m, evidence.problem().block_n)) {
        Change change = reads_at(address);
        if (may_be(seen, change)) candidates.push_back({{{"reads", address.text}}, std::move(change), 1});
    }
    return candidates;
}

}  // namespace

std::vector<Cause> sum_address_causes() {
    return {{"sum_reads_elsewhere",
             "address",
             {Stage::l},
             "the row sum adds up other elements of P than those of its row",
             "the index with which the sum reads P",
             sum_reads_elsewhere}};
}

}  // namespace tilescope
