#pragma once

// What well-known kernels do, as declarations: dump/FORMAT.md has the same table, with where it was read.

#include <cstdint>
#include <span>
#include <string_view>

#include "dump/schema.h"

namespace tilescope::declarations {

/// Inputs for which a family does as it says: by the type of q.
enum class Operands : std::uint8_t { any, sixteen_bits, fp8 };

struct FamilyDeclaration {
    std::string_view name;  ///< of all_declarations()
    /// "dtype_k" and "dtype_v": the types of k and v in /problem; "sm_scale": that number, over logits_soft_cap where there is one;
    /// "sm_scale log2(e)": times log2(e).
    std::string_view value;
    Operands operands = Operands::any;
};

/// Kernels that share their arithmetic.
struct Family {
    std::string_view name;
    std::span<const FamilyDeclaration> declarations;   ///< of a forward pass
    std::span<const FamilyDeclaration> backward = {};  ///< empty: its backward pass is not known
};
std::span<const Family> all_families();

/// Declares what the family does, whatever was declared of it before. Errors: Error for a family that is not among
/// them, and for a backward pass that is not known.
void declare_family(std::string_view family, Problem& problem, Units& units);

}  // namespace tilescope::declarations
