#include "oracle/program/picked_indices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "oracle/program/build.h"
#include "oracle/program/evaluate.h"
#include "oracle/program/rewritten.h"
#include "oracle/program/solved.h"
#include "oracle/solve/least_squares.h"

namespace tilescope {

namespace {

/// Elements along the axis, those that they may be, and different sums that are told apart.
constexpr std::int64_t most_picked = 8;
constexpr std::int64_t most_to_pick = 32;
constexpr std::size_t most_places_apart = 16;
/// Of what a search may take.
constexpr std::int64_t share_of_search = 8;
/// A count is whole.
constexpr double most_off_whole = 0.2;
constexpr double bits_of_slot = 8;
constexpr double bits_of_entry = 2;

/// An index that a sum along `axis` takes, in all of its reads: nothing else there depends on the axis.
struct PickedSlot {
    int sum = -1;
    int axis = -1;
    int index = -1;
    std::int64_t extent = 0;  ///< indices that there are
    std::vector<int> reads{};
    std::vector<int> others{};  ///< axes beside it, which tell sums apart
};

std::vector<int> nodes_of(const Program& program, int formula, ProgramOp op) {
    std::vector<int> found;
    for_each_node(program, formula, [&](int node) {
        if (program.node(node).op == op) found.push_back(node);
    });
    return found;
}

bool takes(const Program& program, int formula, int axis) {
    bool is_taken = false;
    for_each_node(program, formula, [&](int node) { is_taken = is_taken || program.axis_of(node) == axis; });
    return is_taken;
}

class PickedIndices {
 public:
    explicit PickedIndices(SearchedCall& searched)
        : searched_(searched),
          program_(searched.program()),
          build_(program_),
          wrong_(searched.wrong()),
          formula_(program_.array(wrong_).value) {}

    std::vector<ProgramRewrite> all() {
        std::vector<ProgramRewrite> found;
        for (const PickedSlot& slot : slots()) {
            const std::optional<std::vector<PickedSum>> picked = solved(slot);
            if (!picked) continue;
            const int terms = terms_of(slot, *picked);
            found.push_back({.stage = wrong_,
                             .value = build_.with_node(formula_, program_.node(slot.sum).of[0], terms),
                             .bits = bits_of(slot, *picked),
                             .slot = "index"});
        }
        return found;
    }

 private:
    using Place = std::vector<std::int32_t>;  ///< indices of PickedSlot::others
    struct PickedSum {
        Place place{};
        std::vector<std::int64_t> indices{};
        bool is_declared = false;
    };

    std::vector<PickedSlot> slots() {
        std::vector<PickedSlot> found;
        for (const int sum : nodes_of(program_, formula_, ProgramOp::sum)) {
            for (const int axis : program_.node(sum).list) {
                const std::int64_t terms = searched_.call().extents[std::size_t(axis)];
                const bool is_cut = program_.axes[std::size_t(axis)].block >= 0;
                if (is_cut || terms < 2 || terms > most_picked) continue;
                if (std::optional<PickedSlot> slot = slot_of(sum, axis)) found.push_back(std::move(*slot));
            }
        }
        return found;
    }

    /// nullopt: there is none, or more than one.
    std::optional<PickedSlot> slot_of(int sum, int axis) {
        PickedSlot slot{.sum = sum, .axis = axis};
        slot.reads = nodes_of(program_, program_.node(sum).of[0], ProgramOp::read);
        for (const int read : slot.reads) {
            const ProgramNode& node = program_.node(read);
            if (node.is_flat) continue;
            const std::vector<std::int64_t> shape = shape_of(searched_.call(), program_.array(node.what));
            for (std::size_t i = 0; i < node.list.size(); ++i) {
                if (!takes(program_, node.list[i], axis)) continue;
                if (slot.index >= 0 && !are_alike(program_, slot.index, node.list[i])) return std::nullopt;
                slot.extent = slot.index < 0 ? shape[i] : std::min(slot.extent, shape[i]);
                slot.index = node.list[i];
            }
        }
        if (slot.index < 0 || slot.extent > most_to_pick) return std::nullopt;
        if (takes(program_, at(slot, build_.whole(0)), axis)) return std::nullopt;
        for_each_node(program_, slot.index, [&](int node) {
            const int other = program_.axis_of(node);
            const bool is_new = std::ranges::find(slot.others, other) == slot.others.end();
            if (other >= 0 && other != axis && is_new) slot.others.push_back(other);
        });
        return slot;
    }

