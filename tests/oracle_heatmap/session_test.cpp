// A session on recorded samples: what it answers is what the oracle says, and it never makes its caller wait.

#include "viewer/session/session.h"
#include "oracle/heatmap/drift_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dump/reader.h"
#include "dump/writer.h"
#include "oracle/explain/explain.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/support/copied_recording.h"
#include "viewer/session/file_stamp.h"

namespace tilescope::viewer {
namespace {

using namespace std::chrono_literals;

std::string sample(const std::string& name) {
    return std::string(TILESCOPE_SAMPLES) + "/" + name + ".h5";
}

class SessionTest : public ::testing::Test {
 protected:
    void SetUp() override {
        folder_ =
            std::filesystem::temp_directory_path() /
            ("tilescope_session_" + std::to_string(std::hash<std::string>()(
                                        ::testing::UnitTest::GetInstance()->current_test_info()->name())));
        std::filesystem::create_directories(folder_);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    /// Like frames: asks again and again, until it says yes.
    template <class Condition>
    static void wait_until(Condition condition) {
        const auto deadline = std::chrono::steady_clock::now() + 60s;
        while (!condition()) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nothing came of it";
            std::this_thread::sleep_for(1ms);
        }
    }
    template <class Ask>
    static auto wait_for(Ask ask) {
        auto answer = ask();
        wait_until([&] { return (answer = ask()) != nullptr; });
        return answer;
    }
    static void open_and_wait(Session& session, const std::string& path, const std::string& other = "") {
        session.open(path, other);
        wait_until([&] { return session.status().idle; });
    }
    std::string copy_of_sample(const std::string& name) const {
        const std::filesystem::path copy = folder_ / (name + ".h5");
        std::filesystem::copy_file(sample(name), copy, std::filesystem::copy_options::overwrite_existing);
        return copy;
    }

    std::filesystem::path folder_;
};

/// The dumped values of a plane, read tile by tile.
std::vector<float> read_plane(const Recording& recording, const Plane& plane) {
    const Problem& problem = recording.problem();
    const PlaneShape shape = plane_shape(problem, plane.stage);
    std::vector<float> values(std::size_t(shape.rows * shape.cols));
    const TileShape whole = tile_shape(problem, plane.stage);
    std::vector<float> tile(std::size_t(whole.elements()));
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t col = 0; col < shape.cols; ++col) {
            const PlaceInTile place = place_in_tile(problem, plane, row, col);
            EXPECT_TRUE(recording.read_tile(plane.stage, place.tile, tile));
            values[std::size_t(row * shape.cols + col)] =
                tile[std::size_t(place.row * whole.cols + place.col)];
        }
    }
    return values;
}

TEST_F(SessionTest, SaysWhatTileDiffSays) {
    Session session;
    EXPECT_EQ(session.document(), nullptr);
    EXPECT_TRUE(session.status().idle);
    EXPECT_EQ(session.request({Stage::s, 0, 0, 0}, Quantity::dumped), nullptr);
    open_and_wait(session, sample("acc_not_rescaled"));
    const auto document = session.document();
    ASSERT_NE(document, nullptr);
    ASSERT_NE(document->report, nullptr);
    EXPECT_EQ(session.status().error, "");
    const auto recording = open_recording(sample("acc_not_rescaled"));
    EXPECT_EQ(verdict_line(*document->report), verdict_line(judge(*recording, {})));
    const Element& first = *document->report->first_divergence;
    EXPECT_TRUE(document->map->at(Stage::acc, first.tile).bad());
    EXPECT_FALSE(document->map->at(Stage::s, first.tile).bad());
}

