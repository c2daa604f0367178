#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "oracle/causes/signature.h"

namespace tilescope {

namespace {

/// What an element holds that was left out.
enum class Left { zero, unwritten, before };
constexpr Left all_left[] = {Left::zero, Left::unwritten, Left::before};

const char* name_of(Left left) {
    return left == Left::zero ? "0" : left == Left::unwritten ? "unwritten" : "as before the tile";
}

std::optional<double> value_of(Left left, const Site& site, Stage stage, Eigen::Index row, Eigen::Index col) {
    if (left == Left::zero) return 0.0;
    if (left == Left::unwritten) return double(std::bit_cast<float>(unwritten_bits));
    if (stage == Stage::acc) return site.acc_before.value(row, col);
    if (stage == Stage::l) return site.l_before.value(row, col);
    return std::nullopt;
}

bool holds(Left left, const Observation& seen, Eigen::Index row, Eigen::Index col) {
    const auto value = value_of(left, seen.site, seen.context.stage, row, col);
    if (!value) return false;
    const float got = seen.got(row, col);
    return is_unwritten(float(*value)) ? is_unwritten(got) : seen.natural(row, col) == *value;
}

/// Columns, or rows, of the first bad tile in which every element is left out, and some should not be.
std::vector<bool> left_out(const Observation& seen, Left left, bool columns) {
    const Eigen::Index lines = columns ? seen.got.cols() : seen.got.rows();
    const Eigen::Index length = columns ? seen.got.rows() : seen.got.cols();
    std::vector<bool> out(static_cast<std::size_t>(lines));
    for (Eigen::Index line = 0; line < lines; ++line) {
        bool all = true;
        bool any = false;
        for (Eigen::Index i = 0; i < length && all; ++i) {
            const Eigen::Index row = columns ? i : line;
            const Eigen::Index col = columns ? line : i;
            all = holds(left, seen, row, col) ||
                  (left == Left::unwritten && !seen.is_wrong(row, col) && seen.expected.value(row, col) == 0);
            any = any || seen.is_wrong(row, col);
        }
        out[std::size_t(line)] = all && any;
    }
    return out;
}

Change leaves_out(Stage stage, Left left, std::function<bool(Eigen::Index, Eigen::Index)> is_out) {
    return {.result = [=, is_out = std::move(is_out)](const Site& site, Estimate& e) {
        for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
                const auto value = is_out(i, j) ? value_of(left, site, stage, i, j) : std::nullopt;
                if (!value) continue;
                e.value(i, j) = *value;
                e.error(i, j) = 0;
            }
        }
    }};
}

bool is_periodic(const Places& places) {
    return places.period > 0;
}

using Shape = std::function<bool(Left, const Places&, std::int64_t length)>;

/// Lines of the first bad tile that were left out, where they have the shape.
std::vector<Candidate> lines_left_out(const Evidence& evidence, bool columns, const Shape& shape) {
    std::vector<Candidate> candidates;
    if (!evidence.direct() || !evidence.seen.front().is_bad()) return {};
    for (const Left left : all_left) {
        const std::vector<bool> out = left_out(evidence.seen.front(), left, columns);
        const auto places = places_of(out);
        if (!places || !shape(left, *places, std::ssize(out))) continue;
        candidates.push_back({{{columns ? "columns" : "rows", to_string(*places)}, {"left", name_of(left)}},
                              leaves_out(evidence.acts, left,
                                         [=, places = *places](Eigen::Index row, Eigen::Index col) {
                                             return places.contains(columns ? col : row);
                                         }),
                              1});
    }
    return candidates;
}

std::vector<Candidate> lane_stride(const Evidence& evidence) {
    return lines_left_out(evidence, true, [](Left, const Places& p, std::int64_t) { return is_periodic(p); });
}

std::vector<Candidate> unwritten_stripes(const Evidence& evidence) {
    return lines_left_out(evidence, true, [](Left left, const Places& p, std::int64_t) {
        return left == Left::unwritten && is_periodic(p);
    });
}

std::vector<Candidate> unwritten_rows(const Evidence& evidence) {
    return lines_left_out(evidence, false,
                          [](Left left, const Places&, std::int64_t) { return left == Left::unwritten; });
}

std::vector<Candidate> any_columns(const Evidence& evidence) {
    return lines_left_out(evidence, true,
                          [](Left, const Places& p, std::int64_t length) { return p.count < length; });
}

std::vector<Candidate> any_rows(const Evidence& evidence) {
    return lines_left_out(evidence, false,
                          [](Left, const Places& p, std::int64_t length) { return p.count < length; });
}

}  // namespace

std::vector<Candidate> first_fragment_left(const Evidence& evidence) {
    std::vector<Candidate> candidates =
        lines_left_out(evidence, true, [](Left, const Places& p, std::int64_t length) {
            return !is_periodic(p) && p.first > 0 && p.first + p.count == length;
        });
    if (!evidence.direct()) return candidates;
    for (const Left left : all_left) {
        if (left == Left::before) continue;
        for (const std::int64_t size : {8, 16, 32}) {
            candidates.push_back(
                {{{"right", "the first " + digits(size) + " x " + digits(size)}, {"others", name_of(left)}},
                 leaves_out(evidence.acts, left,
                            [=](Eigen::Index row, Eigen::Index col) { return row >= size || col >= size; }),
                 1});
        }
    }
    return candidates;
}

std::vector<Cause> coverage_causes() {
    const std::vector<Stage> ends = {Stage::acc, Stage::o};
    return {
        {"p_lane_stride",
         "unwritten / stale",
         {Stage::p},
         "lanes fill P with a stride that leaves columns out",
         "the stride with which the lanes of a row fill P",
         lane_stride},
        {"columns_uncovered", "coverage", ends, "columns are left out",
         "the columns that warps and lanes cover", any_columns},
        {"rows_uncovered", "coverage", ends, "rows are left out", "the rows that warps cover, and the grid",
         any_rows},
        {"unwritten_stripes",
         "unwritten / stale",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::l, Stage::lse},
         "columns at a stride are never written",
         "the stride of the lanes that write, and that of the hook",
         unwritten_stripes},
        {"unwritten_rows",
         "unwritten / stale",
         {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::lse},
         "rows are never written",
         "the rows that the writing threads cover",
         unwritten_rows},
    };
}

}  // namespace tilescope