    /// What is added up with another index in all reads.
    int at(const PickedSlot& slot, int index) {
        return build_.with_index(program_.node(slot.sum).of[0], slot.reads, slot.index, index);
    }

    /// The stage where its sum is that of one index alone; -1: where it is 0.
    std::vector<double> replayed(const PickedSlot& slot, std::int64_t index) {
        int instead = build_.real(0);
        if (index >= 0) {
            ProgramNode sum = program_.node(slot.sum);
            sum.of[0] = at(slot, build_.whole(index));
            std::erase(sum.list, slot.axis);
            instead = sum.list.empty() ? sum.of[0] : build_.add(std::move(sum));
        }
        const ProgramRewrite rewrite{.stage = wrong_, .value = build_.with_node(formula_, slot.sum, instead)};
        const Rewritten with(program_, rewrite, Dtype::f32);
        std::vector<double> values;
        searched_.look_at_parts(
            wrong_, [&](const LookedElement&, Uncertain expected) { values.push_back(expected.value); });
        return values;
    }

    /// What each sum took, as many each; nullopt: that is not known, or is what is declared.
    std::optional<std::vector<PickedSum>> solved(const PickedSlot& slot) {
        std::vector<const LookedElement*> elements;
        const std::int64_t begun = elements_computed();
        searched_.look_at_parts(
            wrong_, [&](const LookedElement& element, Uncertain) { elements.push_back(&element); });
        const std::int64_t one = elements_computed() - begun;
        if (one * slot.extent > searched_.options().searched_elements / share_of_search) return std::nullopt;
        const std::vector<double> none = replayed(slot, -1);
        std::vector<std::vector<double>> of_each;
        for (std::int64_t index = 0; index < slot.extent; ++index) of_each.push_back(replayed(slot, index));

        std::map<Place, std::vector<std::size_t>> places;
        for (std::size_t i = 0; i < elements.size(); ++i) {
            Place place;
            for (const int axis : slot.others) place.push_back(elements[i]->at[std::size_t(axis)]);
            if (elements[i]->is_known && std::isfinite(elements[i]->got)) places[place].push_back(i);
        }
        if (places.size() > most_places_apart) return std::nullopt;
        std::vector<PickedSum> picked;
        for (const auto& [place, of] : places) {
            Eigen::MatrixXd a(Eigen::Index(of.size()), Eigen::Index(slot.extent));
            Eigen::VectorXd y(Eigen::Index(of.size()));
            for (std::size_t k = 0; k < of.size(); ++k) {
                y(Eigen::Index(k)) = elements[of[k]]->got - none[of[k]];
                for (std::size_t index = 0; index < of_each.size(); ++index)
                    a(Eigen::Index(k), Eigen::Index(index)) = of_each[index][of[k]] - none[of[k]];
            }
            std::optional<std::vector<std::int64_t>> indices = indices_of(slot, place, a, y);
            if (!indices || (!picked.empty() && picked[0].indices.size() != indices->size()))
                return std::nullopt;
            const bool is_declared = *indices == declared_at(slot, place);
            picked.push_back({place, std::move(*indices), is_declared});
        }
        if (std::ranges::all_of(picked, &PickedSum::is_declared)) return std::nullopt;
        return picked;
    }

