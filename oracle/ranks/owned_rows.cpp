#include "oracle/ranks/owned_rows.h"

namespace tilescope {

bool are_owned(const RunOfRanks& run, const Problem& problem, Input input) {
    const std::int64_t rows = input == Input::q ? problem.seqlen_q : problem.seqlen_kv;
    for (std::int64_t row = 0; row < rows; ++row)
        if (run.owner_of(input, position_of(positions_of(problem, input), row)).recording == nullptr)
            return false;
    return true;
}

void read_owned_rows(const RunOfRanks& run, const Problem& problem, Input input, std::int64_t batch,
                     std::int64_t head, std::int64_t row, std::int64_t count, Span<float> out) {
    const std::int64_t cols = input == Input::v ? problem.head_dim_v : problem.head_dim;
    const Positions& positions = positions_of(problem, input);
    for (std::int64_t done = 0; done < count;) {
        const RunOfRanks::Owner owner = run.owner_of(input, position_of(positions, row + done));
        std::int64_t together = 1;
        while (done + together < count) {
            const RunOfRanks::Owner next = run.owner_of(input, position_of(positions, row + done + together));
            if (next.recording != owner.recording || next.row != owner.row + together) break;
            ++together;
        }
        owner.recording->read_input(input, batch, head, owner.row, together,
                                    out.subspan(std::size_t(done * cols), std::size_t(together * cols)));
        done += together;
    }
}

}  // namespace tilescope
