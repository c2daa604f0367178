#pragma once

// GoogleTest expectations: link tilescope::oracle and GoogleMock.
//
//     EXPECT_ATTENTION(problem, q, k, v, o);                            // arrays in host memory, no hooks needed
//     EXPECT_THAT("run.h5", tilescope::MatchesOracle());                // a recording that hooks have written
//
// Both print what tile-diff would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "dump/array_recording.h"
#include "dump/reader.h"
#include "oracle/check.h"

namespace tilescope {

/// The same for a file. A file that cannot be opened could not be judged.
inline Checked check(const std::string& path) {
    try {
        return check(*open_recording(path));
    } catch (const std::exception& error) {
        return {2, error.what()};
    }
}

/// Matches a Recording, or the path of one, that tile-diff judges a match. What could not be judged is none.
MATCHER(MatchesOracle, negation ? "does not match the float64 oracle" : "matches the float64 oracle") {
    const Checked checked = check(arg);
    *result_listener << (checked.exit_code == 2 ? "which could not be judged:\n"
                                                : "of which tile-diff says:\n")
                     << checked.report;
    return checked.matches();
}

/// Contiguous [batch][heads][seqlen][head_dim] of the problem's dtype.
inline HostArray host_array(const void* data, Dtype dtype, std::int64_t heads, std::int64_t rows,
                            std::int64_t columns) {
    return heads_first(data, dtype, heads, rows, columns);
}
/// Wherever it lies.
inline HostArray host_array(const HostArray& array, Dtype, std::int64_t, std::int64_t, std::int64_t) {
    return array;
}

/// Whether o is attention of q, k and v, within what the problem's dtypes and `units` allow. Arrays are HostArray, or
/// pointers to contiguous [batch][heads][seqlen][head_dim] in host memory.
template <class Q, class K, class V, class O>
testing::AssertionResult is_attention(const Problem& problem, const Q& q, const K& k, const V& v, const O& o,
                                      const Units& units = {}) {
    const Problem& p = problem;
    try {
        ArrayRecording call(p, units);
        call.set_input(Input::q, host_array(q, p.dtype_q, p.heads, p.seqlen_q, p.head_dim));
        call.set_input(Input::k, host_array(k, p.dtype_k, p.heads_kv, p.seqlen_kv, p.head_dim));
        call.set_input(Input::v, host_array(v, p.dtype_v, p.heads_kv, p.seqlen_kv, p.head_dim_v));
        call.set_output(Stage::o, host_array(o, p.dtype_o, p.heads, p.seqlen_q, p.head_dim_v));
        const Checked checked = check(call);
        return (checked.matches() ? testing::AssertionSuccess() : testing::AssertionFailure())
               << checked.report;
    } catch (const std::exception& error) {
        return testing::AssertionFailure() << error.what();
    }
}

}  // namespace tilescope

/// EXPECT_ATTENTION(problem, q, k, v, o[, units]), see tilescope::is_attention().
#define EXPECT_ATTENTION(...) EXPECT_TRUE(::tilescope::is_attention(__VA_ARGS__))
#define ASSERT_ATTENTION(...) ASSERT_TRUE(::tilescope::is_attention(__VA_ARGS__))
