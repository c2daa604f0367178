#include "oracle/program/offered_stores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "oracle/program/build.h"
#include "oracle/program/place_index.h"
#include "oracle/program/stored_strides.h"
#include "oracle/program/votes.h"

namespace tilescope {

namespace {

constexpr std::size_t most_ordered = 4;
constexpr std::int64_t most_padding = 16;
constexpr std::int64_t roundings[] = {16, 32, 64, 128};
constexpr double bits_of_order = 5;
constexpr double bits_of_exchange = 4;
/// Which dimension it is, and what is otherwise in it.
constexpr double bits_of_stored_index = 2;
constexpr double bits_of_extent = 3;
/// Of the elements with a number, that stand where the number says; where most were overwritten, how many more these are than vote for
/// any other index.
constexpr double voting_share = 0.5;
constexpr std::int64_t fewest_votes = 2;
constexpr std::int64_t times_as_many = 4;
constexpr std::int64_t fewest_of_few = 8;
/// Of what was overwritten nothing tells: several are right of the rest.
constexpr std::size_t most_expressions_of_stores = 6;
constexpr std::size_t most_of_form = 3;

/// Forms that lead several numbers to one place, of which the last number alone is seen.
std::vector<Expr> overwriting_forms(const VotedIndices& table) {
    const Expr x = voted_by;
    std::vector<Expr> found;
    for (const Op op : {Op::rest, Op::multiple, Op::at_most}) {
        std::size_t count = 0;
        for (std::int64_t n = 2; n <= table.back().first && count < most_of_form; ++n) {
            const Expr form = op == Op::at_most ? Expr::of_two(op, x, n)
                              : op == Op::rest  ? x % n
                                                : Expr::changed(op, x, n);
            const bool is_right = std::ranges::all_of(
                table, [&](const auto& entry) { return form.at(voted_by, entry.first) == entry.second; });
            if (!is_right) continue;
            found.push_back(form);
            ++count;
        }
    }
    return found;
}

std::vector<Expr> expressions_of_stores(const VotedIndices& table) {
    std::vector<Expr> all = expressions_of(table, most_expressions_of_stores);
    for (Expr& form : overwriting_forms(table)) all.push_back(std::move(form));
    return all;
}

class StoreOffers {
 public:
    StoreOffers(Program& program, const ProgramCall& call, const WholeStage& whole)
        : program_(program), call_(call), whole_(whole), own_(own_place(program, whole.stage)) {}

    std::vector<OfferedStore> all() {
        add_orders();
        add_exchanged();
        for (std::size_t k = 1; k < own_.indices.size(); ++k) add_extents(k);
        const std::vector<StoreVote> votes = store_votes(whole_);
        for (std::size_t k = 0; k < own_.indices.size(); ++k) add_voted(k, votes);
        // Of some places alone.
        std::vector<StoreVote> moved = votes;
        std::erase_if(moved, [](const StoreVote& vote) {
            return std::ranges::find(vote.addresses, vote.element) != vote.addresses.end();
        });
        for (std::size_t k = 0; k < own_.indices.size() && moved.size() < votes.size(); ++k)
            add_voted(k, moved);
        if (auto strides = strided_store(program_, call_, whole_, votes))
            found_.push_back(*std::move(strides));
        std::ranges::stable_sort(found_, {}, &OfferedStore::bits);
        return std::move(found_);
    }

 private:
    int extent_of(std::size_t dimension) const {
        return program_.axes[std::size_t(whole_.axes[dimension])].extent;
    }

