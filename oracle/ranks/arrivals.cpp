#include "oracle/ranks/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "oracle/formula/estimate.h"

namespace tilescope {

namespace {

constexpr std::int64_t rows_at_once = 256;

Stage stage_of(Input input) {
    return input == Input::q ? Stage::q : input == Input::k ? Stage::k : Stage::v;
}

struct InputSize {
    std::int64_t heads;
    std::int64_t rows;
    std::int64_t cols;
};

InputSize size_of(const Problem& problem, Input input) {
    return {input == Input::q ? problem.heads : problem.heads_kv,
            input == Input::q ? problem.seqlen_q : problem.seqlen_kv,
            input == Input::v ? problem.head_dim_v : problem.head_dim};
}

/// The rows of the owner, one after the other, as long as they stand together in both.
std::int64_t rows_together(const RunOfRanks& run, const Problem& problem, Input input, std::int64_t row,
                           std::int64_t end, const RunOfRanks::Owner& owner) {
    std::int64_t count = 1;
    while (row + count < end) {
        const RunOfRanks::Owner next =
            run.owner_of(input, position_of(positions_of(problem, input), row + count));
        if (next.recording != owner.recording || next.row != owner.row + count) break;
        ++count;
    }
    return count;
}

/// Elements that differ in their bits; NaN is like NaN.
void compare_rows(const Problem& problem, Input input, const TileId& tile, std::int64_t first_row,
                  const MatrixF& got, const MatrixF& owned, StageTally& tally) {
    TileContext context = tile_context(problem, stage_of(input), tile);
    context.first_row = first_row;
    context.first_col = 0;
    context.expects_nan = true;
    context.sees.clear();
    const Estimate expected{owned.cast<double>(), Matrix::Zero(owned.rows(), owned.cols()), {}};
    compare_tile(context, got, expected, nullptr, CompareOptions(), tally);
}

/// A row of one head, as a number.
std::uint64_t hash_of(std::span<const float> values) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const float value : values) {
        hash ^= std::bit_cast<std::uint32_t>(value);
        hash *= 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/// Of every row of the input: a list for each head of each batch entry.
std::vector<std::vector<std::uint64_t>> row_hashes(const Recording& recording, Input input) {
    const Problem& problem = recording.problem();
    const InputSize size = size_of(problem, input);
    std::vector<std::vector<std::uint64_t>> hashes;
    std::vector<float> rows(std::size_t(rows_at_once * size.cols));
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
        for (std::int64_t head = 0; head < size.heads; ++head) {
            std::vector<std::uint64_t>& of_head = hashes.emplace_back();
            for (std::int64_t first = 0; first < size.rows; first += rows_at_once) {
                const std::int64_t count = std::min(rows_at_once, size.rows - first);
                recording.read_input(input, batch, head, first, count, rows);
                for (std::int64_t i = 0; i < count; ++i)
                    of_head.push_back(
                        hash_of(std::span(rows).subspan(std::size_t(i * size.cols), std::size_t(size.cols))));
            }
        }
    }
    return hashes;
}

/// Where a row of the whole call was found.
struct Source {
    std::int64_t rank = 0;
    std::size_t head = 0;  ///< among those of all batch entries
    std::int64_t position = 0;
};

/// Rows of a head next to each other, all of them right or all from one rank.
struct Piece {
    std::size_t head = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::optional<Source> from;  ///< of the first; nullopt: nobody owns what they hold
    bool is_right = false;
    std::int64_t heads = 1;  ///< so many heads, one after the other, are alike
};

/// Whether the rows of another head are the same ones, and come from there.
bool are_alike(const Piece& a, const Piece& b) {
    const bool same_rows = a.first == b.first && a.count == b.count && a.is_right == b.is_right;
    if (!same_rows || a.from.has_value() != b.from.has_value()) return false;
    return !a.from || (a.from->rank == b.from->rank && a.from->position == b.from->position);
}

/// Everything that is owned, by what its rows hold.
std::unordered_map<std::uint64_t, Source> owned_rows(const RunOfRanks& run, Input input) {
    std::unordered_map<std::uint64_t, Source> owned;
    for (std::int64_t rank = 0; rank < run.ranks(); ++rank) {
        const Recording* const recording = run.owned_by(rank);
        if (recording == nullptr) continue;
        const Positions& positions = positions_of(recording->problem(), input);
        const std::vector<std::vector<std::uint64_t>> hashes = row_hashes(*recording, input);
        for (std::size_t head = 0; head < hashes.size(); ++head)
            for (std::size_t row = 0; row < hashes[head].size(); ++row)
                owned.try_emplace(hashes[head][row],
                                  Source{rank, head, position_of(positions, std::int64_t(row))});
    }
    return owned;
}

/// Where the rows of a head come from. `right`: whether the row holds what it should.
std::vector<Piece> pieces_of_head(std::size_t head, std::span<const std::uint64_t> got,
                                  const std::vector<bool>& right,
                                  const std::unordered_map<std::uint64_t, Source>& owned) {
    std::vector<Piece> pieces;
    for (std::size_t row = 0; row < got.size(); ++row) {
        const auto found = owned.find(got[row]);
        Piece piece{head, std::int64_t(row), 1, std::nullopt, right[row]};
        if (!piece.is_right && found != owned.end()) piece.from = found->second;
        Piece* const last = pieces.empty() ? nullptr : &pieces.back();
        const bool goes_on = last != nullptr && last->is_right == piece.is_right &&
                             last->from.has_value() == piece.from.has_value() &&
                             (!piece.from || last->from->rank == piece.from->rank);
        if (goes_on) {
            ++last->count;
        } else {
            pieces.push_back(piece);
        }
    }
    return pieces;
}

/// Which rows of a head hold what their owner has.
std::vector<bool> right_rows(const RunOfRanks& run, const Recording& step, Input input, std::int64_t batch,
                             std::int64_t head) {
    const Problem& problem = step.problem();
    const InputSize size = size_of(problem, input);
    std::vector<bool> right(std::size_t(size.rows));
    std::vector<float> got(std::size_t(size.cols));
    std::vector<float> owned(std::size_t(size.cols));
    for (std::int64_t row = 0; row < size.rows; ++row) {
        const RunOfRanks::Owner owner = run.owner_of(input, position_of(positions_of(problem, input), row));
        if (owner.recording == nullptr) continue;
        step.read_input(input, batch, head, row, 1, got);
        owner.recording->read_input(input, batch, head, owner.row, 1, owned);
        right[std::size_t(row)] = hash_of(got) == hash_of(owned);
    }
    return right;
}

/// Where each row of the step's input comes from, head by head.
std::vector<Piece> pieces_of(const RunOfRanks& run, const Recording& step, Input input) {
    const std::unordered_map<std::uint64_t, Source> owned = owned_rows(run, input);
    const std::vector<std::vector<std::uint64_t>> got = row_hashes(step, input);
    const std::int64_t heads = size_of(step.problem(), input).heads;
    std::vector<Piece> all;
    std::size_t before = 0;  // where the pieces of the heads before that are alike begin
    for (std::size_t head = 0; head < got.size(); ++head) {
        const std::vector<bool> right =
            right_rows(run, step, input, std::int64_t(head) / heads, std::int64_t(head) % heads);
        const std::vector<Piece> pieces = pieces_of_head(head, got[head], right, owned);
        if (head > 0 && std::equal(all.begin() + std::ptrdiff_t(before), all.end(), pieces.begin(),
                                   pieces.end(), are_alike)) {
            for (std::size_t i = before; i < all.size(); ++i) ++all[i].heads;
            continue;
        }
        before = all.size();
        all.insert(all.end(), pieces.begin(), pieces.end());
    }
    return all;
}

std::string text_of(const Piece& piece, const char* rows) {
    const std::int64_t last = std::int64_t(piece.head) + piece.heads - 1;
    const std::string heads =
        piece.heads == 1 ? fmt::format("head {}", piece.head) : fmt::format("heads {}-{}", piece.head, last);
    const std::string which =
        fmt::format("{} {}-{} of {}", rows, piece.first, piece.first + piece.count - 1, heads);
    if (piece.is_right) return which + " are right";
    if (!piece.from) return which + " are no rank's";
    return fmt::format("{} are those from position {} on, which rank {} owns", which, piece.from->position,
                       piece.from->rank);
}

/// The rank whose rows the step before took.
std::optional<std::int64_t> rank_before(const RunOfRanks& run, const Recording& step, Input input) {
    const Shard& shard = step.problem().shard;
    std::optional<std::int64_t> rank;
    for (const Recording* const other : run.steps_of(shard.rank)) {
        if (other->problem().shard.step >= shard.step) break;
        rank = run.owner_of(input, position_of(positions_of(other->problem(), input), 0)).rank;
    }
    return rank;
}

/// Names what the pieces have in common.
void explain(const RunOfRanks& run, const Recording& step, Arrival& arrival) {
    const Input input = arrival.input;
    const std::vector<Piece> pieces = pieces_of(run, step, input);
    const std::int64_t owner = run.owner_of(input, position_of(positions_of(step.problem(), input), 0)).rank;
    const std::optional<std::int64_t> before = rank_before(run, step, input);
    std::optional<std::int64_t> only;  // the one rank that all wrong rows are of
    bool is_one = true;
    std::int64_t wrong_pieces = 0;
    for (const Piece& piece : pieces) {
        if (piece.is_right) continue;
        ++wrong_pieces;
        is_one = is_one && piece.from && (!only || *only == piece.from->rank);
        if (piece.from) only = piece.from->rank;
    }
    const bool all_wrong = std::ranges::none_of(pieces, &Piece::is_right);
    const bool from_before = is_one && only && before && *only == *before && *before != owner;
    if (from_before && !all_wrong) {
        arrival.cause = "transfer_incomplete";
        arrival.says = fmt::format(
            "the rest is still what the step before had, from rank {}: it was read before all of it had "
            "arrived",
            *before);
    } else if (from_before) {
        arrival.cause = "stale_shard";
        arrival.says = fmt::format("it is still what the step before had, rank {}'s, in place of rank {}'s",
                                   *before, owner);
    } else if (is_one && only && *only != owner) {
        arrival.cause = "wrong_shard";
        arrival.says = fmt::format("it is rank {}'s, in place of rank {}'s", *only, owner);
    } else if (is_one && only) {
        arrival.cause = "wrong_rows_of_shard";
        arrival.says = fmt::format("it is rank {}'s, but other rows of it", *only);
    } else {
        arrival.says = "it is no rank's";
    }
    constexpr std::size_t most = 3;
    for (std::size_t i = 0; i < std::min(pieces.size(), most); ++i)
        arrival.says += (i == 0 ? "; " : ", ") + text_of(pieces[i], input == Input::q ? "rows" : "keys");
    if (pieces.size() > most) arrival.says += fmt::format(", and {} pieces more", pieces.size() - most);
}

}  // namespace

