#include "oracle/causes/loads.h"

#include <algorithm>

#include "oracle/causes/array_indices.h"
#include "oracle/causes/descales.h"
#include "oracle/causes/element_places.h"

namespace tilescope {

namespace {

constexpr std::string_view other_tile_name = "other_kv_tile";
constexpr std::string_view other_rows_name = "rows_shifted";
constexpr std::string_view other_head_name = "other_kv_head";
constexpr std::string_view head_modulo_name = "kv_head_modulo";
constexpr std::string_view other_batch_name = "other_batch";
constexpr std::string_view other_layout_name = "bshd_as_bhsd";

/// The parts of an operand's index.
enum PartOfLoad : std::uint8_t { of_batch, of_head, of_row, of_column };

Coordinate own_head(Stage operand) {
    return is_of_queries(operand) ? Coordinate::head : Coordinate::kv_head;
}

/// Whether the head is head % heads_kv.
bool is_modulo(const Expr& head, const Problem& problem) {
    const Expr own = Coordinate::head;
    return head == own % Coordinate::heads_kv || head == own % problem.heads_kv;
}

/// Whether the rows are those of another tile, at their places in it.
bool is_of_other_tile(const Expr& key, const Problem& problem) {
    Place place = Place::in(problem);
    for (std::int64_t tile = 0; tile < problem.kv_tiles(); ++tile) {
        for (std::int64_t row = 0; row < problem.block_n; ++row) {
            place[Coordinate::kv_tile] = tile;
            place[Coordinate::first_row] = tile * problem.block_n;
            place[Coordinate::row] = row;
            place[Coordinate::key] = tile * problem.block_n + row;
            if ((key.at(place) - place[Coordinate::key]) % problem.block_n != 0) return false;
        }
    }
    return true;
}

/// Whole tiles of keys, or all rows by as many.
std::string_view name_of_rows(const Expr& row, Stage operand, const Problem& problem) {
    const Coordinate own = is_of_queries(operand) ? Coordinate::query : Coordinate::key;
    if (!is_of_queries(operand) && is_of_other_tile(row, problem)) return other_tile_name;
    return row == moved_by(own, row.at(own, 0)) ? other_rows_name : operand_addresses_name;
}

/// Rows of the array of all heads, by number.
struct RowOfArray {
    std::int64_t batch;
    std::int64_t head;
    std::int64_t row;
};

/// The row that a row of the tile is loaded from. Only of a layout its address says which; otherwise what is beyond a head
/// is a row of none.
RowOfArray row_at(const OtherIndex& other, Stage operand, const Place& place) {
    if (!other.is_layout)
        return {other.index.parts[of_batch].at(place), other.index.parts[of_head].at(place),
                other.index.parts[of_row].at(place)};
    const bool of_queries = is_of_queries(operand);
    const std::int64_t heads = place[of_queries ? Coordinate::heads : Coordinate::heads_kv];
    const std::int64_t length = place[of_queries ? Coordinate::seqlen_q : Coordinate::seqlen_kv];
    const std::int64_t cols =
        place[operand == Stage::v || operand == Stage::dout ? Coordinate::head_dim_v : Coordinate::head_dim];
    const std::int64_t row = other.index.at(place) / cols;
    return {row / length / heads, row / length % heads, row % length};
}

Change loads(Stage operand, const OtherIndex& other) {
    return {.inputs = [=](SearchedTile& site) {
        Place place = element_place(operand, site, 0, 0);
        Eigen::Index first = 0;
        RowOfArray from{};
        const auto load_until = [&](Eigen::Index end) {
            if (end > first)
                site.raw.middleRows(first, end - first) =
                    site.world->input_rows(operand, from.batch, from.head, from.row, end - first);
            first = end;
        };
        for (Eigen::Index i = 0; i < site.raw.rows(); ++i) {
            move_in_tile(operand, i, 0, place);
            const RowOfArray next = row_at(other, operand, place);
            const bool continues = i > 0 && next.batch == from.batch && next.head == from.head &&
                                   next.row == from.row + (i - first);
            if (continues) continue;
            load_until(i);
            from = next;
        }
        load_until(site.raw.rows());
    }};
}

/// With the descales that come with the other head or batch entry.
Change with_its_descales(Stage operand, const OtherIndex& other, Change change) {
    change.inputs = [=, load = change.inputs](SearchedTile& site) {
        load(site);
        const Problem& problem = site.call->problem;
        const RowOfArray from = row_at(other, operand, element_place(operand, site, 0, 0));
        const std::int64_t head =
            is_of_queries(operand) ? from.head : heads_reading(problem, from.head).first;
        use_descale_of(*site.world->call(from.batch, head), operand, site.own_call());
    };
    return change;
}

// ---- what is tried

class CommonLoads {
 public:
    explicit CommonLoads(const Evidence& evidence)
        : evidence_(evidence),
          operand_(evidence.acts),
          problem_(evidence.problem()),
          array_(indexed_array(operand_, problem_)) {}

