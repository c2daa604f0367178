#include "oracle/program/reader_alone.h"

#include <algorithm>

#include "oracle/program/build.h"

namespace tilescope {

namespace {

constexpr double bits_of_one_reader = 2;

}  // namespace

std::vector<int> straight_reads(const Program& program, int formula, int stage) {
    std::vector<int> found;
    bool are_straight = true;
    for_each_node(program, formula, [&](int number) {
        const ProgramNode& node = program.node(number);
        if (node.op != ProgramOp::read || node.what != stage) return;
        are_straight = are_straight && node.list == program.array(stage).indices;
        if (std::ranges::find(found, number) == found.end()) found.push_back(number);
    });
    return are_straight ? found : std::vector<int>();
}

std::optional<int> written_in(Program& program, int reader, const ProgramRewrite& rewrite) {
    if (rewrite.is_start || !rewrite.also.empty()) return std::nullopt;
    const ProgramArray& array = program.array(rewrite.stage);
    int formula = program.array(reader).value;
    const std::vector<int> reads = straight_reads(program, formula, rewrite.stage);
    // Both after the same block.
    const auto is_beside = [&](int read) {
        return array.over == program.array(reader).over && program.node(read).state == ProgramState::after &&
               program.node(read).of[0] < 0;
    };
    if (reads.empty() || (array.over >= 0 && !std::ranges::all_of(reads, is_beside))) return std::nullopt;
    ProgramBuilder build(program);
    const Dtype dtype = rewrite.dtype.value_or(array.dtype);
    const int value = dtype == Dtype::f32 ? rewrite.value : build.cast(dtype, rewrite.value);
    for (const int read : reads) formula = build.with_node(formula, read, value);
    return formula;
}

void add_for_reader_alone(SearchedCall& searched, std::vector<ProgramRewrite>& rewrites) {
    Program& program = searched.program();
    const int wrong = searched.wrong();
    const auto has_others = [&](int stage) {
        return std::ranges::any_of(searched.rewritten(), [&](int reader) {
            return reader != wrong && reads(program, program.array(reader).value, stage);
        });
    };
    const std::size_t count = rewrites.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (rewrites[i].stage == wrong || !has_others(rewrites[i].stage)) continue;
        const std::optional<int> value = written_in(program, wrong, rewrites[i]);
        if (!value) continue;
        rewrites.push_back(
            {wrong, *value, std::nullopt, rewrites[i].bits + bits_of_one_reader, rewrites[i].slot});
    }
}

}  // namespace tilescope