    /// Those that were added up, in the order of the declared ones where these are among them.
    std::optional<std::vector<std::int64_t>> indices_of(const PickedSlot& slot, const Place& place,
                                                        const Eigen::MatrixXd& a,
                                                        const Eigen::VectorXd& y) const {
        if (a.rows() < 2 * a.cols() || !a.allFinite()) return std::nullopt;
        const std::optional<LeastSquares> counts = solve_least_squares(a, y);
        if (!counts) return std::nullopt;
        std::vector<std::int64_t> left;
        for (Eigen::Index index = 0; index < counts->x.size(); ++index) {
            const double count = std::round(counts->x(index));
            if (count < 0 || !(std::abs(counts->x(index) - count) <= most_off_whole)) return std::nullopt;
            for (double i = 0; i < count && std::ssize(left) <= most_picked; ++i) left.push_back(index);
        }
        std::vector<std::int64_t> declared = declared_at(slot, place);
        if (left.empty() || left.size() > declared.size()) return std::nullopt;
        if (left.size() < declared.size()) return left;
        std::vector<char> is_open(declared.size(), 1);
        for (std::size_t i = 0; i < declared.size(); ++i) {
            const auto same = std::ranges::find(left, declared[i]);
            if (same == left.end()) continue;
            left.erase(same);
            is_open[i] = 0;
        }
        auto next = left.begin();
        for (std::size_t i = 0; i < declared.size(); ++i)
            if (is_open[i] != 0) declared[i] = *next++;
        return declared;
    }

    std::vector<std::int64_t> declared_at(const PickedSlot& slot, const Place& place) const {
        std::vector<std::int64_t> at(program_.axes.size());
        for (std::size_t i = 0; i < place.size(); ++i) at[std::size_t(slot.others[i])] = place[i];
        std::vector<std::int64_t> indices;
        for (std::int64_t n = 0; n < searched_.call().extents[std::size_t(slot.axis)]; ++n) {
            at[std::size_t(slot.axis)] = n;
            indices.push_back(whole_at(searched_.call(), slot.index, at).value_or(-1));
        }
        return indices;
    }

    /// What is added up in place of the declared: where it is less, the rest of the axis adds nothing.
    int terms_of(const PickedSlot& slot, const std::vector<PickedSum>& picked) {
        const int term = at(slot, index_of(slot, picked));
        const auto count = std::ssize(picked[0].indices);
        if (count == searched_.call().extents[std::size_t(slot.axis)]) return term;
        const int is_there = build_.of_two(ProgramOp::less, build_.axis(slot.axis), build_.whole(count));
        return build_.chosen(term, is_there, build_.real(0));
    }

    /// `(1 where n == 0 else 4) where g == 0 else ...`; what is as declared stays so.
    int index_of(const PickedSlot& slot, const std::vector<PickedSum>& picked) {
        int instead = -1;
        for (auto sum = picked.rbegin(); sum != picked.rend(); ++sum) {
            const int here = sum->is_declared ? slot.index : one_by_one(slot, sum->indices);
            int is_here = -1;
            for (std::size_t i = 0; i < slot.others.size(); ++i)
                is_here = build_.both(is_here, is_at(slot.others[i], sum->place[i]));
            instead = instead < 0 ? here : build_.chosen(here, is_here, instead);
        }
        return instead;
    }

    int one_by_one(const PickedSlot& slot, const std::vector<std::int64_t>& indices) {
        int all = -1;
        for (std::int64_t n = std::ssize(indices); n-- > 0;) {
            const int one = build_.whole(indices[std::size_t(n)]);
            all = all < 0 ? one : build_.chosen(one, is_at(slot.axis, n), all);
        }
        return all;
    }

    static double bits_of(const PickedSlot& slot, const std::vector<PickedSum>& picked) {
        double bits = bits_of_slot;
        for (const PickedSum& sum : picked) {
            if (!sum.is_declared)
                bits += double(sum.indices.size()) * (bits_of_entry + std::log2(double(slot.extent)));
        }
        return bits;
    }

    int is_at(int axis, std::int64_t index) {
        return build_.of_two(ProgramOp::equal, build_.axis(axis), build_.whole(index));
    }

    SearchedCall& searched_;
    Program& program_;
    ProgramBuilder build_;
    int wrong_;
    int formula_;
};

}  // namespace

std::vector<ProgramRewrite> picked_indices(SearchedCall& searched) {
    return PickedIndices(searched).all();
}

}  // namespace tilescope
