// Attention over ranks, a GPU each, as context parallelism computes it: every rank keeps its rows of q, and k and v go round.
// With hooks: each step is a recording, and so is what a rank has at the end. README.md beside it walks through it.

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "kernels/attention/registry.h"
#include "samples/ring_attention/merge.cuh"
#include "samples/ring_attention/plan.h"
#include "samples/ring_attention/transport.h"

namespace ring {
namespace {

using tilescope::Problem;

void require(cudaError_t status, const char* doing) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(cudaGetErrorString(status)) + " while " + doing);
}

struct Options {
    Ring ring{Layout::zigzag, true, 2, 512};
    int heads = 4;
    int heads_kv = 2;
    int head_dim = 64;
    std::string kernel = "wmma";
    std::string output = "ring";
    std::string run = "ring";
    Mistake mistake = Mistake::none;
    int at = 1;  ///< the rank that makes it
};

/// Memory of the GPU that is chosen.
class Buffer {
 public:
    explicit Buffer(std::size_t bytes) : bytes_(bytes) {
        require(cudaMalloc(&data_, bytes), "allocating memory");
    }
    ~Buffer() { cudaFree(data_); }
    Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    template <class Type = void>
    Type* as() const {
        return static_cast<Type*>(data_);
    }
    std::size_t bytes() const { return bytes_; }

 private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// The same numbers on every machine, between -1 and 1.
std::vector<__half> numbers(std::size_t count, unsigned seed) {
    std::vector<__half> values(count);
    for (__half& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = __half(2.0f * (float(seed >> 8) / 8388608.0f - 1.0f));
    }
    return values;
}

/// The rank's rows of [heads][seqlen][head_dim].
std::vector<__half> rows_of(const std::vector<__half>& whole, const Options& options, int heads, int rank) {
    std::vector<__half> mine;
    const tilescope::Positions all = positions(options.ring, rank, {0, options.ring.rows()});
    for (int head = 0; head < heads; ++head) {
        for (std::int64_t row = 0; row < options.ring.rows(); ++row) {
            const std::int64_t at = head * options.ring.seqlen + tilescope::position_of(all, row);
            const auto begin = whole.begin() + at * options.head_dim;
            mine.insert(mine.end(), begin, begin + options.head_dim);
        }
    }
    return mine;
}

/// What a rank has on its GPU.
struct Rank {
    Rank(const Options& options, int rank, const std::vector<__half> (&inputs)[3])
        : q(bytes(options, options.heads, 2)),
          k(bytes(options, options.heads_kv, 2)),
          v(bytes(options, options.heads_kv, 2)),
          next_k(k.bytes()),
          next_v(v.bytes()),
          o(bytes(options, options.heads, 4)),
          lse(bytes(options, options.heads, 4) / std::size_t(options.head_dim)) {
        const Buffer* const buffers[] = {&q, &k, &v};
        for (int i = 0; i < 3; ++i) {
            const std::vector<__half> mine =
                rows_of(inputs[i], options, i == 0 ? options.heads : options.heads_kv, rank);
            require(cudaMemcpy(buffers[i]->as(), mine.data(), buffers[i]->bytes(), cudaMemcpyHostToDevice),
                    "copying inputs");
        }
        require(cudaMemset(o.as(), 0, o.bytes()), "clearing o");
        const auto rows = (long long)(lse.bytes() / 4);
        fill<<<unsigned((rows + 255) / 256), 256>>>(lse.as<float>(), -INFINITY, rows);
    }

    static std::size_t bytes(const Options& options, int heads, std::size_t element) {
        return std::size_t(heads) * std::size_t(options.ring.rows()) * std::size_t(options.head_dim) *
               element;
    }