TEST_F(SessionTest, PicturesHoldEveryElement) {
    Session session;
    open_and_wait(session, sample("acc_not_rescaled"));
    const auto document = session.document();
    const Plane plane{Stage::acc, 0, 0, 1};
    const auto dumped = session.request(plane, Quantity::dumped);
    const auto difference = session.request(plane, Quantity::difference);
    wait_until([&] { return dumped->is_complete() && difference->is_complete(); });
    const std::vector<float> values = read_plane(*document->recording, plane);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < dumped->rows(); ++row) {
        for (std::int64_t col = 0; col < dumped->cols(); ++col) {
            const Rect one{row, col, row + 1, col + 1};
            ASSERT_EQ(dumped->worst_of(one).max, values[std::size_t(row * dumped->cols() + col)]);
            wrong += std::abs(difference->worst_of(one).worst()) > 1e-2f;
        }
    }
    EXPECT_GT(wrong, dumped->rows() * dumped->cols() / 2);
    EXPECT_EQ(session.request(plane, Quantity::dumped), dumped) << "kept";
    EXPECT_EQ(session.request({Stage::lse, 0, 0, 0}, Quantity::dumped) == nullptr,
              !document->recording->has_stage(Stage::lse));
}

TEST_F(SessionTest, DetailsHoldTheBits) {
    Session session;
    open_and_wait(session, sample("acc_not_rescaled"));
    const auto document = session.document();
    const Element& first = *document->report->first_divergence;
    const PlaceInPlane place = place_in_plane(document->problem(), Stage::acc, first);
    const Rect around{place.row, place.col, place.row + 1, place.col + 1};
    DetailTiles details;
    wait_until([&] {
        details = session.request_detail(place.plane, Quantity::over_budget, around);
        return details.at(place.row, place.col) != nullptr;
    });
    const DetailTile& tile = *details.at(place.row, place.col);
    const PlaceInTile inside = place_in_tile(document->problem(), place.plane, place.row, place.col);
    const Element element = tile.element(inside.row, inside.col);
    EXPECT_EQ(element.got, first.got);
    EXPECT_EQ(element.expected, first.expected);
    EXPECT_EQ(element.tolerance, first.tolerance);
    EXPECT_EQ(element.row, first.row);
    EXPECT_EQ(element.finding, Finding::outside);
    EXPECT_EQ(details.at(place.row, place.col + document->problem().head_dim_v), nullptr);
    wait_until([&] { return session.status().idle; });
}

TEST_F(SessionTest, ComesToRestWhenNobodyAsksAgain) {
    Session session;
    open_and_wait(session, sample("acc_not_rescaled"));
    const Plane plane{Stage::p, 0, 0, 0};
    session.request_detail(plane, Quantity::dumped, {0, 0, 64, 192});
    // It rests no sooner than the answer is there, which may be at once.
    if (session.status().idle) {
        EXPECT_NE(session.request_detail(plane, Quantity::dumped, {0, 0, 64, 192}).at(63, 191), nullptr);
    }
    wait_until([&] { return session.status().idle; });
    EXPECT_NE(session.request_detail(plane, Quantity::dumped, {0, 0, 64, 192}).at(63, 191), nullptr);
    // Two panels ask for parts of one plane: neither makes the other wait for ever.
    const Plane s_plane{Stage::s, 0, 0, 0};
    session.request_detail(s_plane, Quantity::dumped, {0, 0, 64, 192});
    session.request_detail(s_plane, Quantity::dumped, {3, 3, 4, 4});
    wait_until([&] { return session.status().idle; });
    EXPECT_NE(session.request_detail(s_plane, Quantity::dumped, {0, 0, 64, 192}).at(63, 191), nullptr);
    // Nothing was captured there: it is not asked for over and over.
    session.request_detail({Stage::p, 0, 0, 0}, Quantity::dumped, {500, 500, 600, 600});
    wait_until([&] { return session.status().idle; });
}