Arrival judge_arrival(const RunOfRanks& run, const Recording& step, Input input) {
    const Problem& problem = step.problem();
    const InputSize size = size_of(problem, input);
    Arrival arrival;
    arrival.input = input;
    for (std::int64_t row = 0; row < size.rows;) {
        const std::int64_t end = std::min(row + rows_at_once, size.rows);
        const RunOfRanks::Owner owner = run.owner_of(input, position_of(positions_of(problem, input), row));
        const std::int64_t count =
            owner.recording == nullptr ? 1 : rows_together(run, problem, input, row, end, owner);
        if (owner.recording == nullptr) ++arrival.rows_not_owned;
        MatrixF got(count, size.cols);
        MatrixF owned(count, size.cols);
        for (std::int64_t batch = 0; owner.recording != nullptr && batch < problem.batch; ++batch) {
            for (std::int64_t head = 0; head < size.heads; ++head) {
                const std::size_t values = std::size_t(got.size());
                step.read_input(input, batch, head, row, count, Span<float>(got.data(), values));
                owner.recording->read_input(input, batch, head, owner.row, count,
                                            Span<float>(owned.data(), values));
                const TileId tile{batch, input == Input::q ? head : heads_reading(problem, head).first, 0, 0};
                compare_rows(problem, input, tile, row, got, owned, arrival.tally);
            }
        }
        row += count;
    }
    if (arrival.tally.diverges()) {
        // One at a time: it keeps a number of every row that is owned.
        static std::mutex mutex;
        const std::scoped_lock lock(mutex);
        explain(run, step, arrival);
    }
    return arrival;
}

}  // namespace tilescope