    Buffer q, k, v, next_k, next_v;
    Buffer o, lse;  ///< merged so far
    int step = 0;
};

/// [heads][rows] of [heads][all rows], next to each other.
Buffer packed(const Buffer& from, const Rows& rows, const Options& options, int heads) {
    const std::size_t row = std::size_t(options.head_dim) * sizeof(__half);
    Buffer copy(std::size_t(heads * rows.count) * row);
    require(
        cudaMemcpy2D(copy.as(), std::size_t(rows.count) * row,
                     from.as<char>() + std::size_t(rows.first) * row, std::size_t(options.ring.rows()) * row,
                     std::size_t(rows.count) * row, std::size_t(heads), cudaMemcpyDeviceToDevice),
        "taking a part of the rows");
    return copy;
}

class Run {
 public:
    explicit Run(const Options& options)
        : options_(options), kernel_(tilescope::find_kernel(options.kernel)) {
        if (kernel_ == nullptr) throw std::runtime_error("there is no kernel " + options.kernel);
        config_ = tilescope::find_config(kernel_->configs, "", options.head_dim);
        if (config_ == nullptr) throw std::runtime_error("the kernel has no build for this head_dim");
        require(cudaGetDeviceCount(&gpus_), "looking for GPUs");
        const std::size_t whole = std::size_t(options.ring.seqlen) * std::size_t(options.head_dim);
        const std::vector<__half> inputs[] = {numbers(whole * std::size_t(options.heads), 1),
                                              numbers(whole * std::size_t(options.heads_kv), 2),
                                              numbers(whole * std::size_t(options.heads_kv), 3)};
        for (int rank = 0; rank < ranks(); ++rank) {
            choose(rank);
            ranks_.emplace_back(options, rank, inputs);
        }
        transport_ = make_transport(ranks(), gpus_);
        std::printf("%d ranks on %d GPUs, by %s\n", ranks(), gpus_, transport_->name().c_str());
    }

    void go() {
        std::filesystem::create_directories(options_.output);
        for (int turn = 0; turn < ranks(); ++turn) {
            for (int rank = 0; rank < ranks(); ++rank) compute(rank, (rank - turn + ranks()) % ranks(), turn);
            if (turn + 1 < ranks()) pass_on();
        }
        for (int rank = 0; rank < ranks(); ++rank) finish(rank);
    }

 private:
    int ranks() const { return int(options_.ring.ranks); }
    void choose(int rank) const { require(cudaSetDevice(rank % gpus_), "choosing a GPU"); }
    bool makes(Mistake mistake, int rank) const { return options_.mistake == mistake && rank == options_.at; }

    void compute(int rank, int source, int turn) {
        choose(rank);
        const std::optional<StepCall> call = call_of(options_.ring, rank, source);
        const bool is_last = turn + 1 == ranks();
        if (!call || (is_last && makes(Mistake::keys_left_out, rank))) return;
        step(rank, source, *call);
        if (is_last && makes(Mistake::keys_taken_twice, rank)) step(rank, source, *call);
    }

    /// A launch, its merge and its recording.
    void step(int rank, int source, const StepCall& call) {
        Rank& mine = ranks_[std::size_t(rank)];
        const Buffer q = packed(mine.q, call.q, options_, options_.heads);
        const Rows keys = kept(rank, source, call.kv);
        const Buffer k = packed(mine.k, keys, options_, options_.heads_kv);
        const Buffer v = packed(mine.v, keys, options_, options_.heads_kv);
        const Buffer o(q.bytes());
        const Buffer lse(q.bytes() / 2 / std::size_t(options_.head_dim) * 4);

        tilescope::CaptureOptions options;
        options.units = tilescope::units_of(*kernel_, *config_);
        options.threads = kernel_->threads(*config_);
        options.provenance.kernel = options_.kernel;
        options.provenance.run = options_.run;
        tilescope::Capture capture(problem_of(rank, source, call), options);
        capture.inputs(q.as(), k.as(), v.as());
        launch(call, source != rank && makes(Mistake::local_positions, rank), q, k, v, o, lse,
               capture.sink());
        capture.outputs(o.as(), lse.as<float>());
        const dim3 grid(unsigned(call.q.count), unsigned(options_.heads));
        merge<<<grid, unsigned(options_.head_dim)>>>(mine.o.as<float>(), mine.lse.as<float>(), o.as<__half>(),
                                                     lse.as<float>(), int(call.q.count),
                                                     int(options_.ring.rows()), int(call.q.first),
                                                     rank == options_.at ? options_.mistake : Mistake::none);
        require(cudaDeviceSynchronize(), "merging");
        const std::int64_t rows = options_.ring.rows();
        const std::int64_t columns = options_.head_dim;
        capture.merged({mine.o.as<float>() + call.q.first * columns, options_.heads * rows * columns,
                        rows * columns, columns},
                       {mine.lse.as<float>() + call.q.first, options_.heads * rows, rows, 1});
        capture.save(file("step" + std::to_string(mine.step), rank));
        ++mine.step;
    }