TEST_F(SessionTest, AnswersQuestionsAboutElementsRowsAndSelections) {
    Session session;
    open_and_wait(session, sample("acc_not_rescaled"));
    const auto document = session.document();
    const Element& first = *document->report->first_divergence;
    const ElementPlace place{Stage::acc, first.tile, first.row, first.col};
    const std::string element = fmt::format("acc,{},{},{},{},{}", first.tile.batch, first.tile.head,
                                            first.row, first.col, first.tile.kv_tile);
    const auto text = wait_for([&] { return session.request_explanation(element); });
    EXPECT_EQ(*text, to_text(explain_tolerance(*document->recording, place)));
    const auto row = wait_for([&] { return session.request_row(0, 0, first.row); });
    EXPECT_TRUE(row->stage(Stage::acc)[std::size_t(first.tile.kv_tile)].judged_bad);
    EXPECT_FALSE(row->stage(Stage::acc)[0].judged_bad);
    const auto drift = wait_for([&] { return session.request_drift(0, 0); });
    EXPECT_FLOAT_EQ(drift->acc.col(2).maxCoeff(), float(document->report->drift[2].acc));
    const Plane plane{Stage::acc, 0, 0, first.tile.kv_tile};
    const auto histogram = wait_for([&] { return session.request_histogram(plane, {2, 3, 12, 7}); });
    EXPECT_EQ(histogram->elements, 40);
}

TEST_F(SessionTest, ShowsTheReplayOfTheChosenCause) {
    Session session;
    open_and_wait(session, sample("stale_k_tile"));
    const auto document = session.document();
    ASSERT_NE(document->cause(0), nullptr);
    EXPECT_EQ(document->cause(0)->name, "other_kv_tile");
    EXPECT_EQ(document->cause(document->diagnosis->causes.size() + document->diagnosis->then.size()),
              nullptr);
    EXPECT_EQ(session.request({Stage::s, 0, 0, 0}, Quantity::replayed), nullptr) << "the replay is of k";
    // The mistake is in KV tiles 2 and 3: the others are as the kernel should have them.
    const Plane plane{Stage::k, 0, 0, 0};
    const auto replayed = session.request(plane, Quantity::replayed);
    const auto unexplained = session.request(plane, Quantity::unexplained);
    ASSERT_NE(replayed, nullptr);
    wait_until([&] { return replayed->is_complete() && unexplained->is_complete(); });
    const std::vector<float> values = read_plane(*document->recording, plane);
    for (std::int64_t row = 0; row < replayed->rows(); ++row)
        for (std::int64_t col = 0; col < replayed->cols(); ++col)
            ASSERT_EQ(replayed->worst_of({row, col, row + 1, col + 1}).max,
                      values[std::size_t(row * replayed->cols() + col)])
                << row << ", " << col;
    EXPECT_EQ(unexplained->whole().max, 0);
    // No cause has that number.
    session.choose_cause(99);
    EXPECT_EQ(session.request(plane, Quantity::replayed), nullptr);
    session.choose_cause(0);
    EXPECT_NE(session.request(plane, Quantity::replayed), replayed) << "it is replayed anew";
    wait_until([&] { return session.status().idle; });
}

TEST_F(SessionTest, SearchesThatAreCancelledLeaveNoCauses) {
    bool cancelled = false;
    for (int round = 0; round < 40 && !cancelled; ++round) {
        Session session;
        session.open(sample("acc_not_rescaled"));
        wait_until([&] { return session.status().searching; });
        std::this_thread::sleep_for(round % 8 * 1ms);
        session.cancel();
        wait_until([&] { return session.status().idle; });
        cancelled = session.document()->diagnosis == nullptr;
        EXPECT_FALSE(session.status().searching);
        EXPECT_NE(session.document()->report, nullptr);
        session.reload();
        wait_until([&] { return session.document()->diagnosis != nullptr && session.status().idle; });
        EXPECT_EQ(session.document()->cause(0)->name, "acc_not_rescaled");
    }
    EXPECT_TRUE(cancelled) << "causes were always found already";
}

