#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "dump/schema/rounding.h"
#include "oracle/program/conditions.h"
#include "oracle/program/needed.h"

namespace tilescope {

/// Indices of an element of an array, as many as it has.
using ElementIndices = std::array<std::int32_t, 6>;

/// A part of a formula at one place: what it is by the program, and what it must have been.
struct NodeSample {
    AxisIndices at{};
    /// Of a read the element that it should be; of a comparison of whole numbers these; else the indices along the axes.
    ElementIndices index{};
    std::size_t part = 0;
    double right = 0;
    double needed = 0;
    double error = 0;
    std::array<Uncertain, 3>
        operands{};  ///< what it is computed from by the program, where that are numbers of the same place
    bool is_wrong = false;

    /// A kernel that computes it rounds a few times.
    bool agrees(double value) const {
        return value == needed || std::abs(value - needed) <= error + 4 * u_f32 * std::abs(needed);
    }
};

/// All that is known of a part of a formula.
struct NodeSamples {
    struct Part {
        const std::vector<const StoredStage*>* stages = nullptr;
        AxisRanges ranges{};
        std::int64_t block = 0;
        Numbers right{};  ///< of what is no read
    };
    int stage = -1;  ///< whose formula it is a part of
    int node = -1;
    std::vector<int> axes{};      ///< that its places are told apart by
    std::vector<int> by_block{};  ///< the same, by their blocks
    std::vector<NodeSample> samples{};
    std::vector<Part> parts{};
    std::int64_t wrong = 0;
    std::int64_t right = 0;
};

/// A sum, a maximum or a minimum that is wrong: its terms, and what it must have been.
struct SumSample {
    AxisIndices at{};
    std::int64_t first = 0;  ///< index of the first term
    std::vector<double> terms{};
    double needed = 0;
    double error = 0;
    /// Of each factor and each term; of the first samples alone.
    std::vector<std::vector<double>> factors{};
    std::vector<std::vector<double>> uncast{};  ///< empty of a factor that is no cast
    /// Terms of the rows before and after it in the tile, where a sum of elements goes along rows; empty: there is none.
    std::array<std::vector<double>, 2> beside{};
};

struct SumSamples {
    int stage = -1;
    int node = -1;
    int axis = -1;               ///< along which the terms go
    int row_axis = -1;           ///< of the rows that these are; -1: they are no rows of a tile
    std::vector<int> axes{};     ///< that its places are told apart by
    std::vector<int> factors{};  ///< nodes, of which each term is the product
    std::vector<SumSample> samples{};
    std::vector<SumSample> right{};  ///< some that are right, of a maximum or a minimum
    std::vector<SumSample> empty{};  ///< of a maximum or a minimum that must have had no terms
};

/// What is known of the formula of a stage, and of those of stages that it is computed from: places at which they are wrong, and
/// others.
class FormulaSamples {
 public:
    explicit FormulaSamples(const ProgramCall& call) : call_(call), program_(call.program) {}

    /// What the kernel stored of a part of the stage, along its axes. The stages of the inputs must outlive this.
    void take(const FormulaInputs& inputs, int stage, const AxisRanges& ranges, std::int64_t block,
              const Numbers& stored);

    /// At most so many samples of each part, of some places alone.
    FormulaSamples at(const std::function<bool(const AxisIndices&)>& is_inside, std::int64_t most) const;

    const std::map<int, NodeSamples>& nodes() const { return nodes_; }
    const std::map<int, SumSamples>& sums() const { return sums_; }
    const ProgramCall& call() const { return call_; }

    /// A read has the indices of its array; anything else those of its axes, among which it may stand elsewhere.
    bool is_read(const NodeSamples& of) const { return program_.node(of.node).op == ProgramOp::read; }
    std::size_t dimensions(const NodeSamples& of) const;
    AxisRange range_of(const NodeSamples& of, std::size_t dimension, std::size_t part) const;
    /// Whether an operand of a part of a formula is a number at the same place.
    bool has_operand(int node, std::size_t operand) const;
    /// What another node is at the place of each sample, as far as it takes no other axes; empty where that is not known.
    std::vector<Uncertain> numbers_at(const NodeSamples& of, int node) const;
    /// What stands at other indices; NaN beyond what is known.
    double value_at(const NodeSamples& of, const NodeSample& sample, const ElementIndices& index) const;
    /// What a state of the same place was before the block that a sample is of, or after it; NaN where that is not known.
    double state_at(const NodeSamples& of, const NodeSample& sample, int array, ProgramState state) const;

 private:
    void take_values(const NeededValues& values, const std::vector<const StoredStage*>& stages);
    void take_sums(const NeededSums& sums);
    std::vector<Numbers> indices_of(const NeededValues& values,
                                    const std::vector<const StoredStage*>& stages) const;
    std::array<Numbers, 3> operands_of(const NeededValues& values,
                                       const std::vector<const StoredStage*>& stages) const;
    double stored_value(const NodeSamples& of, const NodeSample& sample, const ElementIndices& index) const;

    const ProgramCall& call_;
    const Program& program_;
    std::map<int, NodeSamples> nodes_;
    std::map<int, SumSamples> sums_;
};

/// Takes about `most` of `count` things, spread over all of them.
class SpreadChoice {
 public:
    SpreadChoice(std::int64_t count, std::int64_t most)
        : share_(count <= most ? ~std::uint64_t{0}
                               : std::uint64_t(double(most) / double(count) * 0x1p63) << 1) {}
    bool takes() {
        // Steps of the golden ratio are in no rhythm with rows or tiles.
        constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
        const bool is_taken = at_ <= share_;
        at_ += golden;
        return is_taken;
    }

 private:
    std::uint64_t share_;
    std::uint64_t at_ = 0;
};

}  // namespace tilescope
