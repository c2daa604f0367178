#include "oracle/identify/term_address.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilescope {

std::string TermAddress::text(IndexNames names, std::int64_t cols) const {
    const std::string row = outer.text(names);
    const std::string col = inner.text(names);
    if (stride == 0 && padding == 0) return fmt::format("[{}][{}]", row, col);
    const std::int64_t ld = cols + padding;
    const std::string by = stride == 0           ? std::to_string(ld)
                           : stride_name.empty() ? std::to_string(stride)
                                                 : std::string(stride_name);
    const std::string times = outer.is_operation() ? "(" + row + ")" : row;
    std::string text = fmt::format("[{} * {} + {}]", by, times, col);
    if (stride != 0 && padding != 0) text += fmt::format(" of rows of {}", ld);
    return text;
}

int TermAddress::parameters() const {
    return outer.parameters() + inner.parameters() + int(stride != 0 && stride_name.empty()) +
           int(padding != 0);
}

bool TermAddress::stays_in_rows(std::span<const std::int64_t> lengths) const {
    if (stride != 0) return false;
    std::vector<std::int64_t> numbers(lengths.size(), 0);
    const std::int64_t others = inner.is_mixed() ? std::min<std::int64_t>(lengths[inner.other], 16) : 1;
    for (std::int64_t x = 0; x < lengths[inner.name]; ++x) {
        for (std::int64_t other = 0; other < others; ++other) {
            numbers[inner.name] = x;
            if (inner.is_mixed()) numbers[inner.other] = other;
            const std::int64_t at = inner.of(numbers);
            if (at < 0 || at >= lengths[1]) return false;
        }
    }
    return true;
}

std::vector<TermAddress> other_term_addresses(std::span<const std::int64_t> lengths,
                                              std::span<const NamedStride> strides) {
    std::vector<TermAddress> all;
    for (const std::uint8_t name : {std::uint8_t(0), std::uint8_t(1)}) {
        for (const IndexPart& part : other_index_parts(name, lengths)) {
            TermAddress next;
            (name == 0 ? next.outer : next.inner) = part;
            all.push_back(next);
        }
    }
    TermAddress exchanged;
    std::swap(exchanged.outer, exchanged.inner);
    all.push_back(exchanged);
    for (const NamedStride& stride : strides) {
        for (TermAddress next : {TermAddress{}, exchanged}) {
            next.stride = stride.value;
            next.stride_name = stride.name;
            all.push_back(next);
        }
    }
    return all;
}

}  // namespace tilescope