TEST_F(SessionTest, RefusesWithTheLineOfTileDiffAndKeepsWhatWasOpen) {
    Session session;
    open_and_wait(session, sample("healthy_scalar"));
    const auto before = session.document();
    const std::string bad = (folder_ / "bad.h5").string();
    std::ofstream(bad) << "not a recording";
    open_and_wait(session, bad);
    std::string expected;
    try {
        open_recording(bad);
    } catch (const std::exception& refusal) {
        expected = refusal.what();
    }
    EXPECT_EQ(session.status().error, expected);
    EXPECT_EQ(session.document(), before);
    open_and_wait(session, sample("healthy_scalar"), sample("lse_base2"));
    EXPECT_NE(session.status().error.find("/problem differs"), std::string::npos);
    EXPECT_EQ(session.document(), before);
    session.dismiss_error();
    EXPECT_EQ(session.status().error, "");
    // What was open still answers.
    const auto picture = session.request({Stage::s, 0, 1, 0}, Quantity::ulps);
    wait_until([&] { return picture->is_complete(); });
}

TEST_F(SessionTest, OpensTheRecordingOfARunThatCrashed) {
    // Everything in it matches, but the run came to no good end: tile-diff gives no verdict.
    const auto recording = open_recording(sample("healthy_scalar"));
    test::MemoryRecording crashed = test::copy_of(*recording);
    CaptureSummary capture = recording->capture();
    capture.ended = "an illegal memory access";
    crashed.set_capture(capture);
    const std::string path = (folder_ / "crashed.h5").string();
    write_recording(path, crashed);
    Session session;
    open_and_wait(session, path);
    EXPECT_EQ(session.status().error, "");
    ASSERT_NE(session.document(), nullptr);
    ASSERT_NE(session.document()->report, nullptr);
    EXPECT_NE(session.document()->report->unjudged.find("an illegal memory access"), std::string::npos);
}

TEST_F(SessionTest, ComesBackFromARecordingThatIsRefusedAtTheEnd) {
    // Everything in it matches, but a tile had no room: tile-diff says so after it has judged the others.
    const auto recording = open_recording(sample("healthy_scalar"));
    test::MemoryRecording dropped = test::copy_of(*recording);
    CaptureSummary capture = recording->capture();
    StageCapture& s = capture.stages[std::size_t(Stage::s)];
    s.dropped = {TileId()};
    s.elements_dropped = 1;
    dropped.set_capture(capture);
    dropped.remove_tile(Stage::s, TileId());
    const std::string path = (folder_ / "dropped.h5").string();
    write_recording(path, dropped);
    Session session;
    open_and_wait(session, path);
    EXPECT_EQ(session.document(), nullptr);
    EXPECT_NE(session.status().error.find("for lack of room"), std::string::npos) << session.status().error;
    open_and_wait(session, sample("lse_base2"));
    const auto before = session.document();
    open_and_wait(session, path);
    EXPECT_EQ(session.document(), before);
    EXPECT_NE(session.status().error.find("for lack of room"), std::string::npos);
    EXPECT_FALSE(session.status().changed);
}

TEST_F(SessionTest, ComparesTwoRecordings) {
    const std::string copy = copy_of_sample("healthy_scalar");
    Session session;
    open_and_wait(session, sample("healthy_scalar"), copy);
    const auto document = session.document();
    ASSERT_NE(document, nullptr);
    EXPECT_TRUE(document->pair());
    ASSERT_NE(document->report, nullptr);
    EXPECT_EQ(document->report->verdict, Verdict::match);
    const auto difference = session.request({Stage::p, 0, 0, 0}, Quantity::difference);
    wait_until([&] { return difference->is_complete(); });
    EXPECT_EQ(difference->whole().max, 0);
    EXPECT_TRUE(difference->whole().has(Kind::finite));
}