    void add_orders() {
        std::vector<std::size_t> order(own_.indices.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        while (order.size() <= most_ordered && std::ranges::next_permutation(order).found) {
            StoredAt store;
            for (const std::size_t k : order) {
                store.indices.push_back(own_.indices[k]);
                if (store.indices.size() > 1) store.extents.push_back(extent_of(k));
            }
            found_.push_back({std::move(store), bits_of_order});
        }
    }

    /// Two indices in each other's place, in the array as it is.
    void add_exchanged() {
        for (std::size_t k = 1; k < own_.indices.size(); ++k) {
            for (std::size_t other = 0; other < k; ++other) {
                StoredAt store = own_;
                std::swap(store.indices[k], store.indices[other]);
                found_.push_back({std::move(store), bits_of_exchange});
            }
        }
    }

    /// Those of other axes, with padding, and whole blocks.
    void add_extents(std::size_t k) {
        ProgramBuilder build(program_);
        const int own = extent_of(k);
        const std::int64_t length = whole_.shape[k];
        const auto add = [&](std::int64_t number, int node, double bits) {
            if (number <= 0 || number == length) return;
            StoredAt store = own_;
            store.extents[k - 1] = node;
            found_.push_back({std::move(store), bits_of_stored_index + bits_of_extent + bits});
        };
        const std::map<std::int64_t, int> sizes = named_sizes(call_, build);
        for (const auto& [size, node] : sizes) add(size, node, std::log2(double(sizes.size())));
        const auto rounded = [&](std::int64_t multiple, int node, double bits) {
            const int up = build.of_two(ProgramOp::plus, own, build.moved(node, -1));
            add((length + multiple - 1) / multiple * multiple,
                build.of_two(ProgramOp::times, build.of_two(ProgramOp::quotient, up, node), node), bits);
        };
        const auto axis = std::size_t(whole_.axes[k]);
        if (program_.axes[axis].block >= 0)
            rounded(call_.blocks[axis], program_.axes[axis].block, bits_of_extent);
        for (const std::int64_t by : roundings)
            rounded(by, build.whole(by), bits_of_extent + bits_of_number(by));
        for (std::int64_t n = 1; n <= most_padding; ++n)
            for (const std::int64_t by : {n, -n})
                add(length + by, build.moved(own, by), 1 + bits_of_number(n));
    }

    /// The index of a dimension for each number of the places; where the votes for it are few it tells nothing.
    VotedIndices table_of(std::size_t k, const std::vector<StoreVote>& votes, const PlaceNumber& by,
                          const Counted& counted) const {
        std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> counts;
        std::map<std::int64_t, std::int64_t> all;
        std::int64_t distance = 1;
        for (std::size_t j = k + 1; j < whole_.shape.size(); ++j) distance *= whole_.shape[j];
        for (const StoreVote& vote : votes) {
            const std::int64_t x = by.of(call_, vote.at);
            ++all[x];
            for (const std::int64_t address : vote.addresses) {
                if ((address - vote.element) % distance != 0) continue;
                const std::int64_t own = vote.at[std::size_t(whole_.axes[k])];
                ++counts[x][own + (address - vote.element) / distance - counted.origin(vote.at)];
            }
        }
        VotedIndices table;
        for (const auto& [x, of_number] : counts) {
            const auto votes_for = [](const auto& vote) { return vote.second; };
            const auto best = std::ranges::max_element(of_number, {}, votes_for);
            std::int64_t next = 0;
            for (const auto& [y, count] : of_number)
                if (y != best->first) next = std::max(next, count);
            const bool are_most =
                best->second >= std::max(fewest_votes, std::int64_t(voting_share * double(all[x])));
            if (are_most || best->second >= std::max(fewest_of_few, times_as_many * next))
                table.emplace_back(x, best->first);
        }
        return table;
    }

    void add_voted(std::size_t k, const std::vector<StoreVote>& votes) {
        ProgramBuilder build(program_);
        const int axis = whole_.axes[k];
        std::vector<Counted> origins{{}};
        if (program_.axes[std::size_t(axis)].block >= 0)
            origins.push_back({axis, call_.blocks[std::size_t(axis)]});
        for (const Counted& counted : origins) {
            for (const PlaceNumber& by : place_numbers(program_, whole_.axes)) {
                const VotedIndices table = table_of(k, votes, by, counted);
                if (table.empty()) continue;
                for (const Expr& expr : expressions_of_stores(table)) {
                    int index = build.index(expr, [&](Coordinate) { return by.node(build); });
                    if (index < 0) continue;
                    double bits = bits_of_stored_index + bits_of_expression(expr);
                    if (counted.axis >= 0) {
                        const int size = program_.axes[std::size_t(axis)].block;
                        index =
                            build.of_two(ProgramOp::plus,
                                         build.of_two(ProgramOp::times, build.block_of(axis), size), index);
                        bits += bits_of_stored_index;
                    }
                    StoredAt store = own_;
                    store.indices[k] = index;
                    found_.push_back({std::move(store), bits});
                }
            }
        }
    }

    Program& program_;
    const ProgramCall& call_;
    const WholeStage& whole_;
    StoredAt own_;
    std::vector<OfferedStore> found_;
};

}  // namespace

std::vector<OfferedStore> offered_stores(Program& program, const ProgramCall& call, const WholeStage& whole) {
    return StoreOffers(program, call, whole).all();
}

}  // namespace tilescope
