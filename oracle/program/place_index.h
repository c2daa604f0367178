#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dump/recording/program_call.h"
#include "oracle/program/conditions.h"

namespace tilescope {

/// An index that is made of axes and a size, as rows are counted where chunks are no axis.
struct PlaceIndex {
    enum class Form : std::uint8_t {
        axis,      ///< x
        rest,      ///< x % size
        quotient,  ///< x / size
        in_part,   ///< x / size * size + y
    };
    Form form = Form::axis;
    int x = -1;
    int y = -1;
    std::int64_t size = 1;
    int size_node = -1;

    std::int64_t at(const AxisIndices& place) const;
    int node(ProgramBuilder& build) const;
    double bits() const;
};

/// Sizes of the call that have a name, and blocks, with their nodes.
std::map<std::int64_t, int> named_sizes(const ProgramCall& call, ProgramBuilder& build);

/// Those of the axes that differ, the shorter ones first.
std::vector<PlaceIndex> place_indices(const ProgramCall& call, ProgramBuilder& build,
                                      const std::vector<int>& axes);

}  // namespace tilescope
