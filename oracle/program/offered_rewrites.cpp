#include "oracle/program/offered_rewrites.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "oracle/program/build.h"
#include "oracle/program/place_conditions.h"
#include "oracle/program/reader_alone.h"

namespace tilescope {

namespace {

constexpr double bits_of_within = 2;

/// Of what is solved for few blocks are asked: an index may be that within the block.
void add_within_blocks(Program& program, std::vector<ProgramRewrite>& rewrites) {
    const std::size_t count = rewrites.size();
    for (std::size_t i = 0; i < count; ++i) {
        ProgramRewrite within = rewrites[i];
        if (within.is_start) continue;
        within.value = within_blocks(program, program.array(within.stage).value, within.value);
        if (within.value == rewrites[i].value) continue;
        within.bits += bits_of_within;
        rewrites.push_back(std::move(within));
    }
}

/// The same without the condition that a number stands in place of the formula, as where a mask makes it 0: what the kernel
/// computes there need not be that any more.
void add_unguarded(Program& program, bool sets_none_apart, std::vector<ProgramRewrite>& rewrites) {
    // Without the condition it may be no number.
    const double bits_of_guard = sets_none_apart ? 0 : 4;
    const std::size_t count = rewrites.size();
    for (std::size_t i = 0; i < count; ++i) {
        const ProgramNode declared = program.node(program.array(rewrites[i].stage).value);
        const ProgramNode is = program.node(rewrites[i].value);
        const bool is_guarded = declared.op == ProgramOp::chosen && is.op == ProgramOp::chosen &&
                                declared.of[1] == is.of[1] && declared.of[2] == is.of[2] &&
                                program.node(is.of[2]).op == ProgramOp::number;
        if (!is_guarded || rewrites[i].is_start) continue;
        ProgramRewrite bare = rewrites[i];
        // In the places that it is of, and no others.
        const int stage = rewrites[i].stage;
        const std::optional<FormulaWhere> out =
            taken_out(program, program.array(stage).value, rewrites[i].value, axes_of(program, stage));
        const bool is_kept = out && program.node(out->value).op == ProgramOp::chosen;
        bare.value = is_kept ? ProgramBuilder(program).chosen(program.node(out->value).of[0], out->condition,
                                                              program.array(stage).value)
                             : is.of[0];
        bare.bits += bits_of_guard;
        rewrites.push_back(std::move(bare));
    }
}

/// Whether it leaves the kernel more to choose, by one end of it: much is within that.
bool widens_a_choice(const Program& program, const ProgramRewrite& rewrite) {
    const ProgramNode& declared = program.node(program.array(rewrite.stage).value);
    const ProgramNode& is = program.node(rewrite.value);
    if (declared.op != ProgramOp::between || is.op != ProgramOp::between || rewrite.is_start) return false;
    return are_alike(program, declared.of[0], is.of[0]) || are_alike(program, declared.of[1], is.of[1]);
}

/// Whether it is another stage that is rewritten as well, as it is.
bool is_copy(const SearchedCall& searched, const Program& program, int stage) {
    const ProgramNode& node = program.node(program.array(stage).value);
    return stage != searched.wrong() && node.op == ProgramOp::read &&
           std::ranges::find(searched.rewritten(), node.what) != searched.rewritten().end();
}

}  // namespace

void add_variants(SearchedCall& searched, std::vector<ProgramRewrite>& rewrites) {
    add_within_blocks(searched.program(), rewrites);
    add_unguarded(searched.program(), searched.sets_none_apart(), rewrites);
    add_for_reader_alone(searched, rewrites);
}

std::vector<ProgramRewrite> listed_rewrites(SearchedCall& searched) {
    Program& program = searched.program();
    std::vector<bool> there(program.arrays.size());
    for (std::size_t i = 0; i < there.size(); ++i)
        there[i] = !program.arrays[i].is_stage || searched.known().contains(int(i));
    for (const int stage : searched.rewritten()) there[std::size_t(stage)] = true;
    std::vector<ProgramRewrite> rewrites;
    // Of as short ones those of the stage itself first.
    for (const int stage : searched.rewritten() | std::views::reverse) {
        if (is_copy(searched, program, stage)) continue;
        for (ProgramRewrite& rewrite : rewrites_of(program, searched.call(), stage, there))
            rewrites.push_back(std::move(rewrite));
        for (ProgramRewrite& rewrite : rewrites_of_pairs(program, searched.call(), stage))
            rewrites.push_back(std::move(rewrite));
    }
    for (const auto& [stage, stored] : searched.known()) {
        const auto takes_it = [&, of = stage](int reader) {
            return reads(program, program.array(reader).value, of);
        };
        const bool begins_it = program.array(stage).over >= 0 && stage < searched.wrong() &&
                               std::ranges::any_of(searched.rewritten(), takes_it);
        if (!begins_it) continue;
        for (ProgramRewrite& rewrite : rewrites_of_start(program, searched.call(), stage, there))
            rewrites.push_back(std::move(rewrite));
    }
    // What other rows hold already is what was stored.
    if (searched.stored().has(searched.wrong()) && program.array(searched.wrong()).over >= 0) {
        for (ProgramRewrite& rewrite : rewrites_of_updated_rows(program, searched.wrong()))
            rewrites.push_back(std::move(rewrite));
    }
    for (ProgramRewrite& rewrite : rewrites_of_loads(program, searched.call(), searched.rewritten()))
        rewrites.push_back(std::move(rewrite));
    for (ProgramRewrite& rewrite : rewrites_of_guards(program, searched.rewritten()))
        rewrites.push_back(std::move(rewrite));
    std::erase_if(rewrites, [&](const ProgramRewrite& rewrite) { return widens_a_choice(program, rewrite); });
    return rewrites;
}

}  // namespace tilescope
