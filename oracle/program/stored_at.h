#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/describe/changed_slot.h"
#include "oracle/program/conditions.h"
#include "oracle/program/evaluate.h"

namespace tilescope {

/// Where a kernel stores an element of a stage: the indices of its place in memory, row-major with these extents. An index may be
/// larger than its extent, and the extents other than those of the stage: there is no bound but that of the memory.
struct StoredAt {
    std::vector<int> indices{};  ///< nodes
    std::vector<int> extents{};  ///< nodes; of all indices but the first
    /// An axis of which what is behind its end is stored as well, as of inputs that are 0 there; -1: of none.
    int behind = -1;
    int end = -1;                 ///< node: up to where
    bool behind_is_last = false;  ///< that is stored when everything else is
    /// What stands where nothing was stored; nullopt: what stood there before, which nobody knows.
    std::optional<double> left{};

    bool operator==(const StoredAt&) const = default;
};

/// Every element to its own place.
StoredAt own_place(const Program& program, int stage);

/// "[n, m ^ 1]"; where the extents are not those of the stage the number in memory, "y.flat[n * (cols + 8) + m]".
std::string place_in_memory(const Program& program, int stage, const StoredAt& store);
ChangedSlot changed_store(const Program& program, int stage, const StoredAt& store);

/// A stage as a whole, row-major: what is expected of it, and what the kernel's memory holds.
struct WholeStage {
    int stage = -1;
    std::vector<int> axes{};
    std::vector<std::int64_t> shape{};
    std::vector<double> expected{};
    std::vector<double> error{};
    std::vector<double> got{};
    std::vector<char> known{};
    std::vector<std::int32_t> order{};  ///< in which the kernel stores: block after block

    std::int64_t size() const { return std::ssize(expected); }
    std::int64_t size_of_memory() const { return std::ssize(got); }
    AxisIndices at(std::int64_t element) const;
    std::vector<std::int64_t> index_of(std::int64_t element) const;
    /// Whether the memory holds at `address` what is expected of `element`.
    bool holds(std::int64_t address, std::int64_t element) const;
};

/// `stored` has the stage. Errors: Error where that takes too much memory, or computes more than `most_computed` elements.
WholeStage whole_stage(const ProgramCall& call, const ProgramOptions& options, int stage,
                       std::int64_t most_computed);

/// The same with what is stored behind the end of an axis, in its last block. Its memory is that of the stage. nullopt: nobody knows what is there.
std::optional<WholeStage> stage_behind(const ProgramCall& call, const ProgramOptions& options,
                                       const WholeStage& whole, const StoredAt& store);

/// The number in memory of each element. Made once, and asked often.
class StoreAddresses {
 public:
    StoreAddresses(const ProgramCall& call, const WholeStage& whole, const StoredAt& store);

    /// nullopt: beyond any array.
    std::optional<std::int64_t> of(const AxisIndices& at) const;

 private:
    /// What is added to the address: an index, or a part of one, times the distance of its numbers.
    struct Term {
        int node = -1;
        std::int64_t factor = 1;
        int axis = -1;                       ///< that alone it is of; -1: of several
        std::vector<std::int64_t> values{};  ///< along that; of none one
    };
    void add(int node, std::int64_t factor, const WholeStage& whole);

    const ProgramCall& call_;
    std::vector<Term> terms_;
    std::int64_t size_ = 0;
};

/// Which element the kernel stored last at each place of the memory; -1: none. `condition`: a node, of the elements that are stored so;
/// others go to their own places. -1: all are.
std::vector<std::int32_t> stored_elements(const ProgramCall& call, const WholeStage& whole,
                                          const StoredAt& store, int condition);

/// What the memory holds then; of what nobody knows the error is infinite, and what nobody wrote is exact.
std::vector<Uncertain> memory_of(const ProgramCall& call, const ProgramOptions& options,
                                 const WholeStage& whole, const StoredAt& store, int condition);

}  // namespace tilescope
