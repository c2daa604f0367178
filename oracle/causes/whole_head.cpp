#include "oracle/causes/whole_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "oracle/causes/signature.h"
#include "oracle/formula/scores.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

bool multiplies_whole_heads(const Evidence& evidence) {
    const CauseSearch& world = *evidence.world;
    // Descales are those of a head's own rows.
    const SideInputs& side = world.recording().side_inputs();
    return !world.has(Stage::q) && !world.has(Stage::k) && side.descale_q.empty() && side.descale_k.empty() &&
           !evidence.problem().is_interleaved();
}

/// All keys of the site's KV head.
Operand keys_of_head(const SearchedTile& site) {
    const HeadCall& call = *site.call;
    Matrix raw = site.world->input_rows(Stage::k, site.id.batch, call.problem.head_kv(site.id.head), 0,
                                        call.problem.seqlen_kv);
    return staged_operand(call, Stage::k, 0, std::move(raw)).natural;
}

/// Rows [first, first + count) of the heads that share the KV head, one after the other; 0 behind them.
Operand rows_of_group(const SearchedTile& site, std::int64_t first, std::int64_t count) {
    const Problem& problem = site.call->problem;
    const std::int64_t group = problem.heads / problem.heads_kv;
    const std::int64_t first_head = site.id.head / group * group;
    Matrix raw = Matrix::Zero(count, problem.head_dim);
    for (std::int64_t i = 0; i < count;) {
        const std::int64_t head = (first + i) / problem.seqlen_q;
        const std::int64_t row = (first + i) % problem.seqlen_q;
        const std::int64_t run = std::min(count - i, problem.seqlen_q - row);
        if (head >= group) break;
        raw.middleRows(i, run) = site.world->input_rows(Stage::q, site.id.batch, first_head + head, row, run);
        i += run;
    }
    HeadCall call = *site.call;
    call.q_descale = Eigen::VectorXd::Ones(count);
    return staged_operand(call, Stage::q, 0, std::move(raw), false).natural;
}

/// The tile's scores where each is that of another place of the group's matrix.
Estimate shifted_scores(const SearchedTile& site, std::int64_t written, std::int64_t read) {
    const HeadCall& call = *site.call;
    const Problem& problem = call.problem;
    const std::int64_t group = problem.heads / problem.heads_kv;
    const std::int64_t first_row = site.id.head % group * problem.seqlen_q + site.first_row;
    const std::int64_t rows = site.rows();
    const std::int64_t keys = site.keys();
    const auto flat = [&](std::int64_t i, std::int64_t j) {
        return (first_row + i) * read + site.first_key + j;
    };
    const std::int64_t top = flat(0, 0) / written;
    const std::int64_t count = flat(rows - 1, keys - 1) / written - top + 1;
    const Estimate all = scaled_scores(call, rows_of_group(site, top, count), keys_of_head(site));
    Estimate scores = zeros(rows, keys);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
            const std::int64_t row = flat(i, j) / written;
            const std::int64_t col = flat(i, j) % written;
            const bool known = row < group * problem.seqlen_q && col < problem.seqlen_kv;
            scores.value(i, j) = known ? all.value(row - top, col) : std::numeric_limits<double>::quiet_NaN();
            scores.error(i, j) = known ? all.error(row - top, col) : 0;
        }
    }
    return dumped_from_scaled(call, site.first_row, site.first_key, std::move(scores));
}

/// Whether the first bad tile is mostly as shifted scores are: those of a large head take long.
bool may_be_shifted(const Evidence& evidence, std::int64_t written, std::int64_t read) {
    const Observation& seen = evidence.seen.front();
    const Estimate shifted = shifted_scores(seen.site, written, read);
    std::int64_t same = 0;
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
            const double off = std::abs(seen.natural(i, j) - shifted.value(i, j));
            same += seen.is_wrong(i, j) && off <= 2 * shifted.error(i, j);
        }
    }
    return 2 * same >= seen.wrong_elements;
}

}  // namespace

std::vector<Candidate> k_of_head_transposed(const Evidence& evidence) {
    if (!multiplies_whole_heads(evidence)) return {};
    const auto change = [](SearchedTile& site) {
        const Matrix all = keys_of_head(site).value;
        Matrix& k = site.k.value;
        for (Eigen::Index key = 0; key < k.rows(); ++key) {
            for (Eigen::Index d = 0; d < k.cols(); ++d) {
                const Eigen::Index flat = d * all.rows() + site.first_key + key;
                k(key, d) = all(flat / all.cols(), flat % all.cols());
            }
        }
    };
    return {{{{"block", "head"}}, {.inputs = change}}};
}

std::vector<Candidate> scores_of_head_shifted(const Evidence& evidence) {
    if (!multiplies_whole_heads(evidence) || !evidence.direct() || !evidence.seen.front().is_bad()) return {};
    const std::int64_t keys = evidence.call().problem.seqlen_kv;
    std::set<std::int64_t> pitches;
    for (const std::int64_t multiple : {4, 8, 16, 32, 64, 128})
        pitches.insert((keys + multiple - 1) / multiple * multiple);
    std::vector<Candidate> candidates;
    for (const std::int64_t pitch : pitches) {
        if (pitch == keys) continue;
        for (const auto& [written, read] : {std::pair{keys, pitch}, std::pair{pitch, keys}}) {
            if (!may_be_shifted(evidence, written, read)) continue;
            const auto change = [written = written, read = read](const SearchedTile& site, Estimate& s) {
                s = shifted_scores(site, written, read);
            };
            candidates.push_back({{{"scores written with", digits(written)}, {"read with", digits(read)}},
                                  {.result = change},
                                  1});
        }
    }
    return candidates;
}

}  // namespace tilescope
