#include "oracle/judge/judge_tiles.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "oracle/formula/head_call.h"
#include "oracle/judge/gradient_judge.h"
#include "oracle/judge/named_judge.h"
#include "oracle/judge/q_block.h"
#include "oracle/judge/tally_bytes.h"
#include "oracle/judge/team.h"

namespace tilescope {

namespace {

std::int64_t divergences_in(const JudgedPart& partial) {
    std::int64_t count = 0;
    for (const StageTally& tally : partial.stages) count += tally.outside;
    return count;
}

/// What is judged at once: a query block, a KV tile with its gradients, or what a query block or a head has
/// of a named tile.
struct JudgeTask {
    void (*judge)(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial);
    Stage stage;  ///< whose tiles it counts
    TileId tile;
    std::int64_t head_kv;  ///< whose K and V it needs
};

/// Query blocks of one head, each into a part of its own: every KV tile by all of them before the next one.
void judge_together(const Plan& plan, std::span<const TileId> q_blocks, Pass pass,
                    std::span<JudgedPart> parts) {
    KvAtHand kv;
    std::vector<std::unique_ptr<QBlockJudge>> judges;
    for (std::size_t i = 0; i < q_blocks.size(); ++i) {
        judges.push_back(std::make_unique<QBlockJudge>(plan, q_blocks[i], pass, parts[i], kv));
        judges.back()->begin();
    }
    for (std::int64_t i = 0; i < judges.front()->kv_tiles(); ++i)
        for (const auto& judge : judges)
            if (!judge->is_ended()) judge->judge_kv_tile_in_order(i);
    for (const auto& judge : judges)
        if (!judge->is_ended()) judge->end();
}

void judge_forward(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial) {
    judge_together(plan, std::span(&tile, 1), pass, std::span(&partial, 1));
}

/// Everything that is judged, by a number.
class WorkList {
 public:
    explicit WorkList(const Plan& plan) : plan_(plan), problem_(plan.problem()) {
        const bool backward = problem_.direction == Direction::backward;
        of_rows_ = backward ? judge_gradient_rows : judge_forward;
        const bool rows = std::ranges::any_of(
            all_stages(), [&](const StageInfo& info) { return info.per_q_block && plan.has(info.stage); });
        rows_ = rows ? tile_count(problem_, Stage::q) : 0;
        keys_ = plan.has(Stage::dk) || plan.has(Stage::dv) ? tile_count(problem_, Stage::dk) : 0;
        parts_ = {{Stage::q, rows_, 1}, {Stage::dk, keys_, 1}};
        for (int i = 0; i < max_named_tiles; ++i) {
            const Stage stage = named_tile(i);
            if (!plan.has(stage) || (plan.other == nullptr && !plan.observe)) continue;
            const std::int64_t step = stage_info(problem_, stage).per_kv_tile ? problem_.kv_tiles() : 1;
            parts_.push_back({stage, tile_count(problem_, stage) / step, step});
        }
        for (const Part& part : parts_) size_ += part.count;
    }

    std::int64_t size() const { return size_; }
    /// Query blocks come first. KV tiles are computed from what they hold.
    std::int64_t rows() const { return rows_; }

    /// nullopt where the batch entry is too short to have it, or where `options` ask for something else.
    std::optional<JudgeTask> at(std::int64_t i, const JudgeOptions& options) const {
        auto part = parts_.begin();
        for (; i >= part->count; ++part) i -= part->count;
        const Stage stage = part->stage;
        const TileId tile = tile_at(problem_, stage, i * part->step);
        const HeadRange heads = query_heads(problem_, stage, tile.head);
        const JudgeTask work{stage == Stage::q ? of_rows_ : judge_gradient_keys, stage, tile,
                             problem_.head_kv(heads.first)};
        const auto& head = options.only_head;
        if (head && (head->first != tile.batch || !heads.contains(head->second))) return std::nullopt;
        const bool of_rows = stage_info(problem_, stage).per_q_block;
        if (options.only_q_block && (!of_rows || *options.only_q_block != tile.q_block)) return std::nullopt;
        const Problem entry = problem_of(problem_, plan_.recording.side_inputs(), work.tile.batch);
        if (!is_named(stage) && tile_extent(entry, stage, work.tile).rows <= 0) return std::nullopt;
        if (stage == Stage::q && !has_rows(tile)) return std::nullopt;
        return work;
    }

