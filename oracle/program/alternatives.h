#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "dump/recording/program_call.h"
#include "oracle/program/build.h"

namespace tilescope {

/// What a kernel may have done in place of a function; without itself, or with it among those of its kind.
std::vector<ProgramFunction> functions_like(ProgramFunction function);

/// The comparisons that a kernel may have in place of one.
std::vector<ProgramOp> comparisons_like(ProgramOp op);

/// What may stand in place of a node, and the bits of the numbers in it.
struct Alternative {
    int node = -1;
    double bits = 0;
};
using AxisSet = std::bitset<ProgramLimits::axes>;

/// What kernels mistake an index for. `fixed`: axes that have an index there; `extent`: how many indices there are, -1: it is not known.
std::vector<Alternative> indices_like(ProgramBuilder& build, const Program& program, int index,
                                      const AxisSet& fixed, int extent);
/// The same in one call: those that differ from the index and from each other somewhere, and not only beyond what is there; the shorter
/// ones first.
class OtherIndices {
 public:
    /// All of these must outlive it.
    OtherIndices(const Program& program, const ProgramCall& call, ProgramBuilder& build)
        : program_(program), call_(call), build_(build) {}

    const std::vector<Alternative>& of(int index, const AxisSet& fixed, int extent);

 private:
    std::vector<std::int64_t> sampled(int index, int extent) const;

    const Program& program_;
    const ProgramCall& call_;
    ProgramBuilder& build_;
    std::map<std::tuple<int, unsigned long, int>, std::vector<Alternative>> found_{};
};
/// Multiples of the index within its block, which lead out of that: what stands there nobody knows.
std::vector<Alternative> multiples_in_block(ProgramBuilder& build, const Program& program, int index);
/// An index that is off by what two extents differ by.
std::vector<Alternative> indices_off_by_extents(ProgramBuilder& build, const Program& program, int index);
/// A tile of rows that are cut into blocks, whose rows and columns are exchanged, or whose rows have another length; none of a read that is not
/// of such a tile.
std::vector<Alternative> tile_reads_like(ProgramBuilder& build, const Program& program,
                                         const ProgramNode& read);

}  // namespace tilescope
