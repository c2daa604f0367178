#pragma once

namespace tilescope {

/// The clock of a multiprocessor in MHz, from a thread that waits for a known number of cycles. Work enqueued
/// before it in the same stream is waited for. Errors: Error when the GPU fails.
double measure_sm_clock_mhz();

}  // namespace tilescope
