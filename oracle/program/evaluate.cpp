#include "oracle/program/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <utility>

#include "dump/schema/error.h"
#include "dump/schema/program_scopes.h"
#include "oracle/program/tile_run.h"

namespace tilescope {

namespace {

/// Elements of a tile that are worth a walk of its own.
constexpr std::int64_t worthwhile = 1 << 13;
/// And where products of matrices are added up along many indices, whose factors are read for each tile; more tiles than threads are left.
constexpr std::int64_t worthwhile_product = 1 << 16;
constexpr std::int64_t many_terms = 256;
constexpr std::int64_t fewest_tiles = 16;
/// Tiles that wait to be shown.
constexpr std::int64_t at_once = 64;

/// Whether every read of one of the stages along `axis` has the index of that axis itself.
bool reads_itself(const Program& program, int number, int axis, std::span<const int> stages) {
    const ProgramNode& node = program.node(number);
    const bool is_read = node.op == ProgramOp::read;
    if (!is_read && std::ranges::find(node.list, axis) != node.list.end()) return false;
    if (is_read && std::ranges::find(stages, node.what) != stages.end()) {
        const ProgramArray& array = program.array(node.what);
        for (std::size_t i = 0; i < node.list.size(); ++i) {
            if (program.axis_of(array.indices[i]) == axis && program.axis_of(node.list[i]) != axis)
                return false;
        }
    }
    return std::ranges::all_of(
        node.of, [&](int operand) { return operand < 0 || reads_itself(program, operand, axis, stages); });
}

std::vector<int> all_stages(const Program& program) {
    std::vector<int> stages;
    for (int i = 0; i < int(program.arrays.size()); ++i) {
        if (program.array(i).is_stage) stages.push_back(i);
    }
    return stages;
}

using MakeObserver = std::function<std::unique_ptr<PartObserver>()>;

/// Keeps the tiles of a part until it is their turn.
class Kept final : public PartObserver {
 public:
    explicit Kept(const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe)
        : observe_(observe) {}
    void take(const ProgramTile& tile, ExpectedTile expected) override {
        tiles_.emplace_back(tile, std::move(expected));
    }
    void finish() override {
        for (const auto& [tile, expected] : tiles_) observe_(tile, expected);
    }

 private:
    const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe_;
    std::vector<std::pair<ProgramTile, ExpectedTile>> tiles_;
};

class Evaluation {
 public:
    Evaluation(const ProgramCall& call, const ProgramOptions& options, std::vector<int> stages,
               const MakeObserver& make_observer)
        : call_(call),
          program_(call.program),
          options_(options),
          make_observer_(make_observer),
          stages_(std::move(stages)) {}

    /// What is known of stages that are not among those.
    void know(std::map<int, StoredStage> known) { known_ = std::move(known); }

    /// Some tiles are computed side by side, and then shown in their order.
    void run() {
        choose_tiles();
        check_memory();
        std::int64_t count = 1;
        for (std::size_t i = 0; i < independent_.size(); ++i) count *= tiles_along(i);
        // Of what is not shown nothing has to wait.
        const std::int64_t waiting = options_.shown != nullptr ? 8 * at_once : at_once;
        for (std::int64_t first = 0; first < count; first += waiting)
            for (const auto& part : made(first, std::min(waiting, count - first))) part->finish();
        release_kept_memory();
    }

 private:
    /// Along axes that every index goes through by itself, as many indices at once as are worth it.
    void choose_tiles() {
        independent_ = independent_axes(program_, stages_);
        std::int64_t size = largest_stage();
        for (const int axis : independent_) {
            const bool is_cut = program_.axes[std::size_t(axis)].block >= 0;
            steps_.push_back(is_cut ? call_.blocks[std::size_t(axis)] : 1);
        }
        const bool is_product = std::ranges::any_of(program_.nodes, [&](const ProgramNode& node) {
            return node.op == ProgramOp::sum && terms_of(node) >= many_terms;
        });
        double elements = double(size);
        for (const int axis : independent_) elements *= double(call_.extents[std::size_t(axis)]);
        const std::int64_t most =
            is_product ? std::int64_t(std::clamp(elements / double(fewest_tiles), double(worthwhile),
                                                 double(worthwhile_product)))
                       : worthwhile;
        for (std::size_t i = independent_.size(); i > 0; --i) {
            const std::int64_t extent = call_.extents[std::size_t(independent_[i - 1])];
            std::int64_t& step = steps_[i - 1];
            std::int64_t wanted =
                std::max<std::int64_t>(1, most / std::max<std::int64_t>(1, size * product_of_steps()));
            // As many rows as columns, so that the factors are small.
            if (is_product && i == 2)
                wanted = std::max<std::int64_t>(1, std::int64_t(std::sqrt(double(wanted))));
            if (wanted > 1) step = std::min(extent, step * wanted);
        }
        for (std::size_t axis = 0; axis < program_.axes.size(); ++axis)
            whole_[axis] = {0, call_.extents[axis]};
    }