    /// The other half of the keys, where that is the mistake.
    Rows kept(int rank, int source, Rows keys) const {
        if (source != rank && makes(Mistake::wrong_rows_of_shard, rank) && keys.count < options_.ring.rows())
            keys.first = options_.ring.rows() / 2 - keys.first;
        return keys;
    }

    Problem problem_of(int rank, int source, const StepCall& call) const {
        Problem problem;
        problem.heads = options_.heads;
        problem.heads_kv = options_.heads_kv;
        problem.seqlen_q = call.q.count;
        problem.seqlen_kv = call.kv.count;
        problem.head_dim = problem.head_dim_v = options_.head_dim;
        problem.block_m = config_->block_m;
        problem.block_n = config_->block_n;
        problem.sm_scale = scale();
        // The mask of the whole call, whatever the launch masks.
        problem.mask = options_.ring.causal ? tilescope::Mask::causal : tilescope::Mask::none;
        problem.dtype_p = tilescope::dtype_p_of(*kernel_, *config_);
        problem.l_lanes = tilescope::recorded_of(*kernel_, *config_).l_lanes;
        problem.l_lane_columns = tilescope::recorded_of(*kernel_, *config_).l_lane_columns;
        if (config_->splits > 1)
            problem.kv_tiles_per_split = (problem.kv_tiles() + config_->splits - 1) / config_->splits;
        tilescope::Shard shard;
        shard.ranks = ranks();
        shard.rank = rank;
        shard.step = ranks_[std::size_t(rank)].step;
        shard.seqlen_q = shard.seqlen_kv = options_.ring.seqlen;
        shard.q_positions = positions(options_.ring, rank, call.q);
        shard.kv_positions = positions(options_.ring, source, call.kv);
        return tilescope::with_shard(problem, shard);
    }

    float scale() const { return float(1 / std::sqrt(double(options_.head_dim))); }

    void launch(const StepCall& call, bool masks_locally, const Buffer& q, const Buffer& k, const Buffer& v,
                const Buffer& o, const Buffer& lse, const tilescope::Sink& sink) const {
        tilescope::AttentionArgs args;
        args.q = q.as();
        args.k = k.as();
        args.v = v.as();
        args.o = o.as();
        args.lse = lse.as<float>();
        args.batch = 1;
        args.heads = options_.heads;
        args.heads_kv = options_.heads_kv;
        args.seqlen_q = int(call.q.count);
        args.seqlen_kv = int(call.kv.count);
        args.sm_scale = scale();
        args.causal = call.causal || masks_locally;
        args.causal_offset = masks_locally ? 0 : int(call.causal_offset);
        kernel_->cuda.hooked->launch(args, *config_, tilescope::Fault::none, sink);
        require(cudaGetLastError(), "launching the kernel");
    }

    /// k and v of each rank go to the next one.
    void pass_on() {
        std::vector<Transfer> transfers;
        for (int rank = 0; rank < ranks(); ++rank) {
            const bool backwards = options_.mistake == Mistake::wrong_shard;
            const int to = (rank + (backwards ? ranks() - 1 : 1)) % ranks();
            const Rank& mine = ranks_[std::size_t(rank)];
            const Rank& other = ranks_[std::size_t(to)];
            if (makes(Mistake::stale_shard, to)) {
                choose(to);
                for (const auto& [next, old] :
                     {std::pair(&other.next_k, &other.k), std::pair(&other.next_v, &other.v)})
                    require(cudaMemcpy(next->as(), old->as(), old->bytes(), cudaMemcpyDeviceToDevice),
                            "keeping a shard");
                continue;
            }
            const bool is_cut = makes(Mistake::transfer_incomplete, to);
            if (is_cut) {
                choose(to);
                require(
                    cudaMemcpy(other.next_k.as(), other.k.as(), other.k.bytes(), cudaMemcpyDeviceToDevice),
                    "keeping a shard");
            }
            transfers.push_back(
                {rank, to, mine.k.as(), other.next_k.as(), is_cut ? mine.k.bytes() / 2 : mine.k.bytes()});
            transfers.push_back({rank, to, mine.v.as(), other.next_v.as(), mine.v.bytes()});
        }
        transport_->send(transfers);
        for (Rank& rank : ranks_) {
            std::swap(rank.k, rank.next_k);
            std::swap(rank.v, rank.next_v);
        }
    }

