#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dump/schema/program.h"
#include "dump/schema/source_line.h"

namespace tilescope {

/// The elements of an input or of a stored stage, row-major, in somebody's memory.
struct ProgramInput {
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape{};
    std::span<const std::byte> bits{};
    /// Of a part of a stage: index of its first element in each dimension, the blocks of a state among them. Empty: the whole stage.
    std::vector<std::int64_t> first{};
    std::int64_t conflicts = 0;       ///< writes that changed an element already written
    std::vector<SourceLine> hooks{};  ///< that recorded it
};

/// A program with the numbers of one call: what a kernel is started with.
struct ProgramCall {
    const Program& program;
    std::vector<std::int64_t> sizes{};    ///< as Program::sizes
    std::vector<std::int64_t> extents{};  ///< of each axis
    std::vector<std::int64_t> blocks{};   ///< of each axis; one that is not cut has one block
    std::vector<ProgramInput> inputs{};   ///< as Program::arrays, up to the first stage

    std::int64_t blocks_of(int axis) const {
        return (extents[std::size_t(axis)] + blocks[std::size_t(axis)] - 1) / blocks[std::size_t(axis)];
    }
    /// The block that a loop over the axis takes after `taken` others; the other way round it is the same.
    std::int64_t block_in_order(int axis, bool backwards, std::int64_t taken) const {
        return backwards ? blocks_of(axis) - 1 - taken : taken;
    }
    std::int64_t last_block(const ProgramArray& state) const {
        return block_in_order(state.over, state.backwards, blocks_of(state.over) - 1);
    }
};

/// Sizes that are the extent of an axis of an input follow from its shape; others are given. `program` and the memory of
/// the inputs must outlive the call.
/// Errors: Error for an input that is missing, is none of the program, has another shape or dtype; a size that is not
/// known, or contradicts a shape; an extent or a block below 1.
ProgramCall bind_program(const Program& program, const std::map<std::string, ProgramInput>& inputs,
                         const std::map<std::string, std::int64_t>& sizes = {});

/// A comparison of two numbers.
bool holds(ProgramOp comparison, double x, double y);

/// Elements of it.
std::int64_t size_of(const ProgramInput& array);

/// Whether an element is what stands where nobody wrote.
bool nobody_wrote(double element);

/// The i-th element, row-major.
double element_of(const ProgramInput& array, std::int64_t i);

/// A whole number of a formula, or a condition of such, which is 1 or 0, with an index of each axis; nullopt where a division by 0
/// stands, or a number that is beyond any array.
std::optional<std::int64_t> whole_at(const ProgramCall& call, int node,
                                     const std::vector<std::int64_t>& axes);

/// "[4, 16]"
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Extents of an input or a stage as its indices give them; of a state without the blocks that it goes over.
std::vector<std::int64_t> shape_of(const ProgramCall& call, const ProgramArray& array);

}  // namespace tilescope
