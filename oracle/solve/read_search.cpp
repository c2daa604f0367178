#include "oracle/solve/read_search.h"

#include "oracle/describe/edits.h"
#include "oracle/solve/effort.h"

namespace tilescope {

namespace {

constexpr std::int64_t cost_of_read = 36;

std::vector<ReadAddress> other_addresses(const ReadQuestion& question) {
    constexpr std::int64_t most = 64;
    const ReadAddress own = question.right();
    std::vector<ReadAddress> all;
    for (const Expr& row : edits_with(question.ranges[0], question.ranges, most))
        all.push_back({row, own.col});
    for (const Expr& col : edits_with(question.ranges[1], question.ranges, most))
        all.push_back({own.row, col});
    all.push_back({own.col, own.row});
    return all;
}

double number_at(const ReadQuestion& question, const TakenNumber& taken, const ReadAddress& address) {
    const TileMemory& memory = question.memories[taken.memory];
    return memory.at(address.at(taken.place, memory.cols));
}

/// The first ones are of tiles far apart.
std::vector<const TakenNumber*> in_steps(const std::vector<TakenNumber>& numbers) {
    constexpr std::size_t step = 8;
    std::vector<const TakenNumber*> order;
    for (std::size_t first = 0; first < step; ++first)
        for (std::size_t i = first; i < numbers.size(); i += step) order.push_back(&numbers[i]);
    return order;
}

/// At most an eighth may be otherwise, at any time: most addresses are out of the running after one number.
bool agree(const ReadQuestion& question, const std::vector<const TakenNumber*>& numbers,
           const ReadAddress& address) {
    // What most numbers are read beyond the tile for is not worth asking the others.
    constexpr std::size_t enough = 12;
    std::size_t tried = 0;
    std::size_t off = 0;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
        spend(cost_of_read);
        const double value = number_at(question, *numbers[n], address);
        if (!std::isnan(value)) {
            ++tried;
            off += !numbers[n]->fits(value);
        }
        if (off * 8 > tried || (n >= enough && tried * 4 < n)) return false;
    }
    return tried >= std::min<std::size_t>(6, std::max<std::size_t>(numbers.size() / 3, 3));
}

/// Zeros stand in many places, and say as little as what is read where it should be.
bool tells(const ReadQuestion& question, const ReadAddress& address) {
    const auto telling = std::ranges::count_if(question.numbers, [&](const TakenNumber& taken) {
        spend(cost_of_read);
        const std::int64_t cols = question.memories[taken.memory].cols;
        const bool is_elsewhere = address.at(taken.place, cols) != question.right().at(taken.place, cols);
        return is_elsewhere && std::abs(number_at(question, taken, address)) > 4 * taken.error;
    });
    return std::size_t(telling) * 2 >= question.numbers.size();
}

}  // namespace

std::vector<ReadAddress> find_reads(const ReadQuestion& question, std::size_t most) {
    const std::vector<const TakenNumber*> numbers = in_steps(question.numbers);
    std::vector<ReadAddress> found;
    for (const ReadAddress& address : other_addresses(question)) {
        if (agree(question, numbers, address) && tells(question, address)) found.push_back(address);
    }
    std::ranges::stable_sort(found, {}, &ReadAddress::choices);
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace tilescope
