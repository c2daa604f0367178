#include "oracle/causes/zeros.h"

#include <algorithm>
#include <cmath>

#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

bool is_zero_row(const Observation& seen, Eigen::Index row) {
    return seen.bad_rows[std::size_t(row)] && (seen.got.row(row).array() == 0).all();
}

bool has_zero_rows(const Observation& seen) {
    for (Eigen::Index row = 0; row < seen.got.rows(); ++row)
        if (is_zero_row(seen, row)) return true;
    return false;
}

/// What lse says of a row of o that holds zeros.
enum class Said : std::uint8_t {
    nothing,    ///< it was not recorded, and the row's sum is one that any kernel can hold
    left,       ///< nobody stored it either
    right,      ///< the row was computed
    otherwise,  ///< it was computed otherwise, or its sum is beyond what a kernel without a maximum can hold
};

/// exp() of less is 0 or infinite in float32, where a kernel takes it without a maximum, or with a number as its maximum.
constexpr double most_without_maximum = 80;

Said said_of(const std::optional<MatrixF>& got, const TileContext& context, const Estimate& expected,
             double natural, Eigen::Index row, const CompareOptions& compare) {
    if (!got) return std::abs(natural) < most_without_maximum ? Said::nothing : Said::otherwise;
    const float value = (*got)(row, 0);
    if (value == 0 || is_unwritten(value)) return Said::left;
    const Finding finding = judge_element(context, row, value, expected_of(expected, row, compare));
    return is_divergence(finding) ? Said::otherwise : Said::right;
}

/// Of each row of the query block.
std::vector<Said> said_by_lse(const CauseSearch& world, const TileId& block) {
    std::vector<Said> said;
    ChangedReplay walk(world, block, Stage::lse, {});
    walk.run(Stage::lse, [&](const SearchedTile& site, const Estimate& natural) {
        const HeadCall& call = *site.call;
        const auto got = world.has(Stage::lse)
                             ? load_tile(world.recording(), call.problem, Stage::lse, site.id)
                             : std::nullopt;
        const Estimate expected =
            in_dump_units(natural, dump_factor(call, Stage::lse, site.first_row, 0, natural.value.rows(), 1));
        const TileContext context = tile_context(call.problem, call.units, Stage::lse, site.id);
        for (Eigen::Index row = 0; row < natural.value.rows(); ++row)
            said.push_back(said_of(got, context, expected, natural.value(row, 0), row, world.compare()));
    });
    return said;
}

/// Whether acc or V are known to be right, or another row of the output is a sum of the same V and not 0.
bool is_v_right(const CauseSearch& world, const SearchedTile& of) {
    if (world.has(Stage::v) || world.has(Stage::acc)) return true;
    const Problem& problem = of.call->problem;
    const auto is_number = [](float value) { return std::isfinite(value) && value != 0; };
    TileId id = of.id;
    for (id.head = 0; id.head < problem.heads; ++id.head) {
        if (problem.head_kv(id.head) != problem.head_kv(of.id.head)) continue;
        for (id.q_block = 0; id.q_block < problem.q_blocks(); ++id.q_block) {
            const auto o = load_tile(world.recording(), problem, Stage::o, id);
            if (o && std::any_of(o->data(), o->data() + o->size(), is_number)) return true;
        }
    }
    return false;
}

}  // namespace

bool zeros_have_other_explanations(const Evidence& evidence) {
    return std::ranges::any_of(evidence.seen, [&](const Observation& seen) {
        if (!has_zero_rows(seen)) return false;
        const std::vector<Said> said = said_by_lse(*evidence.world, seen.site.id);
        bool is_left = true;
        for (Eigen::Index row = 0; row < seen.got.rows(); ++row) {
            if (!is_zero_row(seen, row)) continue;
            const Said here = std::size_t(row) < said.size() ? said[std::size_t(row)] : Said::otherwise;
            if (here == Said::otherwise) return true;
            is_left = is_left && here == Said::left;
        }
        return !is_left && !is_v_right(*evidence.world, seen.site);
    });
}

}  // namespace tilescope
