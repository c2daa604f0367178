#include "oracle/causes/phantoms.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Rows of K behind the last key of the batch entry, in the memory of a padded array. Behind the array come
/// zeros, or the next head of [batch][heads_kv][rows].
std::optional<Matrix> rows_behind(const SearchedTile& site, std::int64_t first, std::int64_t count,
                                  bool flows) {
    const Recording& recording = site.world->recording();
    const Problem& padded = recording.problem();
    const std::int64_t inside = std::clamp<std::int64_t>(padded.seqlen_kv - first, 0, count);
    if (flows ? inside == count : inside == 0) return std::nullopt;
    MatrixF rows = MatrixF::Zero(count, padded.head_dim);
    const auto read = [&](std::int64_t place, std::int64_t from, std::int64_t many, std::int64_t to) {
        if (many > 0)
            recording.read_input(Input::k, place / padded.heads_kv, place % padded.heads_kv, from, many,
                                 {rows.row(to).data(), std::size_t(many * padded.head_dim)});
    };
    const std::int64_t place = site.id.batch * padded.heads_kv + padded.head_kv(site.id.head);
    try {
        read(place, first, inside, 0);
        if (flows) {
            if (place + 1 == padded.batch * padded.heads_kv) return std::nullopt;
            read(place + 1, 0, std::min(count - inside, padded.seqlen_kv), inside);
        }
    } catch (const std::exception&) {
        // Packed and paged entries end with their last row.
        return std::nullopt;
    }
    return Matrix(rows.cast<double>());
}

std::optional<Matrix> phantom_rows(const SearchedTile& site, PhantomKeys which, std::int64_t first,
                                   std::int64_t count) {
    const std::int64_t block = site.call->problem.block_n;
    switch (which) {
        case PhantomKeys::zeros:
            return Matrix::Zero(count, site.call->problem.head_dim);
        case PhantomKeys::of_tile_before:
            if (first < block) return std::nullopt;
            return site.world->input_rows(Stage::k, site.id.batch, site.call->problem.head_kv(site.id.head),
                                          first - block, count);
        case PhantomKeys::next_in_memory:
            return rows_behind(site, first, count, false);
        case PhantomKeys::of_next_head:
            return rows_behind(site, first, count, true);
        case PhantomKeys::nan:
            return Matrix::Constant(count, site.call->problem.head_dim,
                                    std::numeric_limits<double>::quiet_NaN());
    }
    return std::nullopt;
}

}  // namespace

std::optional<Estimate> phantom_scores(const SearchedTile& site, PhantomKeys which) {
    const HeadCall& own = *site.call;
    const std::int64_t count = own.problem.block_n - site.keys();
    const std::int64_t first = site.first_key + site.keys();
    if (count <= 0) return std::nullopt;
    std::optional<Matrix> rows = phantom_rows(site, which, first, count);
    if (!rows) return std::nullopt;
    HeadCall call = own;
    const Eigen::Index known = own.k_descale.size();
    call.k_descale.conservativeResize(std::max<Eigen::Index>(known, first + count));
    call.k_descale.tail(call.k_descale.size() - known).setConstant(own.k_descale(known - 1));
    call.read_bias = nullptr;
    call.visible = [longer = own.problem, count](std::int64_t row, std::int64_t) mutable {
        // A mask that does not end with the keys, around the same diagonal.
        Problem problem = longer;
        problem.seqlen_q += count;
        problem.seqlen_kv += count;
        return visible_keys(problem, row);
    };
    const Operand k = staged_operand(call, Stage::k, first, std::move(*rows), false).natural;
    return finish_scores(call, site.first_row, first, dumped_scores(call, site.first_row, first, site.q, k));
}

void append_columns(const Estimate& more, Estimate& all) {
    const Eigen::Index before = all.value.cols();
    all.value.conservativeResize(Eigen::NoChange, before + more.value.cols());
    all.error.conservativeResize(Eigen::NoChange, before + more.error.cols());
    all.value.rightCols(more.value.cols()) = more.value;
    all.error.rightCols(more.error.cols()) = more.error;
}

}  // namespace tilescope