 private:
    /// Whether anything of the query block was recorded, or is missing.
    bool has_rows(const TileId& q_block) const {
        const Recording& recording = plan_.recording;
        const std::optional<Selection>& selection = recording.capture().selection;
        const bool asked_for = selection && selection->batch.contains(q_block.batch) &&
                               selection->head.contains(q_block.head) &&
                               selection->lists_block(q_block.batch, q_block.head, q_block.q_block) &&
                               selection->q_block.contains(q_block.q_block);
        return asked_for || recording.may_hold(q_block);
    }

    const Plan& plan_;
    const Problem& problem_;
    decltype(JudgeTask::judge) of_rows_ = nullptr;
    /// Every `step`-th tile of a stage.
    struct Part {
        Stage stage;
        std::int64_t count;
        std::int64_t step;
    };
    std::vector<Part> parts_;
    std::int64_t rows_ = 0;
    std::int64_t keys_ = 0;
    std::int64_t size_ = 0;
};

/// Adds what a tile inherits; `diverges`: something of it, or that it is computed from, did.
void judge_inherited(const Plan& plan, const JudgeTask& work, bool diverges, JudgedPart& partial) {
    if (!plan.end_to_end || !diverges) return;
    JudgedPart again;
    again.drift.resize(partial.drift.size());
    work.judge(plan, work.tile, Pass::inherited, again);
    for (std::size_t i = 0; i < partial.stages.size(); ++i)
        partial.stages[i].inherited += again.stages[i].inherited;
}

/// `inherits`: something that it is computed from diverged.
void judge_work(const Plan& plan, const JudgeTask& work, bool inherits, JudgedPart& partial) {
    if (is_named(work.stage)) return judge_named(plan, work.stage, work.tile, partial);
    const std::int64_t before = divergences_in(partial);
    work.judge(plan, work.tile, Pass::divergences, partial);
    judge_inherited(plan, work, inherits || divergences_in(partial) != before, partial);
}

void merge_part(const CompareOptions& compare, const JudgedPart& mine, JudgedPart& whole) {
    for (std::size_t i = 0; i < whole.stages.size(); ++i) merge(mine.stages[i], compare, whole.stages[i]);
    for (std::size_t i = 0; i < whole.drift.size(); ++i) {
        whole.drift[i].m = std::max(whole.drift[i].m, mine.drift[i].m);
        whole.drift[i].l = std::max(whole.drift[i].l, mine.drift[i].l);
        whole.drift[i].acc = std::max(whole.drift[i].acc, mine.drift[i].acc);
    }
}

/// Query blocks come first: KV tiles are computed from what they hold.
enum class TilePhase : std::uint8_t { rows, keys };

/// A recording, while its tiles are judged.
struct Judging {
    Judging(const TilesToJudge& of) : plan(of.plan), options(of.options), list(of.plan) {}

    std::int64_t first(TilePhase phase) const { return phase == TilePhase::rows ? 0 : list.rows(); }
    std::int64_t count(TilePhase phase) const {
        return phase == TilePhase::rows ? list.rows() : list.size() - list.rows();
    }
    TilesFound nothing() const {
        TilesFound found;
        found.part.drift.resize(std::size_t(plan.problem().kv_tiles()));
        return found;
    }

    const Plan& plan;
    const JudgeOptions& options;
    WorkList list;
    bool inherits = false;  ///< something that the pieces are computed from diverged
};

void merge_tiles(const Judging& of, const TilesFound& part, TilesFound& whole) {
    merge_part(of.plan.compare, part.part, whole.part);
    keep_first_failure(part.failure, whole.failure);
}

void compact(TilesFound& found) {
    for (StageTally& tally : found.part.stages) compact_bad_rows(tally);
}

/// What the threads of this process found in a phase.
class PhaseFound {
 public:
    /// Of each recording, by its number; of those that the process has judged something of.
    using Parts = std::vector<std::pair<std::size_t, TilesFound>>;