    std::int64_t terms_of(const ProgramNode& sum) const {
        std::int64_t terms = 1;
        for (const int axis : sum.list) terms *= call_.extents[std::size_t(axis)];
        return terms;
    }

    std::int64_t tiles_along(std::size_t i) const {
        const std::int64_t extent = call_.extents[std::size_t(independent_[i])];
        return (extent + steps_[i] - 1) / steps_[i];
    }

    using Parts = std::vector<std::unique_ptr<PartObserver>>;

    /// Parts [first, first + count). The first exception stops the others.
    Parts made(std::int64_t first, std::int64_t count) const {
        Parts parts(static_cast<std::size_t>(count));
        std::exception_ptr failure;
        std::atomic<bool> failed = false;
#pragma omp parallel
        {
#pragma omp for schedule(dynamic) nowait
            for (std::int64_t i = 0; i < count; ++i) {
                if (failed) continue;
                try {
                    parts[std::size_t(i)] = make_observer_();
                    evaluate(first + i, *parts[std::size_t(i)]);
                } catch (...) {
#pragma omp critical
                    if (!failed.exchange(true)) failure = std::current_exception();
                }
            }
            release_kept_memory();
        }
        if (failure) std::rethrow_exception(failure);
        return parts;
    }

    /// The stages of one part.
    void evaluate(std::int64_t number, PartObserver& observer) const {
        AxisRanges outer = whole_;
        for (std::size_t i = independent_.size(); i > 0; --i) {
            const auto axis = std::size_t(independent_[i - 1]);
            const std::int64_t first = number % tiles_along(i - 1) * steps_[i - 1];
            number /= tiles_along(i - 1);
            outer[axis] = {first, std::min(steps_[i - 1], call_.extents[axis] - first)};
        }
        const ObserveTile observe = [&](const ProgramTile& tile, ExpectedTile expected) {
            observer.take(tile, std::move(expected));
        };
        TileRun run(call_, options_, outer, observe);
        run.forget_what_is_over();
        for (const auto& [stage, stored] : known_) run.know(stage, stored);
        run.run(stages_);
    }

    std::int64_t product_of_steps() const {
        std::int64_t product = 1;
        for (const std::int64_t step : steps_) product *= step;
        return product;
    }

    /// Elements that the largest stage has for one index of each independent axis.
    std::int64_t largest_stage() const {
        double most = 1;
        for (const ProgramArray& array : program_.arrays) {
            if (!array.is_stage) continue;
            double size = 1;
            for (const int index : array.indices) {
                const int axis = program_.axis_of(index);
                if (std::ranges::find(independent_, axis) == independent_.end())
                    size *= double(call_.extents[std::size_t(axis)]);
            }
            most = std::max(most, size);
        }
        return std::int64_t(std::min(most, 1e15));
    }

    void check_memory() const {
        double bytes = 0;
        for (const ProgramArray& array : program_.arrays) {
            if (!array.is_stage) continue;
            double size = 16;
            for (const int index : array.indices) {
                const int axis = program_.axis_of(index);
                const auto at = std::ranges::find(independent_, axis);
                size *= double(at == independent_.end() ? call_.extents[std::size_t(axis)]
                                                        : steps_[std::size_t(at - independent_.begin())]);
            }
            const int stage = int(&array - program_.arrays.data());
            if (array.over >= 0)
                size *= keeps_states(program_, stage) ? double(call_.blocks_of(array.over) + 1) : 2;
            bytes += size;
        }
        // Temporary results are as large as stages.
        if (4 * bytes <= double(options_.memory)) return;
        throw Error("its stages need " + fmt::format("{:.0f}", bytes / 0x1p18) + " MiB at once", "program",
                    "cut its axes into smaller blocks, or judge a part of it");
    }

