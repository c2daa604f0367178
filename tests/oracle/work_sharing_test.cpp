// Processes that judge together: the report of one, whatever their number, and one error for all of them.

#include "oracle/judge/work_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>
#include <random>

#include "dump/recording/recording_view.h"
#include "oracle/judge.h"
#include "oracle/judge/in_every_process.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/judge/tally_bytes.h"
#include "oracle/report/text.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/plants.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/simulated_processes.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 23;
constexpr int numbers_of_processes[] = {1, 2, 3, 8};

class Together : public BothPasses {};
TILESCOPE_TEST_BOTH_PASSES(Together);

std::string text_of(const Report& report) {
    return to_json(report) + to_text(report);
}

/// What each of them says.
std::vector<std::string> said_together(const Recording& recording, int processes) {
    std::vector<std::string> said(static_cast<std::size_t>(processes));
    in_processes(processes, [&](WorkSharing& sharing) {
        JudgeOptions options = one_thread();
        options.sharing = &sharing;
        said[std::size_t(sharing.process())] = text_of(report_of(recording, options));
    });
    return said;
}

void expect_alike(const Recording& recording) {
    const std::string alone = text_of(report_of(recording, one_thread()));
    for (const int processes : numbers_of_processes)
        for (const std::string& said : said_together(recording, processes))
            EXPECT_EQ(said, alone) << processes;
}

TEST_P(Together, SayWhatOneSays) {
    expect_alike(recorded(make_call(small_problem(Mask::causal, direction()), seed)));
    for (const Mistake mistake : {Mistake::mask_off_by_one, Mistake::p_not_masked}) {
        SCOPED_TRACE(mistake_info(mistake).name);
        expect_alike(recorded(call_that_shows(mistake, direction(), seed), planted(mistake)));
    }
}

/// Many elements differ by as much: which of them are told of, and which is the first, no order of adding up changes.
TEST_P(Together, SayTheSameOfTies) {
    MemoryRecording recording = recorded(make_call(small_problem(Mask::none, direction()), seed));
    const Stage stage = is_forward() ? Stage::o : Stage::dq;
    const Problem& problem = recording.problem();
    const TileShape shape = tile_shape(problem, stage);
    for (std::int64_t i = 0; i < tile_count(problem, stage); ++i)
        recording.set_tile(stage, tile_at(problem, stage, i),
                           std::vector<float>(std::size_t(shape.elements()), infinity));
    expect_alike(recording);
}

TEST(TogetherUndeclared, SeeTheSame) {
    Arithmetic arithmetic;
    arithmetic.masked_s = -30000;
    const Call call = make_call(small_problem(Mask::causal), seed, arithmetic);
    const MemoryRecording honest = recorded(call);
    Units units = honest.units();
    units.s_masked_value = -double(infinity);
    expect_alike(declared_as(honest, honest.problem(), units, call.inputs));
}

TEST(TogetherManyRecordings, AreJudgedFromOneQueue) {
    const MemoryRecording right = recorded(make_call(small_problem(Mask::none), seed));
    const MemoryRecording wrong =
        recorded(call_that_shows(Mistake::mask_off_by_one, Direction::forward, seed),
                 planted(Mistake::mask_off_by_one));
    const MemoryRecording empty(small_problem(Mask::none), {});
    const Recording* const recordings[] = {&right, &wrong, &empty};
    in_processes(3, [&](WorkSharing& sharing) {
        std::vector<JudgeOptions> options(3, one_thread());
        for (JudgeOptions& each : options) each.sharing = &sharing;
        std::vector<TilesFound> found;
        sharing.together([&] { found = judge_tiles(recordings, options, sharing); });
        for (std::size_t i = 0; i < 3; ++i) options[i].tiles = &found[i];
        for (std::size_t i = 0; i < 2; ++i)
            EXPECT_EQ(text_of(report_of(*recordings[i], options[i])),
                      text_of(report_of(*recordings[i], one_thread())));
        EXPECT_THROW(judge(empty, options[2]), Error);
    });
}

/// A recording of which one process cannot read a tile.
class Unreadable final : public RecordingView {
 public:
    Unreadable(const Recording& of, const TileId& tile, bool lacks_memory)
        : RecordingView(of), tile_(tile), lacks_memory_(lacks_memory) {}
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override {
        if (tile == tile_ && lacks_memory_) throw std::bad_alloc();
        if (tile == tile_) throw Error("cannot be read", "run.h5", "record it again");
        return of().read_tile(stage, tile, out);
    }

