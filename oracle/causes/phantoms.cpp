#include "oracle/causes/phantoms.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace tilescope {

namespace {

/// Rows of K behind the last key of the batch entry, in the memory of a padded array.
std::optional<Matrix> rows_behind(const Site& site, std::int64_t first, std::int64_t count) {
    const Recording& recording = site.world->recording();
    if (first + count > recording.problem().seqlen_kv) return std::nullopt;
    MatrixF rows(count, site.call->problem.head_dim);
    try {
        recording.read_input(Input::k, site.id.batch, site.call->problem.head_kv(site.id.head), first, count,
                             {rows.data(), std::size_t(rows.size())});
    } catch (const std::exception&) {
        // Packed and paged entries end with their last row.
        return std::nullopt;
    }
    return Matrix(rows.cast<double>());
}

std::optional<Matrix> phantom_rows(const Site& site, PhantomKeys which, std::int64_t first,
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
            return rows_behind(site, first, count);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Estimate> phantom_scores(const Site& site, PhantomKeys which) {
    const HeadCall& own = *site.call;
    const std::int64_t count = own.problem.block_n - site.keys();
    const std::int64_t first = site.first_key + site.keys();
    if (count <= 0) return std::nullopt;
    std::optional<Matrix> rows = phantom_rows(site, which, first, count);
    if (!rows) return std::nullopt;
    if (own.k_descale.size() > 0) *rows *= own.k_descale(own.k_descale.size() - 1);
    HeadCall call = own;
    call.read_bias = nullptr;
    call.visible = [longer = own.problem, count](std::int64_t row, std::int64_t) mutable {
        // A mask that does not end with the keys, around the same diagonal.
        Problem problem = longer;
        problem.seqlen_q += count;
        problem.seqlen_kv += count;
        return visible_keys(problem, row);
    };
    const Operand k{std::move(*rows), site.k.error};
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
