#pragma once

// Comparisons that the compiler writes. C++17, whose compilers cannot, reads the public headers without them.

#if __cplusplus >= 202002L
#include <compare>
#define TILESCOPE_EQUALITY(Type) bool operator==(const Type&) const = default
#define TILESCOPE_ORDER(Type) auto operator<=>(const Type&) const = default
#else
#define TILESCOPE_EQUALITY(Type) static_assert(true)
#define TILESCOPE_ORDER(Type) static_assert(true)
#endif