    std::vector<Candidate> take() {
        add_batches();
        add_heads();
        add_rows();
        for (const OtherIndex& other : other_layouts(array_))
            if (name_of_load(other, operand_, problem_) != operand_addresses_name) add(other);
        return std::move(candidates_);
    }

 private:
    void add(PartOfLoad part, const Expr& instead) {
        OtherIndex other{array_.right};
        other.index.parts[part] = instead;
        add(other);
    }

    void add(const OtherIndex& other) {
        const std::string_view name = name_of_load(other, operand_, problem_);
        std::vector<CauseParameter> told = told_of_load(other, operand_, problem_);
        Change change = loads(operand_, other);
        change.indices = {rewrite_of_load(other, operand_, problem_)};
        candidates_.push_back({told, change, int(!told.empty())});
        candidates_.back().name = name;
        const bool is_of_place =
            name != other_tile_name && name != other_rows_name && name != other_layout_name;
        if (!is_of_place || !descale_is_applied(evidence_, operand_)) return;
        told.push_back({"descale", "of the same"});
        candidates_.push_back({told, with_its_descales(operand_, other, change), int(told.size() > 1)});
        candidates_.back().name = name;
    }

    void add_batches() {
        constexpr std::int64_t most = 8;
        if (problem_.batch == 1) return;
        for (std::int64_t batch = 0; batch < std::min(problem_.batch, most); ++batch) add(of_batch, batch);
    }

    void add_heads() {
        constexpr std::int64_t most = 16;
        const bool of_queries = is_of_queries(operand_);
        const std::int64_t heads = of_queries ? problem_.heads : problem_.heads_kv;
        const Expr own = own_head(operand_);
        const Expr head = Coordinate::head;
        if (heads == 1) return;
        for (std::int64_t number = 0; number < std::min(heads, most); ++number) add(of_head, number);
        add(of_head, (own + 1) % heads);
        add(of_head, (own + (heads - 1)) % heads);
        const std::int64_t group = problem_.heads / problem_.heads_kv;
        if (of_queries || group == 1) return;
        // KV heads by another number of query heads than those of a group.
        const auto add_cut = [&](const Expr& of) { add(of_head, Expr::of_two(Op::at_most, of, heads - 1)); };
        add_cut(head);
        if (!problem_.is_interleaved()) add(of_head, head % Coordinate::heads_kv);
        for (std::int64_t n = 2; n <= std::min(problem_.heads - 1, most); ++n) {
            if (n != group || problem_.is_interleaved()) add_cut(head / n);
            if (n < heads) add(of_head, head % n);
        }
    }

    void add_rows() {
        const bool of_queries = is_of_queries(operand_);
        const Expr own = of_queries ? Coordinate::query : Coordinate::key;
        const std::int64_t block = of_queries ? problem_.block_m : problem_.block_n;
        for (const std::int64_t by :
             {-block, block, -2 * block, 2 * block, std::int64_t(-1), std::int64_t(1)})
            add(of_row, moved_by(own, by));
    }

    const Evidence& evidence_;
    Stage operand_;
    const Problem& problem_;
    IndexedArray array_;
    std::vector<Candidate> candidates_;
};

}  // namespace

std::string_view name_of_load(const OtherIndex& other, Stage operand, const Problem& problem) {
    const Index right = indexed_array(operand, problem).right;
    const std::vector<Expr>& parts = other.index.parts;
    if (other.is_layout) {
        const auto has_order = [&](PartOfLoad first, PartOfLoad second, PartOfLoad third) {
            return parts[0] == right.parts[first] && parts[1] == right.parts[second] &&
                   parts[2] == right.parts[third];
        };
        if (has_order(of_batch, of_row, of_head)) return other_layout_name;
        return has_order(of_head, of_batch, of_row) ? other_batch_name : operand_addresses_name;
    }
    if (other.index.extents != right.extents) return operand_addresses_name;
    std::vector<PartOfLoad> changed;
    for (const PartOfLoad part : {of_batch, of_head, of_row, of_column})
        if (parts[part] != right.parts[part]) changed.push_back(part);
    if (changed.size() != 1 || changed.front() == of_column) return operand_addresses_name;
    if (changed.front() == of_batch) return other_batch_name;
    if (changed.front() == of_row) return name_of_rows(parts[of_row], operand, problem);
    return is_modulo(parts[of_head], problem) ? head_modulo_name : other_head_name;
}

std::vector<CauseParameter> told_of_load(const OtherIndex& other, Stage operand, const Problem& problem) {
    const std::string_view name = name_of_load(other, operand, problem);
    if (name == head_modulo_name || name == other_layout_name) return {};
    return {{"reads", other.text(indexed_array(operand, problem).right)}};
}

CauseParameter rewrite_of_load(const OtherIndex& other, Stage operand, const Problem& problem) {
    const bool has_right_extents = other.index.extents == indexed_array(operand, problem).right.extents;
    const std::string name(stage_info(operand).name);
    return {name, has_right_extents ? other.index.text() : "[" + other.index.address().text() + "]"};
}

std::vector<Candidate> common_loads(const Evidence& evidence) {
    return CommonLoads(evidence).take();
}

}  // namespace tilescope
