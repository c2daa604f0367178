#include "oracle/causes/array_indices.h"

#include <array>

#include "oracle/identify/array_index.h"

namespace tilescope {

namespace {

constexpr std::size_t most_asked = 64;
constexpr std::size_t most_indices = 6;

/// In the order of ArrayNumber.
constexpr std::array<std::string_view, 7> further_numbers = {"head",      "row",   "q_block", "kv_tile",
                                                             "first_row", "block", "group"};
constexpr std::array<std::string_view, 7> further_extents = {"heads",   "heads_kv", "seqlen_q",  "seqlen_kv",
                                                             "block_m", "block_n",  "batch_size"};

bool counts_rows_of_queries(Stage stage) {
    return stage_info(stage).row_axis == Axis::query;
}

std::vector<std::string_view> names_of_numbers(Stage stage) {
    const bool of_queries = counts_rows_of_queries(stage);
    std::vector<std::string_view> names = {"batch", of_queries ? "head" : "kv_head",
                                           of_queries ? "query" : "key", "d"};
    names.insert(names.end(), further_numbers.begin(), further_numbers.end());
    return names;
}

std::vector<std::string_view> names_of_extents(Stage stage) {
    const bool of_queries = counts_rows_of_queries(stage);
    std::vector<std::string_view> names = {of_queries ? "heads" : "heads_kv",
                                           of_queries ? "seqlen_q" : "seqlen_kv",
                                           stage == Stage::v ? "head_dim_v" : "head_dim"};
    names.insert(names.end(), further_extents.begin(), further_extents.end());
    return names;
}

std::vector<std::int64_t> extents_of(Stage stage, const Problem& problem) {
    const bool of_queries = counts_rows_of_queries(stage);
    return {of_queries ? problem.heads : problem.heads_kv,
            of_queries ? problem.seqlen_q : problem.seqlen_kv,
            tile_shape(problem, stage).cols,
            problem.heads,
            problem.heads_kv,
            problem.seqlen_q,
            problem.seqlen_kv,
            problem.block_m,
            problem.block_n,
            problem.batch};
}

std::vector<std::int64_t> numbers_of_element(Stage stage, const SearchedTile& site, Eigen::Index row,
                                             Eigen::Index col) {
    const Problem& problem = site.call->problem;
    const bool of_queries = counts_rows_of_queries(stage);
    const std::int64_t first = of_queries ? site.first_row : site.first_key;
    return {site.id.batch,
            of_queries ? site.id.head : problem.head_kv(site.id.head),
            first + row,
            col,
            site.id.head,
            row,
            site.id.q_block,
            site.id.kv_tile,
            first,
            of_queries ? problem.block_m : problem.block_n,
            problem.heads / problem.heads_kv};
}

/// How far the numbers count; a tile's first row, the block and the group are none to count.
std::vector<std::int64_t> lengths_of_numbers(Stage stage, const Problem& problem) {
    const std::vector<std::int64_t> extents = extents_of(stage, problem);
    const bool of_queries = counts_rows_of_queries(stage);
    return {problem.batch,
            extents[0],
            extents[1],
            extents[2],
            of_queries ? 1 : problem.heads,
            tile_shape(problem, stage).rows,
            problem.q_blocks(),
            problem.kv_tiles(),
            1,
            1,
            1};
}

/// The wrong elements that tell an address, evenly.
std::vector<ArrayElement> asked_elements(const Evidence& evidence, const StandsAt& stands_at) {
    struct AskedElement {
        const Observation* seen;
        Eigen::Index row;
        Eigen::Index col;
    };
    std::vector<AskedElement> telling;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const Eigen::Index row = i / seen.got.cols();
            const Eigen::Index col = i % seen.got.cols();
            if (seen.wrong[std::size_t(i)] && stands_at(seen, row, col, 0))
                telling.push_back({&seen, row, col});
        }
    }
    std::vector<ArrayElement> elements;
    for (std::size_t i = 0; i < telling.size(); i += telling.size() / most_asked | 1) {
        const auto& [seen, row, col] = telling[i];
        elements.push_back({numbers_of_element(evidence.acts, seen->site, row, col),
                            [=, &stands_at, seen = seen, row = row, col = col](std::int64_t at) {
                                return stands_at(*seen, row, col, at).value_or(false);
                            }});
    }
    return elements;
}

}  // namespace

std::vector<OtherArrayIndex> other_array_indices(const Evidence& evidence, const ArrayOfHeads& array,
                                                 const StandsAt& stands_at) {
    const Stage stage = evidence.acts;
    const Problem& problem = evidence.problem();
    std::vector<OtherArrayIndex> indices;
    const std::int64_t size = problem.batch * array.heads * array.size_of_head();
    const ArrayNumber tile = counts_rows_of_queries(stage) ? ArrayNumber::q_block : ArrayNumber::kv_tile;
    for (const ArrayIndex& index :
         find_array_indices(asked_elements(evidence, stands_at), size, lengths_of_numbers(stage, problem),
                            extents_of(stage, problem), tile, most_indices)) {
        const auto address = [=](const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
            return index.of(numbers_of_element(stage, site, row, col),
                            extents_of(stage, site.world->recording().problem()));
        };
        indices.push_back(
            {index.text(names_of_numbers(stage), names_of_extents(stage)), index.parameters(), address});
    }
    return indices;
}

}  // namespace tilescope
