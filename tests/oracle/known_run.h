#pragma once

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

inline constexpr std::uint64_t known_run_seed = 211;

inline Call small_call() {
    Problem problem = small_problem(Mask::none);
    problem.batch = problem.heads_kv = 1;
    problem.heads = 2;
    problem.dtype_o = problem.dtype_p = Dtype::f32;
    return make_call(problem, known_run_seed);
}

/// A run of a small problem, and stages of it element by element.
struct KnownRun {
    Call call;
    MemoryRecording recording = recorded(call);

    using Place = std::tuple<TileId, std::int64_t, std::int64_t>;
    std::map<Stage, std::map<Place, double>> values;

    explicit KnownRun(const std::vector<Stage>& stages, Call of = small_call()) : call(std::move(of)) {
        for (const Stage stage : stages) {
            visit_stage(recording, stage,
                        [&](float value, const TileId& tile, std::int64_t row, std::int64_t col) {
                            values[stage][{tile, row, col}] = value;
                        });
        }
    }

    double at(Stage stage, const TileId& tile, std::int64_t row, std::int64_t col = 0) const {
        const auto found = values.at(stage).find({tile, row, col});
        return found == values.at(stage).end() ? 0 : found->second;
    }
    static TileId before(TileId tile) {
        --tile.kv_tile;
        return tile;
    }
    double factor(const TileId& tile, std::int64_t row) const {
        return std::exp(at(Stage::m, before(tile), row) - at(Stage::m, tile, row));
    }
    double product_of_v(const TileId& tile, std::int64_t row, std::int64_t col, std::int64_t key) const {
        const Problem& p = call.problem;
        const std::int64_t in_head = tile.kv_tile * p.block_n + key;
        if (in_head >= p.seqlen_kv) return 0;
        const std::int64_t head = tile.batch * p.heads_kv + p.head_kv(tile.head);
        const auto v = std::size_t((head * p.seqlen_kv + in_head) * p.head_dim_v + col);
        return at(Stage::p, tile, row, key) * double(call.inputs.v[v]);
    }
    /// Puts `value(tile, row, col)` in every element, KV tile after KV tile; values of tiles before are the new ones.
    template <class Value>
    void recompute(Stage stage, const Value& value) {
        change_stage(recording, stage,
                     [&](float old, const TileId& tile, std::int64_t row, std::int64_t col) {
                         if (!values.at(stage).contains({tile, row, col})) return old;
                         const auto changed = float(value(tile, row, col));
                         values[stage][{tile, row, col}] = changed;
                         return changed;
                     });
    }
    /// The first cause, and its first parameter.
    std::string found() const {
        const Report report = diagnosed(recording);
        if (report.diagnosis.causes.empty()) return "nothing";
        const FoundCause& cause = report.diagnosis.causes[0];
        return std::string(cause.name) + (cause.parameters.empty() ? "" : ": " + cause.parameters[0].value);
    }
    /// The same, with the places that have it.
    std::string found_where() const {
        const Report report = diagnosed(recording);
        return found() + (report.diagnosis.causes.empty() ? "" : " " + report.diagnosis.causes[0].where);
    }
    /// q k of two rows before the scale, of terms d with their weights.
    template <class Weight>
    double product(const TileId& tile, std::int64_t row, std::int64_t col, const Weight& weight) const {
        const Problem& p = call.problem;
        const std::int64_t q =
            ((tile.batch * p.heads + tile.head) * p.seqlen_q + tile.q_block * p.block_m + row) * p.head_dim;
        const std::int64_t k = ((tile.batch * p.heads_kv + p.head_kv(tile.head)) * p.seqlen_kv +
                                tile.kv_tile * p.block_n + col) *
                               p.head_dim;
        double sum = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d)
            sum += double(weight(d)) * double(call.inputs.q[std::size_t(q + d)]) *
                   double(call.inputs.k[std::size_t(k + d)]);
        return sum;
    }
};

}  // namespace tilescope::test