    /// What the rank has at the end.
    void finish(int rank) {
        choose(rank);
        const Rank& mine = ranks_[std::size_t(rank)];
        const Buffer o(mine.o.bytes() / 2);
        const auto elements = (long long)(o.bytes() / 2);
        store<<<unsigned((elements + 255) / 256), 256>>>(o.as<__half>(), mine.o.as<float>(), elements);
        Problem problem = problem_of(rank, rank, {{0, options_.ring.rows()}, {0, options_.ring.rows()}});
        problem.named_tiles.clear();
        problem.seqlen_kv = options_.ring.seqlen;
        problem.shard.kv_positions.clear();
        problem.shard.step = 0;
        problem.shard.kind = tilescope::ShardKind::final;
        tilescope::CaptureOptions options;
        options.selection = tilescope::parse_selection("stage=o,lse", "ring_attention");
        options.provenance.kernel = options_.kernel;
        options.provenance.run = options_.run;
        tilescope::Capture capture(problem, options);
        capture.outputs(o.as(), mine.lse.as<float>());
        capture.save(file("final", rank));
    }

    std::string file(const std::string& what, int rank) const {
        return options_.output + "/rank" + std::to_string(rank) + "_" + what + ".h5";
    }

    Options options_;
    const tilescope::KernelInfo* kernel_;
    const tilescope::KernelConfig* config_ = nullptr;
    int gpus_ = 0;
    std::vector<Rank> ranks_;
    std::unique_ptr<Transport> transport_;
};

const std::map<std::string, Mistake> mistakes = {
    {"stale_shard", Mistake::stale_shard},
    {"wrong_shard", Mistake::wrong_shard},
    {"transfer_incomplete", Mistake::transfer_incomplete},
    {"wrong_rows_of_shard", Mistake::wrong_rows_of_shard},
    {"local_positions", Mistake::local_positions},
    {"keys_left_out", Mistake::keys_left_out},
    {"keys_taken_twice", Mistake::keys_taken_twice},
    {"merge_in_base_two", Mistake::merge_in_base_two},
    {"merge_without_rescaling", Mistake::merge_without_rescaling},
    {"merge_without_weights", Mistake::merge_without_weights},
    {"lse_in_bf16", Mistake::lse_in_bf16}};
const std::map<std::string, Layout> layouts = {
    {"contiguous", Layout::contiguous}, {"zigzag", Layout::zigzag}, {"striped", Layout::striped}};

void declare(CLI::App& app, Options& options) {
    app.add_option("--ranks", options.ring.ranks, "how many; more than GPUs share them")
        ->check(CLI::PositiveNumber);
    app.add_option("--layout", options.ring.layout, "which rows a rank has")
        ->transform(CLI::Transformer(layouts));
    app.add_flag("--causal,!--no-causal", options.ring.causal, "with a causal mask");
    app.add_option("--seqlen", options.ring.seqlen, "of the whole call")->check(CLI::PositiveNumber);
    app.add_option("--heads", options.heads)->check(CLI::PositiveNumber);
    app.add_option("--heads-kv", options.heads_kv)->check(CLI::PositiveNumber);
    app.add_option("--head-dim", options.head_dim)->check(CLI::IsMember({64, 128}));
    app.add_option("--kernel", options.kernel)->check(CLI::IsMember({"scalar", "wmma", "stable", "fast"}));
    app.add_option("--mistake", options.mistake, "that one rank makes")
        ->transform(CLI::Transformer(mistakes));
    app.add_option("--at", options.at, "the rank that makes it");
    app.add_option("--run", options.run, "id of the run");
    app.add_option("-o,--output", options.output, "folder for the recordings");
}

}  // namespace
}  // namespace ring

int main(int argc, char** argv) {
    CLI::App app(
        "Records attention over several ranks. TILESCOPE_SELECT chooses what is recorded of each step.");
    ring::Options options;
    ring::declare(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        if (options.ring.seqlen % (2 * options.ring.ranks) != 0)
            throw std::runtime_error("--seqlen is no multiple of twice --ranks");
        ring::Run(options).go();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ring_attention: %s\n", error.what());
        return 2;
    }
}
