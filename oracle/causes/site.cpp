#include "oracle/causes/site.h"

#include <algorithm>
#include <limits>

#include "oracle/softmax.h"
#include "oracle/tiles.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

World::World(const Recording& recording, const CompareOptions& compare, double confidence,
             std::function<void()> check)
    : recording_(recording),
      compare_(compare),
      rounding_(rounding_model_of(recording, confidence)),
      check_(std::move(check)) {}

std::shared_ptr<const HeadCall> World::call(std::int64_t batch, std::int64_t head) const {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<const HeadCall>& call = calls_[{batch, head}];
    if (!call) call = std::make_shared<HeadCall>(make_head_call(recording_, rounding_, batch, head));
    return call;
}

Matrix World::input_rows(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
                         std::int64_t count) const {
    const Problem entry = problem_of(recording_.problem(), recording_.side_inputs(), batch);
    const std::int64_t length = stage == Stage::q ? entry.seqlen_q : entry.seqlen_kv;
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, length);
    const std::int64_t end = std::clamp<std::int64_t>(first + count, begin, length);
    const std::int64_t cols = stage == Stage::v ? entry.head_dim_v : entry.head_dim;
    Matrix rows = Matrix::Zero(count, cols);
    if (end > begin)
        rows.middleRows(begin - first, end - begin) =
            load_input(recording_, input_of(stage), batch, head, begin, end - begin);
    return rows;
}

HeadCall& Site::own_call() {
    auto own = std::make_shared<HeadCall>(*call);
    HeadCall& changed = *own;
    call = std::move(own);
    return changed;
}

std::int64_t Site::keys() const {
    return tile_extent(call->problem, Stage::k, id).rows;
}

std::int64_t Site::rows() const {
    return tile_extent(call->problem, Stage::q, id).rows;
}

Input input_of(Stage stage) {
    return stage == Stage::q ? Input::q : stage == Stage::k ? Input::k : Input::v;
}

Estimate finished_scores(const Site& site) {
    return finish_scores(*site.call, site.first_row, site.first_key, site.dumped_s);
}

RunningState whole_state(const Site& site) {
    const Problem& problem = site.call->problem;
    if (problem.kv_tiles_per_split == 0 && problem.l_lanes == 1) return site.splits.back();
    RunningState whole = combine(*site.call, site.splits);
    // Of a split that saw nothing there is nothing to weigh, but its NaN is in the sums all the same.
    for (const RunningState& split : site.splits) {
        for (Eigen::Index i = 0; i < split.l.value.rows(); ++i) {
            if (!split.l.value.row(i).hasNaN() || split.m.value(i, 0) != -infinity) continue;
            whole.l.value.row(i).setConstant(nan);
            whole.acc.value.row(i).setConstant(nan);
        }
    }
    return whole;
}

Estimate expected_of(Stage stage, const Site& site) {
    const HeadCall& call = *site.call;
    switch (stage) {
        case Stage::q:
            return staged_operand(call, stage, site.first_row, site.raw).expected;
        case Stage::k:
        case Stage::v:
            return staged_operand(call, stage, site.first_key, site.raw).expected;
        case Stage::s:
            return dumped_scores(call, site.first_row, site.first_key, site.q, site.k);
        case Stage::m:
            return row_max(call, site.m_before, finished_scores(site));
        case Stage::p:
            return cast_probabilities(call, probabilities(call, finished_scores(site), site.m),
                                      call.units.p_cast);
        case Stage::l:
            return row_sum(call, site.l_before, site.factor,
                           call.units.l_sums_cast_p ? site.operand_p : site.p);
        case Stage::acc:
            return accumulate(call, site.acc_before, site.factor, site.operand_p, finished_scores(site),
                              site.v.value, site.v.error);
        case Stage::o:
            return output(call, whole_state(site));
        default:
            return log_sum_exp(call, whole_state(site));
    }
}

Site narrowed(const Site& site, Stage stage) {
    Site part;
    part.world = site.world;
    part.id = site.id;
    part.call = site.call;
    part.first_row = site.first_row;
    part.first_key = site.first_key;
    part.begins = site.begins;
    switch (stage) {
        case Stage::q:
        case Stage::k:
        case Stage::v:
            part.raw = site.raw;
            break;
        case Stage::s:
            part.q = site.q;
            part.k = site.k;
            part.k_before = site.k_before;
            break;
        case Stage::m:
            part.q = site.q;
            part.k = site.k;
            part.dumped_s = site.dumped_s;
            part.m_before = site.m_before;
            break;
        case Stage::p:
            part.dumped_s = site.dumped_s;
            part.m_before = site.m_before;
            part.m = site.m;
            part.p_of_tile_before = site.p_of_tile_before;
            break;
        case Stage::l:
            part.q = site.q;
            part.k = site.k;
            part.m_before = site.m_before;
            part.m = site.m;
            part.factor = site.factor;
            part.p = site.p;
            part.operand_p = site.operand_p;
            part.l_before = site.l_before;
            break;
        case Stage::acc:
            part.dumped_s = site.dumped_s;
            part.m_before = site.m_before;
            part.m = site.m;
            part.factor = site.factor;
            part.p = site.p;
            part.operand_p = site.operand_p;
            part.p_of_tile_before = site.p_of_tile_before;
            part.acc_before = site.acc_before;
            part.v = site.v;
            break;
        default:
            part.splits = site.splits;
            break;
    }
    return part;
}

}  // namespace tilescope
