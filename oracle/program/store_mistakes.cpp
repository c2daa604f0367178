#include "oracle/program/store_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "oracle/describe/bits.h"
#include "oracle/program/build.h"
#include "oracle/program/formula_samples.h"
#include "oracle/program/offered_stores.h"
#include "oracle/program/wrong_places.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_of_stage = 1 << 20;
/// Of all that a search may compute.
constexpr double share_for_stores = 0.25;
/// Elements that are asked for first, and of these, that have to stand there.
constexpr std::int64_t most_stores_asked = 1024;
constexpr double least_there = 0.01;
constexpr std::int64_t fewest_moved = 8;
constexpr std::size_t most_replayed = 48;
constexpr std::size_t most_stores_told = 4;
constexpr double bits_of_store = 4;
constexpr double bits_of_left = 2;
constexpr double bits_of_guard = 4;
constexpr double bits_of_last = 2;
/// What is in another order may have been read so: kernels have more loads than stores.
constexpr double bits_of_order_of_stores = 4;
/// Of the places that nothing is stored at, that hold the same.
constexpr double most_left = 0.98;
constexpr double most_evidence = 16;

/// What a store makes of the memory.
struct StoreOutcome {
    std::int64_t wrong = 0;
    std::int64_t right = 0;
    std::int64_t explained = 0;  ///< of what was wrong
    std::int64_t moved = 0;      ///< of these, by another element that is stored there
    std::int64_t open = 0;       ///< wrong before, and nothing is stored there
    std::int64_t broken = 0;
    double evidence = 0;
    std::optional<double> left{};  ///< what stands wherever nothing is stored, if it is the same
    bool is_order = true;          ///< every place has one element
};

class StoreSearch {
 public:
    StoreSearch(SearchedCall& searched, WholeStage whole)
        : searched_(searched), call_(searched.call()), whole_(std::move(whole)) {
        std::int64_t moved = 0;
        for (std::int64_t i = 0; i < whole_.size(); ++i) moved += is_moved(i) ? 1 : 0;
        SpreadChoice some(moved, most_stores_asked);
        for (std::int64_t i = 0; i < whole_.size(); ++i)
            if (is_moved(i) && some.takes()) asked_.push_back(i);
    }

    std::vector<ProgramMistake> found() {
        std::vector<ProgramMistake> all;
        std::size_t replayed = 0;
        double shortest = HUGE_VAL;
        for (OfferedStore& offered : offered_stores(searched_.program(), call_, whole_)) {
            offered.bits += bits_of_store;
            if (offered.bits > shortest || replayed == most_replayed || all.size() == most_stores_told) break;
            if (!stands_there(offered.store)) continue;
            ++replayed;
            std::optional<ProgramMistake> mistake = explained_by(std::move(offered));
            if (!mistake) continue;
            shortest = std::min(shortest, mistake->bits);
            all.push_back(*std::move(mistake));
        }
        for (const int axis : whole_.axes) add_behind(axis, all);
        std::ranges::stable_sort(all, {}, &ProgramMistake::bits);
        return all;
    }

 private:
    bool is_moved(std::int64_t element) const {
        const double expected = whole_.expected[std::size_t(element)];
        return whole_.known[std::size_t(element)] != 0 && std::isfinite(expected) && expected != 0 &&
               !whole_.holds(element, element);
    }

    /// Whether some of what is elsewhere is where the store has it; the rest may be overwritten.
    bool stands_there(const StoredAt& store) const {
        const StoreAddresses addresses(call_, whole_, store);
        std::int64_t there = 0;
        for (const std::int64_t element : asked_) {
            const std::optional<std::int64_t> address = addresses.of(whole_.at(element));
            there += address && *address != element && whole_.holds(*address, element) ? 1 : 0;
        }
        return double(there) >= std::max(4.0, least_there * double(asked_.size()));
    }

    /// In which places nearly all stores are elsewhere, and in which nearly none are; nullopt: nothing tells them apart.
    std::optional<FoundCondition> condition_of(const StoredAt& store) {
        const StoreAddresses addresses(call_, whole_, store);
        std::vector<LabelledIndices> places;
        std::int64_t outside = 0;
        SpreadChoice some(whole_.size(), 16 * most_stores_asked);
        for (std::int64_t i = 0; i < whole_.size(); ++i) {
            if (!some.takes()) continue;
            const std::optional<std::int64_t> address = addresses.of(whole_.at(i));
            if (!address || *address == i || !std::isfinite(whole_.expected[std::size_t(i)])) continue;
            const bool is_there = whole_.holds(*address, i);
            if (is_there == whole_.holds(i, i)) continue;
            places.push_back({whole_.at(i), is_there});
            outside += is_there ? 0 : 1;
        }
        // Of what was overwritten some stands at its place by chance.
        if (outside < fewest_moved) return std::nullopt;
        return condition_of_places(searched_, places);
    }