 private:
    TileId tile_;
    bool lacks_memory_;
};

TEST(TogetherFailing, AnErrorOfATileIsThatOfAll) {
    const MemoryRecording recording = recorded(make_call(small_problem(Mask::none), seed));
    in_processes(3, [&](WorkSharing& sharing) {
        JudgeOptions options = one_thread();
        options.sharing = &sharing;
        const Unreadable unreadable(recording, {0, 1, 1, 0}, false);
        try {
            judge(unreadable, options);
            ADD_FAILURE() << "it was judged";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()), "run.h5: cannot be read; record it again");
        }
        EXPECT_FALSE(sharing.blamed().empty());
        EXPECT_THROW(judge(Unreadable(recording, {0, 1, 1, 0}, true), options), std::bad_alloc);
        // They can go on together.
        EXPECT_TRUE(matches(judge(recording, options)));
    });
}

TEST(TogetherFailing, TheErrorOfOneProcessEndsAllWhereverTheyAre) {
    const MemoryRecording recording = recorded(make_call(small_problem(Mask::none), seed));
    in_processes(3, [&](WorkSharing& sharing) {
        JudgeOptions options = one_thread();
        options.sharing = &sharing;
        const auto judged = [&] {
            if (sharing.process() == 1) throw Error("is not here", "run.h5", "copy it");
            return judge(recording, options);
        };
        try {
            in_every_process(sharing, judged);
            ADD_FAILURE() << "it was judged";
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()), "run.h5: is not here; copy it");
        }
        EXPECT_EQ(sharing.blamed(), "rank 1");
        EXPECT_TRUE(matches(judge(recording, options)));
    });
}

TEST(TogetherFailing, PiecesAreInTheirOrder) {
    in_processes(3, [](WorkSharing& sharing) {
        const std::vector<std::string> all =
            share_pieces<std::string>(50, 2, sharing, [](std::int64_t i) { return std::to_string(i); });
        ASSERT_EQ(all.size(), 50u);
        for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::to_string(i));
    });
}

/// Every member another number.
StageTally some_tally(std::mt19937& generator) {
    const auto next = [&] { return std::int64_t(generator() % 4); };
    const auto element = [&] {
        return Element{
            Finding::outside, {next(), next(), next(), next()}, next(), next(), double(next()), 1, 0.5};
    };
    StageTally tally;
    for (std::int64_t* count :
         {&tally.tiles, &tally.tiles_missing, &tally.compared, &tally.not_judged, &tally.outside, &tally.nan,
          &tally.infinite, &tally.unwritten, &tally.conflicting, &tally.saturated, &tally.inherited})
        *count = 1 + next();
    tally.max_ulp = std::uint64_t(next());
    for (double* value : {&tally.most_saturated, &tally.max_abs, &tally.budget_used, &tally.highest_lower,
                          &tally.lowest_upper, &tally.least_got, &tally.most_got, &tally.highest_half_lower,
                          &tally.lowest_half_upper})
        *value = double(next());
    for (std::optional<Element>* first :
         {&tally.first, &tally.first_nan, &tally.first_infinite, &tally.first_unwritten})
        *first = element();
    for (int i = 0; i < 5; ++i) tally.worst.push_back(element());
    std::ranges::sort(tally.worst, [](const Element& a, const Element& b) {
        return a.ratio() != b.ratio() ? a.ratio() > b.ratio() : comes_before(a, b);
    });
    for (int i = 0; i < 3; ++i) tally.bad_rows.push_back({next(), next(), next(), 1});
    compact_bad_rows(tally);
    return tally;
}

TEST(TallyBytes, KeepEveryMember) {
    std::mt19937 generator(seed);
    const StageTally tally = some_tally(generator);
    const std::string bytes = to_bytes(tally);
    EXPECT_EQ(to_bytes(from_bytes<StageTally>(bytes)), bytes);
    // A member that is left out comes back as if nothing had been found.
    const StageTally back = from_bytes<StageTally>(bytes);
    EXPECT_EQ(std::tie(back.tiles, back.inherited, back.max_ulp, back.lowest_half_upper, back.bad_rows),
              std::tie(tally.tiles, tally.inherited, tally.max_ulp, tally.lowest_half_upper, tally.bad_rows));
    EXPECT_THROW(from_bytes<StageTally>(bytes.substr(1)), std::length_error);
    EXPECT_THROW(from_bytes<StageTally>(bytes + "x"), std::length_error);
}