TEST_F(SessionTest, NoticesThatTheFileChanges) {
    const std::string path = copy_of_sample("healthy_scalar");
    Session session;
    open_and_wait(session, path);
    EXPECT_FALSE(session.status().changed);
    const std::string other = copy_of_sample("acc_not_rescaled");
    std::filesystem::rename(other, path);
    wait_until([&] { return session.status().changed; });
    EXPECT_FALSE(session.status().gone && !std::filesystem::exists(path));
    session.reload();
    wait_until([&] { return session.status().idle; });
    EXPECT_EQ(session.document()->report->guilty, Stage::acc);
    wait_until([&] { return !session.status().changed; });
    std::filesystem::resize_file(path, 1000);
    wait_until([&] { return session.status().written_over; });
    EXPECT_FALSE(session.status().gone);
    const std::uint64_t changes = session.status().settled_changes;
    std::filesystem::remove(path);
    wait_until([&] { return session.status().gone; });
    EXPECT_TRUE(session.status().written_over);
    EXPECT_LE(session.status().settled_changes, changes + 1);
    session.reload();
    wait_until([&] { return session.status().idle; });
    EXPECT_NE(session.status().error, "");
    EXPECT_EQ(session.document()->report->guilty, Stage::acc);
}

TEST_F(SessionTest, StampsTellWhetherAFileWasWrittenOver) {
    const std::string path = copy_of_sample("lse_base2");
    const FileStamp before = stamp_of(path);
    EXPECT_EQ(before, stamp_of(path));
    EXPECT_FALSE(is_written_over(before, stamp_of(path)));
    std::ofstream(path, std::ios::app) << "longer";
    EXPECT_NE(before, stamp_of(path));
    EXPECT_TRUE(is_written_over(before, stamp_of(path)));
    std::filesystem::resize_file(path, std::size_t(before.bytes) / 2);
    EXPECT_TRUE(is_written_over(before, stamp_of(path)));
    // Who holds it open reads on.
    std::filesystem::rename(copy_of_sample("acc_not_rescaled"), path);
    EXPECT_NE(before, stamp_of(path));
    EXPECT_FALSE(is_written_over(before, stamp_of(path)));
    std::filesystem::remove(path);
    EXPECT_NE(before, stamp_of(path));
    EXPECT_FALSE(is_written_over(before, stamp_of(path)));
}

TEST_F(SessionTest, TilesThatAreTooManyAreNotKept) {
    SessionOptions options;
    options.detail_bytes = 1000;
    Session session(options);
    open_and_wait(session, sample("healthy_scalar"));
    EXPECT_TRUE(session.request_detail({Stage::s, 0, 0, 0}, Quantity::dumped, {0, 0, 48, 160}).tiles.empty());
    EXPECT_TRUE(session.status().idle);
}

TEST_F(SessionTest, PicturesThatAreNotLookedAtMakeRoom) {
    SessionOptions options;
    options.picture_bytes = 1 << 18;
    Session session(options);
    open_and_wait(session, sample("healthy_scalar"));
    const auto first = session.request({Stage::s, 0, 0, 0}, Quantity::dumped);
    // What is being filled stays.
    wait_until([&] { return session.status().idle; });
    for (const QuantityInfo& info : all_quantities())
        for (const Stage stage : {Stage::s, Stage::p})
            for (std::int64_t head = 0; head < 2; ++head) session.request({stage, 0, head, 0}, info.quantity);
    EXPECT_NE(session.request({Stage::s, 0, 0, 0}, Quantity::dumped), first);
    wait_until([&] { return session.status().idle; });
}

TEST_F(SessionTest, OpeningCancellingAndClosingAtAnyTime) {
    for (int round = 0; round < 12; ++round) {
        Session session;
        session.open(sample(round % 2 == 0 ? "healthy_wmma" : "healthy_scalar"));
        std::this_thread::sleep_for(round * 3ms);
        session.request({Stage::s, 0, 1, 0}, Quantity::relative);
        session.request_drift(0, 1);
        if (round % 3 == 0) session.cancel();
        if (round % 3 == 1) session.open(sample("lse_base2"));
        if (round % 4 == 3) continue;
        wait_until([&] { return session.status().idle; });
        if (round % 3 == 1) {
            EXPECT_EQ(session.document()->path, sample("lse_base2"));
        }
    }
}