    std::optional<double> left_where(const std::vector<std::int32_t>& stored) const {
        std::int64_t nothing = 0;
        std::int64_t none = 0;
        std::int64_t zeros = 0;
        for (std::size_t i = 0; i < stored.size(); ++i) {
            if (stored[i] >= 0 || whole_.known[i] == 0) continue;
            ++nothing;
            none += std::isnan(whole_.got[i]) ? 1 : 0;
            zeros += whole_.got[i] == 0 ? 1 : 0;
        }
        if (nothing == 0 || double(none) >= most_left * double(nothing)) return std::nan("");
        return double(zeros) >= most_left * double(nothing) ? std::optional(0.0) : std::nullopt;
    }

    StoreOutcome outcome_of(const WholeStage& source, const StoredAt& store, int condition) const {
        const std::vector<std::int32_t> stored = stored_elements(call_, source, store, condition);
        StoreOutcome outcome;
        outcome.left = left_where(stored);
        for (std::int64_t i = 0; i < whole_.size(); ++i) {
            if (whole_.known[std::size_t(i)] == 0) continue;
            const bool is_right = whole_.holds(i, i);
            ++(is_right ? outcome.right : outcome.wrong);
            const std::int32_t by = stored[std::size_t(i)];
            const double got = whole_.got[std::size_t(i)];
            outcome.is_order = outcome.is_order && by >= 0;
            if (by < 0 && !outcome.left) {
                ++(is_right ? outcome.broken : outcome.open);
                continue;
            }
            const bool is_left =
                by < 0 && (std::isnan(*outcome.left) ? std::isnan(got) : got == *outcome.left);
            const bool is_explained = by < 0 ? is_left : source.holds(i, by);
            if (is_right) outcome.broken += is_explained ? 0 : 1;
            if (is_right || !is_explained) continue;
            ++outcome.explained;
            if (by < 0) continue;
            ++outcome.moved;
            const double off = std::abs(got - whole_.expected[std::size_t(i)]);
            const double times = off / source.error[std::size_t(by)];
            outcome.evidence +=
                std::isfinite(times) ? std::clamp(std::log2(times), 0.0, most_evidence) : most_evidence;
        }
        return outcome;
    }

    static bool is_it(const StoreOutcome& outcome) {
        const double wrong = double(outcome.wrong);
        return outcome.moved >= fewest_moved &&
               double(outcome.explained + outcome.open) >= most_of_wrong * wrong &&
               double(outcome.open) <= most_open * wrong &&
               double(outcome.broken) <= (1 - most_of_right) * double(outcome.right);
    }

