#include "oracle/solve/tile_index.h"

#include <algorithm>
#include <utility>

#include "oracle/describe/edits.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

/// Fewer tell no index.
constexpr std::int64_t fewest_stored = 6;
constexpr std::int64_t most_longer = 32;

/// How often a number stands at another one's place: counts[number][place].
class PlaceCounts {
 public:
    PlaceCounts(std::int64_t numbers, std::int64_t first, std::int64_t places)
        : first_(first), places_(places), counts_(std::size_t(numbers * places)) {}

    void add(std::int64_t number, std::int64_t place) {
        if (has(place)) ++counts_[at(number, place)];
    }

    std::int64_t agreeing(const Expr& form, Coordinate of) const {
        std::int64_t count = 0;
        for (std::int64_t number = 0; number < std::ssize(counts_) / places_; ++number) {
            const std::int64_t place = form.at(of, number);
            if (has(place)) count += counts_[at(number, place)];
        }
        return count;
    }

 private:
    bool has(std::int64_t place) const { return place >= first_ && place < first_ + places_; }
    std::size_t at(std::int64_t number, std::int64_t place) const {
        return std::size_t(number * places_ + place - first_);
    }

    std::int64_t first_;
    std::int64_t places_;
    std::vector<std::int32_t> counts_;
};

struct Agreed {
    std::int64_t samples = 0;
    AddressMap index;
};

AddressMap index_of(const Expr& row, const Expr& col, std::int64_t ld, const TileAxes& axes, int parameters) {
    return {{{row, col}, {Expr(ld)}}, axes, parameters};
}

void add_forms_of_col(std::span<const AddressSample> samples, std::int64_t cols, std::int64_t ld,
                      const TileAxes& axes, std::vector<Agreed>& agreed) {
    // The end of a row may run on into the next ones.
    PlaceCounts counts(cols, -cols, 4 * cols);
    for (const AddressSample& sample : samples)
        for (const std::int64_t source : sample.sources) counts.add(sample.col, source - sample.row * ld);
    for (const Expr& col : edits_of({axes.along, cols}, cols))
        agreed.push_back(
            {counts.agreeing(col, axes.along), index_of(axes.down, col, ld, axes, col.choices())});
}

void add_forms_of_row(std::span<const AddressSample> samples, std::int64_t rows, std::int64_t ld,
                      const TileAxes& axes, std::vector<Agreed>& agreed) {
    PlaceCounts counts(rows, 0, rows);
    for (const AddressSample& sample : samples)
        for (const std::int64_t source : sample.sources)
            if (source % ld == sample.col) counts.add(sample.row, source / ld);
    for (const Expr& row : edits_of({axes.down, rows}, rows))
        agreed.push_back(
            {counts.agreeing(row, axes.down), index_of(row, axes.along, ld, axes, row.choices())});
}

/// The row in place of the column, and the other way round.
void add_other_number(std::span<const AddressSample> samples, std::int64_t ld, const TileAxes& axes,
                      std::vector<Agreed>& agreed) {
    for (const auto number : {&AddressSample::col, &AddressSample::row}) {
        const Coordinate of = number == &AddressSample::col ? axes.along : axes.down;
        const auto samples_there = std::ranges::count_if(samples, [&](const AddressSample& sample) {
            return std::ranges::binary_search(sample.sources, sample.*number * (ld + 1));
        });
        agreed.push_back({samples_there, index_of(of, of, ld, axes, 0)});
    }
}

/// Rows that are longer than those that are read, or shorter.
void add_strides(std::span<const AddressSample> samples, std::int64_t ld, const TileAxes& axes,
                 std::vector<Agreed>& agreed) {
    const std::int64_t most = std::min(ld - 1, most_longer);
    std::vector<std::int64_t> counts(std::size_t(2 * most + 1));
    for (const AddressSample& sample : samples) {
        for (const std::int64_t source : sample.sources) {
            const std::int64_t moved = source - sample.row * ld - sample.col;
            if (sample.row == 0 || moved % sample.row != 0 || std::abs(moved / sample.row) > most) continue;
            ++counts[std::size_t(moved / sample.row + most)];
        }
    }
    for (std::int64_t longer = -most; longer <= most; ++longer) {
        if (longer == 0) continue;
        const Expr by = std::abs(longer) == 1 ? Expr(axes.down) : Expr(axes.down) * std::abs(longer);
        agreed.push_back({counts[std::size_t(longer + most)],
                          index_of(axes.down, longer < 0 ? axes.along - by : axes.along + by, ld, axes, 1)});
    }
}

}  // namespace

std::vector<AddressMap> find_tile_indices(std::span<const AddressSample> samples, std::int64_t rows,
                                          std::int64_t cols, std::int64_t ld, const TileAxes& axes,
                                          std::size_t most) {
    for (const AddressSample& sample : samples) spend(32 + 32 * std::ssize(sample.sources));
    std::vector<Agreed> agreed;
    add_other_number(samples, ld, axes, agreed);
    add_strides(samples, ld, axes, agreed);
    add_forms_of_col(samples, cols, ld, axes, agreed);
    add_forms_of_row(samples, rows, ld, axes, agreed);
    std::erase_if(agreed, [](const Agreed& one) { return one.samples < fewest_stored; });
    std::ranges::stable_sort(agreed, [](const Agreed& a, const Agreed& b) {
        return a.samples != b.samples ? a.samples > b.samples : a.index.parameters < b.index.parameters;
    });
    std::vector<AddressMap> best;
    for (Agreed& one : agreed)
        if (best.size() < most) best.push_back(std::move(one.index));
    return best;
}

}  // namespace tilescope
