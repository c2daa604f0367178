#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "dump/recording/captured_run.h"
#include "dump/recording/flight.h"

namespace tilescope::test {

/// What a launch of these tests wrote of itself: its number.
inline float m_of(const CapturedRun& run) {
    std::vector<float> values(4);
    EXPECT_TRUE(run.read_tile(Stage::m, {1, 4, 2, 1}, values));
    return values[0];
}

/// Of a recorder whose launch 4 was the first with a NaN in p; later launches keep nothing.
template <typename Recorder>
void expect_frozen_at_four(const Recorder& recorder, std::size_t kept) {
    const std::optional<FlightFreeze> freeze = recorder.frozen();
    ASSERT_TRUE(freeze);
    EXPECT_EQ(freeze->launch, 4);
    EXPECT_EQ(freeze->stage, Stage::p);
    EXPECT_EQ(freeze->tile, (TileId{1, 4, 2, 1}));
    EXPECT_EQ(freeze->row, 1);
    EXPECT_EQ(freeze->col, 2);
    EXPECT_TRUE(std::isnan(freeze->value));
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), kept);
    for (std::size_t i = 0; i < kept; ++i) EXPECT_EQ(m_of(runs[i]), float(5 - kept + i));
}

}  // namespace tilescope::test