    /// A store that does not ask whether an index is within its axis.
    void add_behind(int axis, std::vector<ProgramMistake>& all) {
        const std::int64_t extent = call_.extents[std::size_t(axis)];
        const std::int64_t block = call_.blocks[std::size_t(axis)];
        const bool is_cut = call_.program.axes[std::size_t(axis)].block >= 0;
        const std::int64_t behind = is_cut ? (block - extent % block) % block : 0;
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < whole_.size(); ++i)
            wrong += whole_.known[std::size_t(i)] != 0 && !whole_.holds(i, i) ? 1 : 0;
        // Each of these overwrites at most one.
        if (behind == 0 || wrong > whole_.size() / extent * behind) return;
        ProgramBuilder build(searched_.program());
        const ProgramAxis of = searched_.program().axes[std::size_t(axis)];
        const int blocks =
            build.of_two(ProgramOp::quotient,
                         build.of_two(ProgramOp::plus, of.extent, build.moved(of.block, -1)), of.block);
        StoredAt store = own_place(searched_.program(), whole_.stage);
        store.behind = axis;
        store.end = build.of_two(ProgramOp::times, blocks, of.block);
        const std::optional<WholeStage> source = stage_behind(call_, searched_.options(), whole_, store);
        if (!source) return;
        const std::int64_t seen = seen_behind(*source, store);
        if (seen == 0) return;
        double bits = bits_of_store + bits_of_guard;
        if (seen < behind) {
            store.end = build.moved(of.extent, seen);
            bits += bits_of_number(seen);
        }
        for (const bool is_last : {false, true}) {
            store.behind_is_last = is_last;
            if (add_behind(store, bits + (is_last ? bits_of_last : 0), all)) return;
        }
    }

    bool add_behind(const StoredAt& store, double bits, std::vector<ProgramMistake>& all) {
        const std::optional<WholeStage> source = stage_behind(call_, searched_.options(), whole_, store);
        if (!source) return false;
        const StoreOutcome outcome = outcome_of(*source, store, -1);
        if (!is_it(outcome)) return false;
        std::optional<ProgramMistake> mistake = mistake_of({store, bits}, outcome, std::nullopt);
        if (mistake) all.push_back(*std::move(mistake));
        return true;
    }

    /// How far behind the end of the axis something was stored.
    std::int64_t seen_behind(const WholeStage& source, const StoredAt& store) const {
        const StoreAddresses addresses(call_, source, store);
        std::int64_t seen = 0;
        for (const std::int32_t i : source.order) {
            const AxisIndices at = source.at(i);
            const std::int64_t by =
                at[std::size_t(store.behind)] - call_.extents[std::size_t(store.behind)] + 1;
            const std::optional<std::int64_t> address = addresses.of(at);
            if (by > seen && address && !whole_.holds(*address, *address) && source.holds(*address, i))
                seen = by;
        }
        return seen;
    }

    std::optional<ProgramMistake> explained_by(OfferedStore offered) {
        StoreOutcome outcome = outcome_of(whole_, offered.store, -1);
        std::optional<FoundCondition> condition;
        if (!is_it(outcome)) {
            condition = condition_of(offered.store);
            if (!condition) return std::nullopt;
            outcome = outcome_of(whole_, offered.store, condition->node);
            if (!is_it(outcome)) return std::nullopt;
            offered.bits += condition->bits;
        }
        if (outcome.is_order) offered.bits += bits_of_order_of_stores;
        return mistake_of(std::move(offered), outcome, condition);
    }

    std::optional<ProgramMistake> mistake_of(OfferedStore offered, const StoreOutcome& outcome,
                                             const std::optional<FoundCondition>& condition) {
        const bool leaves_zeros = outcome.left && *outcome.left == 0;
        if (leaves_zeros) offered.bits += bits_of_left;
        offered.store.left = outcome.left;
        const int stage = whole_.stage;
        const Program& program = searched_.program();
        const double all = double(outcome.right + outcome.wrong);
        ProgramMistake mistake{.stage = stage, .slot = "store", .bits = offered.bits};
        mistake.becomes =
            fmt::format("stored at {}{}", place_in_memory(searched_.program(), stage, offered.store),
                        leaves_zeros ? ", 0 where nothing is" : "");
        if (condition) mistake.where = program_text(program, condition->node);
        mistake.condition = condition ? condition->node : -1;
        mistake.elements = outcome.right + outcome.wrong;
        mistake.explained = double(outcome.right - outcome.broken + outcome.explained) / all;
        mistake.open = outcome.open;
        mistake.healthy = double(outcome.right) / all;
        mistake.seen_in = stage;
        mistake.value = program.array(stage).value;
        mistake.dtype = program.array(stage).dtype;
        mistake.store = std::move(offered.store);
        const double listed = listing_bits(outcome.wrong, mistake.elements) + double(outcome.wrong);
        if (2 * mistake.bits > listed || mistake.bits > outcome.evidence) return std::nullopt;
        return mistake;
    }

    SearchedCall& searched_;
    const ProgramCall& call_;
    WholeStage whole_;
    std::vector<std::int64_t> asked_;  ///< some that are not at their places
};

}  // namespace

std::vector<ProgramMistake> store_mistakes(SearchedCall& searched) {
    const ProgramCall& call = searched.call();
    const ProgramArray& array = call.program.array(searched.wrong());
    double size = 1;
    for (const int index : array.indices)
        size *= double(call.extents[std::size_t(call.program.axis_of(index))]);
    if (array.over >= 0 || array.indices.empty() || size > double(most_of_stage)) return {};
    const auto most_computed = std::int64_t(share_for_stores * double(searched.options().searched_elements));
    return StoreSearch(searched, whole_stage(call, searched.options(), searched.wrong(), most_computed))
        .found();
}

}  // namespace tilescope