TEST(TallyBytes, AddUpToTheSameInAnyOrder) {
    std::mt19937 generator(seed);
    std::vector<StageTally> parts;
    for (int i = 0; i < 6; ++i) parts.push_back(some_tally(generator));
    const auto added_up = [&] {
        StageTally whole;
        for (const StageTally& part : parts) merge(part, {}, whole);
        compact_bad_rows(whole);
        return to_bytes(whole);
    };
    const std::string once = added_up();
    for (int i = 0; i < 20; ++i) {
        std::ranges::shuffle(parts, generator);
        EXPECT_EQ(added_up(), once);
    }
}

/// Every piece once, and by who has it at hand as long as that one is not late.
TEST(TogetherAtHome, EachTakesItsOwnFirst) {
    constexpr int processes = 3;
    const WorkSharing::Stretch stretches[] = {{5, 1}, {0, 2}, {7, 0}, {4, WorkSharing::everyone},
                                              {6, 2}, {3, 1}};
    std::vector<std::vector<std::int64_t>> taken(processes);
    in_processes(processes, [&](WorkSharing& sharing) {
        const int process = sharing.process();
        sharing.settle({}, {process});
        sharing.begin(stretches);
        while (const std::optional<std::int64_t> piece = sharing.take())
            taken[std::size_t(process)].push_back(*piece);
        sharing.begin(0);
    });
    const std::vector<std::int64_t> own[] = {
        {5, 6, 7, 8, 9, 10, 11}, {0, 1, 2, 3, 4, 22, 23, 24}, {16, 17, 18, 19, 20, 21}};
    std::vector<std::int64_t> all;
    for (int i = 0; i < processes; ++i) {
        const std::vector<std::int64_t>& mine = taken[std::size_t(i)];
        all.insert(all.end(), mine.begin(), mine.end());
        // What it takes of others comes after its own and everyone's.
        const auto is_of_others = [&](std::int64_t piece) {
            return (piece < 12 || piece > 15) && std::ranges::find(own[i], piece) == own[i].end();
        };
        EXPECT_TRUE(std::ranges::is_partitioned(mine, std::not_fn(is_of_others))) << i;
    }
    std::ranges::sort(all);
    std::vector<std::int64_t> expected(25);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
}

/// Several at once, of one stretch, as long as there are many.
TEST(TogetherAtHome, SomeTakeSeveralAtOnce) {
    constexpr int processes = 2;
    const WorkSharing::Stretch stretches[] = {{301, 0}, {97, 1}, {202, 0}};
    std::vector<std::vector<WorkSharing::Pieces>> taken(processes);
    in_processes(processes, [&](WorkSharing& sharing) {
        const int process = sharing.process();
        sharing.settle({}, {process});
        sharing.begin(stretches);
        for (auto pieces = sharing.take(4); pieces.count > 0; pieces = sharing.take(4))
            taken[std::size_t(process)].push_back(pieces);
        sharing.begin(0);
    });
    std::vector<int> times(600);
    bool are_several = false;
    for (const auto& mine : taken) {
        for (const WorkSharing::Pieces& pieces : mine) {
            EXPECT_LE(pieces.count, 4);
            are_several = are_several || pieces.count == 4;
            const std::int64_t last = pieces.first + pieces.count - 1;
            for (const std::int64_t end : {301, 398})
                EXPECT_EQ(pieces.first < end, last < end) << pieces.first;
            for (std::int64_t i = pieces.first; i <= last; ++i) ++times[std::size_t(i)];
        }
    }
    EXPECT_TRUE(are_several);
    EXPECT_TRUE(std::ranges::all_of(times, [](int count) { return count == 1; }));
}

TEST(TogetherAtHome, StopLeavesNothing) {
    in_processes(2, [&](WorkSharing& sharing) {
        sharing.settle({}, {sharing.process()});
        const WorkSharing::Stretch stretches[] = {{1000, 0}, {1000, 1}};
        sharing.begin(stretches);
        if (sharing.process() == 0) sharing.stop();
        sharing.begin(0);
        EXPECT_EQ(sharing.take(), std::nullopt);
    });
}

}  // namespace
}  // namespace tilescope::test