TEST_F(SessionTest, CancelledWorkStaysCancelledUntilReload) {
    Session session;
    session.open(sample("healthy_wmma"));
    session.cancel();
    wait_until([&] { return session.status().idle; });
    EXPECT_EQ(session.document(), nullptr);
    EXPECT_EQ(session.status().error, "");
    open_and_wait(session, sample("healthy_wmma"));
    EXPECT_NE(session.document()->report, nullptr);
}

TEST_F(SessionTest, CancelledPicturesAreFilledWhenSomethingElseIsAskedFor) {
    Session session;
    open_and_wait(session, sample("healthy_wmma"));
    // A picture may be filled before it is cancelled: then another one.
    std::shared_ptr<const Pyramid> picture;
    Quantity quantity = Quantity::dumped;
    for (const QuantityInfo& info : all_quantities()) {
        if (info.against == Reference::replay) continue;
        quantity = info.quantity;
        picture = session.request({Stage::s, 0, 1, 0}, quantity);
        session.cancel();
        wait_until([&] { return session.status().idle; });
        if (!picture->is_complete()) break;
    }
    ASSERT_FALSE(picture->is_complete()) << "all pictures were filled at once";
    // Frames go on asking for it.
    for (int frame = 0; frame < 100; ++frame)
        ASSERT_EQ(session.request({Stage::s, 0, 1, 0}, quantity), picture);
    EXPECT_TRUE(session.status().idle);
    session.request({Stage::p, 0, 1, 0}, Quantity::dumped);
    wait_until([&] { return picture->is_complete(); });
    // Not only said to be complete: every tile is there.
    for (std::int64_t row = 0; row < picture->rows(); ++row)
        for (std::int64_t col = 0; col < picture->cols(); ++col)
            ASSERT_NE(picture->worst_of({row, col, row + 1, col + 1}).kinds, 0) << row << ", " << col;
}

TEST_F(SessionTest, PicturesOfACancelledJudgementAreFilledWhenSomethingElseIsAskedFor) {
    Session session;
    std::shared_ptr<const Pyramid> picture;
    // It may be judged before it is cancelled.
    for (int round = 0; round < 20 && (picture == nullptr || picture->is_complete()); ++round) {
        session.open(sample("healthy_wmma"));
        const std::uint64_t before = session.document() != nullptr ? session.document()->generation : 0;
        wait_until([&] { return session.document() != nullptr && session.document()->generation != before; });
        picture = session.request({Stage::o, 0, 0, 0}, Quantity::over_budget);
        session.cancel();
        wait_until([&] { return session.status().idle; });
    }
    ASSERT_NE(picture, nullptr);
    ASSERT_FALSE(picture->is_complete()) << "it was always judged already";
    EXPECT_EQ(session.document()->report, nullptr);
    EXPECT_EQ(session.request({Stage::o, 0, 0, 0}, Quantity::over_budget), picture);
    EXPECT_TRUE(session.status().idle);
    session.request({Stage::s, 0, 1, 0}, Quantity::dumped);
    wait_until([&] { return picture->is_complete(); });
    wait_until([&] { return session.status().idle; });
}

TEST_F(SessionTest, CancelledQuestionsAreAnsweredWhenSomethingElseIsAsked) {
    Session session;
    open_and_wait(session, sample("healthy_wmma"));
    const Plane plane{Stage::s, 0, 0, 0};
    const Rect all{0, 0, 1 << 20, 1 << 20};
    std::shared_ptr<const Histogram> histogram;
    std::shared_ptr<const RowTrace> row;
    const auto ask = [&] {
        histogram = session.request_histogram(plane, all);
        row = session.request_row(0, 0, 3);
    };
    ask();
    session.cancel();
    for (int frame = 0; frame < 100; ++frame) ask();
    wait_until([&] { return session.status().idle; });
    const bool answered = histogram != nullptr && row != nullptr;
    EXPECT_FALSE(answered) << "nothing was cancelled";
    session.request_row(0, 0, 4);
    wait_until([&] {
        ask();
        return histogram != nullptr && row != nullptr;
    });
    EXPECT_GT(histogram->elements, 0);
}

}  // namespace
}  // namespace tilescope::viewer
