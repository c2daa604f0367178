#include "oracle/causes/slots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "dump/schema/rounding.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/scores.h"

namespace tilescope {

namespace {

// ---- what the stage itself holds

bool is_any(const Evidence&) {
    return true;
}

SlotNumbers held(const Observation& seen) {
    // Of a number that was rounded as it was stored, what another one in its place may be off by is its own.
    const Stage stage = seen.context.stage;
    const Dtype stored = is_output(stage) ? stage_dtype(seen.site.call->problem, stage) : Dtype::f32;
    SlotNumbers numbers{seen.expected.value, seen.got.cast<double>(), seen.expected.error};
    for (Eigen::Index i = 0; i < seen.got.size(); ++i)
        numbers.error.data()[i] += cast_bound(stored, std::abs(double(seen.got.data()[i])));
    return numbers;
}

Change holds(Stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) { estimate = read(site, estimate); }};
}

/// Where nothing is done with a product it is what the stage holds.
bool is_product_finished(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const HeadCall& call = evidence.call();
    const bool hides = problem.mask != Mask::none || problem.window_left >= 0 || problem.window_right >= 0;
    return evidence.observed == Stage::s && (hides || call.capped() || call.biased());
}
bool is_acc(const Evidence& evidence) {
    return evidence.observed == Stage::acc;
}

Change adds(Stage stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& sums) {
        Matrix before(sums.value.rows(), sums.value.cols());
        for (Eigen::Index i = 0; i < before.rows(); ++i)
            for (Eigen::Index j = 0; j < before.cols(); ++j) before(i, j) = carried_over(stage, site, i, j);
        sums.value -= before;
        sums = read(site, sums);
        sums.value += before;
    }};
}

/// The products before cap, bias and mask. What is not known stays as it is, and what is computed of it is open.
Change takes_products(Stage, const Reader& read) {
    const auto is_open = [](double error) { return std::isinf(error); };
    return {.inputs =
                [=](SearchedTile& site) {
                    Estimate own = site.scaled.value.size() > 0 ? site.scaled
                                                                : scaled_scores(*site.call, site.q, site.k);
                    const Estimate taken = read(site, own);
                    for (Eigen::Index i = 0; i < own.value.size(); ++i) {
                        if (is_open(taken.error.data()[i])) continue;
                        own.value.data()[i] = taken.value.data()[i];
                        own.error.data()[i] = taken.error.data()[i];
                    }
                    site.scaled = std::move(own);
                },
            .result =
                [=](const SearchedTile& site, Estimate& result) {
                    result.error = read(site, result).error.unaryExpr(is_open).select(infinity, result.error);
                }};
}

const std::array slots = {
    Slot{is_any, "holds", held, holds},
    Slot{is_product_finished, "adds", scores_before_cap, takes_products},
    Slot{is_acc, "adds", product_results, adds},
};

// ---- a kernel that reads it elsewhere

struct ReadNumber {
    Eigen::Index row;
    Eigen::Index col;
};

/// The number that an element reads, of so many; nullopt: it is not known.
std::optional<ReadNumber> number_at(const std::optional<std::int64_t>& address, std::int64_t ld,
                                    Eigen::Index rows, Eigen::Index cols) {
    if (!address || *address < 0 || *address / ld >= rows || *address % ld >= cols) return std::nullopt;
    return ReadNumber{*address / ld, *address % ld};
}

/// A tile's numbers as they are read.
Estimate read_from(const Estimate& right, const SearchedTile& site, std::int64_t ld, const ReadAt& at) {
    Estimate read = right;
    for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
            const auto from = number_at(at(site, i, j), ld, right.value.rows(), right.value.cols());
            if (from) read.value(i, j) = right.value(from->row, from->col);
            read.error(i, j) = from ? right.error(from->row, from->col) : infinity;
        }
    }
    return read;
}

}  // namespace

std::span<const Slot> all_slots() {
    return slots;
}

Change reads_slot(const Slot& slot, Stage stage, const ReadAt& at) {
    return slot.reads(stage, [=](const SearchedTile& site, const Estimate& right) {
        return read_from(right, site, tile_shape(site.call->problem, stage).cols, at);
    });
}

}  // namespace tilescope