    explicit PhaseFound(std::span<const Judging> all) : all_(all) {}

    void add(std::size_t of, const TilesFound& part) {
        const std::scoped_lock lock(mutex_);
        add_unlocked(of, part);
    }
    /// Adds up that of all processes.
    void fold(WorkSharing& sharing) {
        compact_all();
        tilescope::fold(sharing, parts_, [this](const Parts& parts, Parts&) {
            for (const auto& [of, part] : parts) add_unlocked(of, part);
            compact_all();
        });
    }
    const Parts& parts() const { return parts_; }

 private:
    void compact_all() {
        for (auto& [of, part] : parts_) compact(part);
    }
    void add_unlocked(std::size_t of, const TilesFound& part) {
        auto found = std::ranges::find(parts_, of, [](const auto& one) { return one.first; });
        if (found == parts_.end()) found = parts_.insert(found, {of, all_[of].nothing()});
        merge_tiles(all_[of], part, found->second);
    }

    std::span<const Judging> all_;
    std::mutex mutex_;
    Parts parts_;
};

/// A thread's share of a phase.
class Share {
 public:
    Share(std::span<const Judging> all, TilePhase phase, PhaseFound& found, WorkSharing& sharing)
        : all_(all), phase_(phase), found_(found), sharing_(sharing) {}

    /// Pieces of the recording `of`.
    void judge(std::size_t of, WorkSharing::Pieces pieces) {
        if (!mine_ || of_ != of) {
            leave();
            of_ = of;
            mine_ = all_[of].nothing();
        }
        if (pieces.count == 1 || !judge_together(pieces))
            for (std::int64_t i = 0; i < pieces.count; ++i) judge_one(pieces.first + i);
    }
    void leave() {
        if (mine_) found_.add(of_, *mine_);
        mine_.reset();
    }

 private:
    std::optional<JudgeTask> task(std::int64_t piece) const {
        return all_[of_].list.at(all_[of_].first(phase_) + piece, all_[of_].options);
    }

    /// Whether they are query blocks of one head, none of which fails: otherwise the first that does is to be told.
    bool judge_together(WorkSharing::Pieces pieces) {
        const Judging& judging = all_[of_];
        std::vector<JudgeTask> tasks;
        std::vector<TileId> q_blocks;
        for (std::int64_t i = 0; i < pieces.count; ++i) {
            const std::optional<JudgeTask> work = task(pieces.first + i);
            if (!work) continue;
            if (work->judge != judge_forward) return false;
            const TileId& tile = work->tile;
            if (!tasks.empty() &&
                std::tie(tile.batch, tile.head) != std::tie(q_blocks[0].batch, q_blocks[0].head))
                return false;
            tasks.push_back(*work);
            q_blocks.push_back(tile);
        }
        if (tasks.empty() || mine_->failure.piece >= 0) return true;
        std::vector<JudgedPart> parts(tasks.size());
        try {
            inputs_in_use_ = judging.plan.inputs.get(q_blocks[0].batch, tasks[0].head_kv);
            for (JudgedPart& part : parts) part.drift.resize(mine_->part.drift.size());
            tilescope::judge_together(judging.plan, q_blocks, Pass::divergences, parts);
            for (std::size_t i = 0; i < tasks.size(); ++i)
                judge_inherited(judging.plan, tasks[i], judging.inherits || divergences_in(parts[i]) > 0,
                                parts[i]);
        } catch (const std::bad_alloc&) {
            // One at a time might fit, and observers would see tiles twice.
            mine_->failure = caught_failure(pieces.first, sharing_);
            return true;
        } catch (...) {
            return false;
        }
        for (const JudgedPart& part : parts) merge_part(judging.plan.compare, part, mine_->part);
        compact(*mine_);
        return true;
    }

