#include "oracle/causes/phantoms.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Rows of K or V behind the last key of the batch entry, in the memory of a padded array. Behind the array come
/// zeros, or the next head of [batch][heads_kv][rows].
std::optional<Matrix> rows_behind(const SearchedTile& site, Stage operand, std::int64_t first,
                                  std::int64_t count, bool flows) {
    const Recording& recording = site.world->recording();
    const Problem& padded = recording.problem();
    const std::int64_t inside = std::clamp<std::int64_t>(padded.seqlen_kv - first, 0, count);
    if (flows ? inside == count : inside == 0) return std::nullopt;
    const std::int64_t cols = tile_shape(padded, operand).cols;
    MatrixF rows = MatrixF::Zero(count, cols);
    const auto read = [&](std::int64_t place, std::int64_t from, std::int64_t many, std::int64_t to) {
        if (many > 0)
            recording.read_input(input_of(operand), place / padded.heads_kv, place % padded.heads_kv, from,
                                 many, {rows.row(to).data(), std::size_t(many * cols)});
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

}  // namespace

std::optional<Matrix> phantom_rows(const SearchedTile& site, Stage operand, PhantomKeys which,
                                   std::int64_t first, std::int64_t count) {
    const Problem& problem = site.call->problem;
    const std::int64_t cols = tile_shape(problem, operand).cols;
    const auto rows_of = [&](std::int64_t row, std::int64_t many) {
        return site.world->input_rows(operand, site.id.batch, problem.head_kv(site.id.head), row, many);
    };
    switch (which) {
        case PhantomKeys::zeros:
            return Matrix::Zero(count, cols);
        case PhantomKeys::of_tile_before:
            if (first < problem.block_n) return std::nullopt;
            return rows_of(first - problem.block_n, count);
        case PhantomKeys::next_in_memory:
            return rows_behind(site, operand, first, count, false);
        case PhantomKeys::of_next_head:
            return rows_behind(site, operand, first, count, true);
        case PhantomKeys::last_key:
            return Matrix(rows_of(first - 1, 1).replicate(count, 1));
        case PhantomKeys::nan:
            return Matrix::Constant(count, cols, std::numeric_limits<double>::quiet_NaN());
    }
    return std::nullopt;
}

HeadCall with_phantom_keys(const HeadCall& own, std::int64_t count) {
    HeadCall call = own;
    for (Eigen::VectorXd* descale : {&call.k_descale, &call.v_descale}) {
        const Eigen::Index known = descale->size();
        descale->conservativeResize(known + count);
        descale->tail(count).setConstant((*descale)(known - 1));
    }
    call.read_bias = nullptr;
    call.visible = [longer = own.problem, count](std::int64_t row, std::int64_t) mutable {
        Problem problem = longer;
        problem.seqlen_q += count;
        problem.seqlen_kv += count;
        return visible_keys(problem, row);
    };
    return call;
}

std::optional<Estimate> phantom_scores(const SearchedTile& site, PhantomKeys which) {
    const HeadCall& own = *site.call;
    const std::int64_t count = own.problem.block_n - site.keys();
    const std::int64_t first = site.first_key + site.keys();
    if (count <= 0) return std::nullopt;
    std::optional<Matrix> rows = phantom_rows(site, Stage::k, which, first, count);
    if (!rows) return std::nullopt;
    const HeadCall call = with_phantom_keys(own, count);
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
