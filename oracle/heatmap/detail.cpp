#include "oracle/heatmap/detail.h"

#include <optional>

#include "oracle/formula/estimate.h"

namespace tilescope {

struct DetailTile::Kept {
    MatrixF got;
    Estimate expected;
    std::optional<Estimate> end_to_end;
};

DetailTile::DetailTile(const ObservedTile& tile)
    : problem_(tile.problem),
      context_(tile.context),
      kept_(new Kept{tile.got, *tile.expected,
                     tile.end_to_end != nullptr ? std::optional(*tile.end_to_end) : std::nullopt}),
      options_(tile.options) {}

ObservedTile DetailTile::view() const {
    return {problem_,         context_, kept_->got,
            &kept_->expected, options_, kept_->end_to_end ? &*kept_->end_to_end : nullptr};
}

std::int64_t DetailTile::rows() const {
    return kept_->got.rows();
}

std::int64_t DetailTile::cols() const {
    return kept_->got.cols();
}

float DetailTile::dumped(std::int64_t row, std::int64_t col) const {
    return kept_->got(row, col);
}

Element DetailTile::element(std::int64_t row, std::int64_t col) const {
    return judged_element(view(), row, col);
}

bool DetailTile::inherits(std::int64_t row, std::int64_t col) const {
    return is_inherited(view(), row, col);
}

Element DetailTile::end_to_end(std::int64_t row, std::int64_t col) const {
    ObservedTile whole = view();
    whole.expected = whole.end_to_end;
    return judged_element(whole, row, col);
}

ElementValue DetailTile::value(Quantity quantity, std::int64_t row, std::int64_t col) const {
    return value_of(view(), quantity, row, col);
}

const QuantityValues& DetailTile::values(Quantity quantity) const {
    const std::scoped_lock lock(mutex_);
    QuantityValues& known = values_[static_cast<std::size_t>(quantity_info(quantity).computed_as)];
    if (known.values.empty()) values_of(view(), quantity, known);
    return known;
}

const DetailTile* DetailTiles::tile(std::int64_t at_down, std::int64_t at_across) const {
    const std::int64_t row = at_down - first_down;
    const std::int64_t col = at_across - first_across;
    if (row < 0 || row >= down || col < 0 || col >= across) return nullptr;
    return tiles[std::size_t(row * across + col)].get();
}

}  // namespace tilescope