    const ProgramCall& call_;
    const Program& program_;
    const ProgramOptions& options_;
    const MakeObserver& make_observer_;
    std::vector<int> stages_;
    std::map<int, StoredStage> known_;
    std::vector<int> independent_;
    std::vector<std::int64_t> steps_;  ///< indices of each at once
    AxisRanges whole_{};
};

}  // namespace

std::int64_t ProgramTile::size() const {
    std::int64_t size = 1;
    for (const AxisRange& range : indices) size *= range.count;
    return size;
}

std::vector<std::int64_t> ProgramTile::index_of(std::int64_t i) const {
    std::vector<std::int64_t> index(indices.size());
    for (std::size_t k = indices.size(); k > 0; --k) {
        const AxisRange& range = indices[k - 1];
        index[k - 1] = range.first + i % range.count;
        i /= range.count;
    }
    return index;
}

namespace {

bool is_independent(const Program& program, std::span<const int> stages, int axis) {
    return std::ranges::all_of(stages, [&](int stage) {
        const ProgramArray& array = program.array(stage);
        return array.over != axis && reads_itself(program, array.value, axis, stages) &&
               (array.start < 0 || reads_itself(program, array.start, axis, stages));
    });
}

}  // namespace

std::vector<int> independent_axes(const Program& program, std::span<const int> stages) {
    std::vector<int> axes;
    for (int axis = 0; axis < int(program.axes.size()); ++axis) {
        const auto has_it = [&](int stage) { return has_axis(program, program.array(stage), axis); };
        if (std::ranges::all_of(stages, has_it) && is_independent(program, stages, axis))
            axes.push_back(axis);
    }
    return axes;
}

std::vector<int> independent_axes_of(const Program& program, std::span<const int> stages, int stage) {
    std::vector<int> axes;
    for (const int index : program.array(stage).indices) {
        const int axis = program.axis_of(index);
        if (is_independent(program, stages, axis)) axes.push_back(axis);
    }
    return axes;
}

void evaluate_program(const ProgramCall& call, const ProgramOptions& options,
                      const std::function<std::unique_ptr<PartObserver>()>& make_observer) {
    Evaluation(call, options, all_stages(call.program), make_observer).run();
}

void evaluate_program(const ProgramCall& call, const ProgramOptions& options,
                      const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe) {
    evaluate_program(call, options, MakeObserver([&] { return std::make_unique<Kept>(observe); }));
}

void evaluate_stage(const ProgramCall& call, const ProgramOptions& options, int stage,
                    const std::function<void(const ProgramTile&, const ExpectedTile&)>& observe) {
    const std::function<void(const ProgramTile&, const ExpectedTile&)> observe_it =
        [&](const ProgramTile& tile, const ExpectedTile& expected) {
            if (tile.stage == stage) observe(tile, expected);
        };
    const MakeObserver keep = [&] { return std::make_unique<Kept>(observe_it); };
    Evaluation evaluation(call, options, computed_for(call.program, options.stored, stage), keep);
    if (options.stored != nullptr)
        evaluation.know(stored_stages(call, options, stored_beside(call.program, *options.stored, stage)));
    evaluation.run();
}

bool reads(const Program& program, int number, int array) {
    if (number < 0) return false;
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::read && node.what == array) return true;
    return std::ranges::any_of(node.of, [&](int operand) { return reads(program, operand, array); });
}

std::vector<int> computed_for(const Program& program, const StoredTiles* stored, int stage) {
    std::vector<bool> needed(program.arrays.size());
    std::vector<int> open{stage};
    while (!open.empty()) {
        const ProgramArray& reader = program.array(open.back());
        const bool is_new = !needed[std::size_t(open.back())];
        needed[std::size_t(open.back())] = true;
        open.pop_back();
        for (int i = 0; is_new && i < int(needed.size()); ++i) {
            const bool is_open = program.array(i).is_stage && (stored == nullptr || !stored->has(i));
            if (is_open && (reads(program, reader.value, i) || reads(program, reader.start, i)))
                open.push_back(i);
        }
    }
    std::vector<int> stages;
    for (int i = 0; i < int(needed.size()); ++i) {
        if (needed[std::size_t(i)]) stages.push_back(i);
    }
    return stages;
}

std::vector<int> stored_beside(const Program& program, const StoredTiles& stored, int stage) {
    std::vector<int> stages;
    for (int i = 0; i < int(program.arrays.size()); ++i) {
        if (program.array(i).is_stage && i != stage && stored.has(i)) stages.push_back(i);
    }
    return stages;
}

}  // namespace tilescope
