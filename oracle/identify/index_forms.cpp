#include "oracle/identify/index_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace tilescope {

namespace {

class Forms {
 public:
    Forms(std::string name, std::int64_t extent) : name_(std::move(name)), extent_(extent) {}

    template <class Of>
    void add(const std::string& text, int numbers, const Of& of) {
        for (std::int64_t i = 0; i < extent_; ++i) {
            if (of(i) == i) continue;
            forms_.push_back({text, of, numbers});
            return;
        }
    }

    void add_moves_by(std::int64_t n) {
        add(fmt::format("{} ^ {}", name_, n), 1, [=](std::int64_t i) { return i ^ n; });
        add(fmt::format("{} + {}", name_, n), 1, [=](std::int64_t i) { return i + n; });
        add(fmt::format("{} - {}", name_, n), 1, [=](std::int64_t i) { return i - n; });
        add(fmt::format("min({}, {})", name_, n), 1, [=](std::int64_t i) { return std::min(i, n); });
    }

    void add_parts_of(std::int64_t n) {
        add(fmt::format("{} % {}", name_, n), 1, [=](std::int64_t i) { return i % n; });
        add(fmt::format("{0} / {1} * {1}", name_, n), 1, [=](std::int64_t i) { return i / n * n; });
        add(fmt::format("{} / {}", name_, n), 1, [=](std::int64_t i) { return i / n; });
        if (n <= 8) add(fmt::format("{} * {}", name_, n), 1, [=](std::int64_t i) { return i * n; });
        if (std::has_single_bit(std::uint64_t(n)))
            add(fmt::format("{0} / {1} * {1} + {2} - {0} % {1}", name_, n, n - 1), 1,
                [=](std::int64_t i) { return i / n * n + n - 1 - i % n; });
    }

    void add_orders() {
        for (const std::int64_t n : std::array<std::int64_t, 4>{4, 8, 16, 32})
            for (std::int64_t a = 3; n <= extent_ && a < n; a += 2)
                add(fmt::format("{0} / {1} * {1} + {2} * {0} % {1}", name_, n, a), 2,
                    [=](std::int64_t i) { return i / n * n + a * i % n; });
    }

    void add_exchanged_bits() {
        for (int low = 0; 1LL << low < extent_; ++low)
            for (int high = low + 1; 1LL << high < extent_; ++high)
                add(fmt::format("{} with bits {} and {} exchanged", name_, low, high), 2,
                    [=](std::int64_t i) {
                        const std::int64_t differ = (i >> low ^ i >> high) & 1;
                        return i ^ (differ << low | differ << high);
                    });
    }

    std::vector<IndexForm> take() { return std::move(forms_); }

 private:
    std::string name_;
    std::int64_t extent_;
    std::vector<IndexForm> forms_;
};

}  // namespace

std::vector<IndexForm> index_forms(const std::string& name, std::int64_t extent) {
    Forms forms(name, extent);
    forms.add("0", 0, [](std::int64_t) { return std::int64_t(0); });
    forms.add(fmt::format("{} - {}", extent - 1, name), 1, [=](std::int64_t i) { return extent - 1 - i; });
    // A move may lead beyond the last one.
    constexpr std::int64_t least_moves = 16;
    for (std::int64_t n = 1; n < std::max(extent, least_moves + 1); ++n) forms.add_moves_by(n);
    for (std::int64_t n = 2; n <= extent; ++n) forms.add_parts_of(n);
    forms.add_orders();
    forms.add_exchanged_bits();
    return forms.take();
}

}  // namespace tilescope
