// Neighbours of an array in the place of its parts, and the other way round: elements 2 i and 2 i + 1 for i and i + n / 2.

#include <algorithm>
#include <map>
#include <optional>

#include "oracle/program/build.h"
#include "oracle/program/rewrites.h"

namespace tilescope {

namespace {

constexpr double bits_of_pair = 8;
/// Of an axis, beside its last index.
constexpr std::int64_t looked_at = 64;

/// An index along one axis: factor times that, and a number.
struct LinearIndex {
    std::int64_t factor = 0;
    std::int64_t offset = 0;
};

/// nullopt: it takes another axis as well, or is not linear.
std::optional<LinearIndex> linear_index(const Program& program, const ProgramCall& call, int index,
                                        int axis) {
    bool is_of_axis = false;
    bool is_of_others = false;
    for_each_node(program, index, [&](int number) {
        const ProgramNode& node = program.node(number);
        if (node.op == ProgramOp::axis) (node.what == axis ? is_of_axis : is_of_others) = true;
    });
    if (!is_of_axis || is_of_others) return std::nullopt;
    std::vector<std::int64_t> at(program.axes.size());
    std::optional<LinearIndex> linear;
    const std::int64_t extent = call.extents[std::size_t(axis)];
    for (std::int64_t i = 0; i < extent; i = i + 1 == looked_at ? std::max(extent - 1, looked_at) : i + 1) {
        at[std::size_t(axis)] = i;
        const std::optional<std::int64_t> value = whole_at(call, index, at);
        if (!value) return std::nullopt;
        if (i == 0) linear = LinearIndex{0, *value};
        if (i == 1) linear->factor = *value - linear->offset;
        if (*value != linear->factor * i + linear->offset) return std::nullopt;
    }
    return linear;
}

class PairRewriter {
 public:
    PairRewriter(Program& program, const ProgramCall& call, int stage)
        : program_(program), call_(call), stage_(stage) {
        for_each_node(program, program.array(stage).value, [&](int number) {
            const ProgramNode& node = program.node(number);
            if (node.op == ProgramOp::read && !node.is_flat && !node.list.empty())
                reads_[node.what].push_back(number);
        });
    }

    std::vector<ProgramRewrite> all() {
        std::vector<ProgramRewrite> found;
        for (const auto& [array, reads] : reads_) {
            for (std::size_t dimension = 0; dimension < program_.array(array).indices.size(); ++dimension) {
                for (int axis = 0; axis < int(program_.axes.size()); ++axis)
                    along(reads, dimension, axis, found);
            }
        }
        return found;
    }

 private:
    void along(const std::vector<int>& reads, std::size_t dimension, int axis,
               std::vector<ProgramRewrite>& found) {
        const std::int64_t extent = call_.extents[std::size_t(axis)];
        std::map<int, LinearIndex> indices;
        std::int64_t parts = 0;
        for (const int read : reads) {
            const auto index = linear_index(program_, call_, program_.node(read).list[dimension], axis);
            if (!index) return;
            indices.emplace(read, *index);
            parts = std::max(parts, index->factor > 1 ? index->factor : index->offset / extent + 1);
        }
        if (parts < 2 || extent < 2 || parts > std::ssize(reads)) return;
        const bool are_neighbours = indices.begin()->second.factor > 1;
        int formula = program_.array(stage_).value;
        for (const auto& [read, index] : indices) {
            const bool is_neighbour = index.factor == parts && index.offset >= 0 && index.offset < parts;
            const bool is_part = index.factor == 1 && index.offset >= 0 && index.offset % extent == 0;
            if (are_neighbours ? !is_neighbour : !is_part) return;
            ProgramNode node = program_.node(read);
            node.list[dimension] =
                are_neighbours ? in_part(axis, index.offset) : neighbour(axis, parts, index.offset / extent);
            formula = build_.with_node(formula, read, build_.add(std::move(node)));
        }
        found.push_back({stage_, formula, std::nullopt, bits_of_pair, "index"});
    }

    int in_part(int axis, std::int64_t part) {
        if (part == 0) return build_.axis(axis);
        const int extent = program_.axes[std::size_t(axis)].extent;
        const int begin = part == 1 ? extent : build_.of_two(ProgramOp::times, build_.whole(part), extent);
        return build_.of_two(ProgramOp::plus, build_.axis(axis), begin);
    }

    int neighbour(int axis, std::int64_t parts, std::int64_t part) {
        return build_.moved(build_.of_two(ProgramOp::times, build_.whole(parts), build_.axis(axis)), part);
    }

    Program& program_;
    const ProgramCall& call_;
    int stage_;
    ProgramBuilder build_{program_};
    std::map<int, std::vector<int>> reads_;  ///< of each array
};

}  // namespace

std::vector<ProgramRewrite> rewrites_of_pairs(Program& program, const ProgramCall& call, int stage) {
    return PairRewriter(program, call, stage).all();
}

}  // namespace tilescope