    void judge_one(std::int64_t piece) {
        const Judging& judging = all_[of_];
        if (mine_->failure.piece >= 0) return;
        try {
            const std::optional<JudgeTask> work = task(piece);
            if (!work) return;
            if (!is_named(work->stage))
                inputs_in_use_ = judging.plan.inputs.get(work->tile.batch, work->head_kv);
            judge_work(judging.plan, *work, judging.inherits, mine_->part);
            compact(*mine_);
        } catch (...) {
            mine_->failure = caught_failure(piece, sharing_);
            if (all_.size() == 1) sharing_.stop();
        }
    }

    std::span<const Judging> all_;
    TilePhase phase_;
    PhaseFound& found_;
    WorkSharing& sharing_;
    std::size_t of_ = 0;
    std::optional<TilesFound> mine_;
    std::shared_ptr<const HeadInputs> inputs_in_use_;
};

/// By the threads of this process, as long as there is work.
void judge_taken(std::span<const Judging> all, std::span<const std::int64_t> begins, TilePhase phase,
                 int threads, WorkSharing& sharing, Steps& steps, PhaseFound& found) {
    std::mutex mutex;
    std::exception_ptr failure;
#pragma omp parallel num_threads(team_size(threads))
    {
        try {
            Share share(all, phase, found, sharing);
            // K and V are staged and packed once for query blocks that are judged together.
            const auto take = [&] { return sharing.take(q_blocks_side_by_side); };
            for (WorkSharing::Pieces next = take(); next.count > 0; next = take()) {
                for (std::int64_t done = 0; done < next.count;) {
                    const std::int64_t first = next.first + done;
                    const auto end = std::ranges::upper_bound(begins, first);
                    const std::int64_t count = std::min(next.count - done, *end - first);
                    share.judge(std::size_t(end - begins.begin() - 1), {first - *std::prev(end), count});
                    for (std::int64_t i = 0; i < count; ++i) steps.step();
                    done += count;
                }
            }
            share.leave();
        } catch (...) {
            const std::scoped_lock lock(mutex);
            failure = std::current_exception();
            sharing.stop();
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void judge_phase(std::span<Judging> all, TilePhase phase, int threads, WorkSharing& sharing, Steps& steps,
                 std::vector<TilesFound>& whole) {
    std::vector<std::int64_t> begins = {0};  // of each recording's pieces, and the end
    for (const Judging& judging : all) begins.push_back(begins.back() + judging.count(phase));
    if (begins.back() == 0) return;
    PhaseFound found(all);
    std::vector<WorkSharing::Stretch> stretches;
    for (const Judging& judging : all)
        stretches.push_back({judging.count(phase), sharing.home_of(judging.plan.recording.name())});
    sharing.begin(stretches);
    sharing.together([&] { judge_taken(all, begins, phase, threads, sharing, steps, found); });
    found.fold(sharing);
    for (const auto& [of, part] : found.parts()) {
        merge_tiles(all[of], part, whole[of]);
        compact(whole[of]);
    }
}

}  // namespace

std::int64_t tile_steps(const Plan& plan) {
    return WorkList(plan).size();
}

std::vector<TilesFound> judge_tiles(std::span<const TilesToJudge> recordings, int threads,
                                    WorkSharing& sharing, Steps& steps) {
    std::vector<Judging> all(recordings.begin(), recordings.end());
    std::vector<TilesFound> whole;
    for (Judging& judging : all) {
        judging.inherits = judging.options.end_to_end_everywhere;
        whole.push_back(judging.nothing());
    }
    judge_phase(all, TilePhase::rows, threads, sharing, steps, whole);
    if (std::ranges::any_of(whole, [](const TilesFound& found) { return found.failure.piece >= 0; }) &&
        all.size() == 1)
        return whole;
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].inherits = all[i].inherits || all[i].options.may_inherit || divergences_in(whole[i].part) > 0;
    judge_phase(all, TilePhase::keys, threads, sharing, steps, whole);
    return whole;
}

}  // namespace tilescope
