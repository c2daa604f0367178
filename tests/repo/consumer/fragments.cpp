// Every kind of value that TILESCOPE_FRAGMENT takes, in C++17: a row of the tile each.

#include "fragments.h"

#include <tuple>

#include "dump/hook.h"

namespace {

/// What CuTe's tensors are to a hook.
struct Tensor {
    float values[2];

    float operator()(int i) const { return values[i]; }
    int size() const { return 2; }
};
struct Coordinates {
    int row;

    std::tuple<int, int> operator()(int i) const { return {row, i}; }
};

}  // namespace

void write_fragments(const tilescope::Sink& sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const float nested[2][2] = {{0, 1}, {2, 3}};
    TILESCOPE_FRAGMENT(s, 0, nested, Columns{0, 0});
    const float memory[4] = {4, 5, 6, 7};
    TILESCOPE_FRAGMENT(s, 0, strided<4>(memory, 1), Columns{1, 0});
    const float registers[4] = {8, 9, 10, 11};
    TILESCOPE_FRAGMENT(s, 0, rolled(registers), Columns{2, 0});
    const Coordinates last_row = {3};
    const Tensor left = {{12, 13}};
    const Tensor right = {{14, 15}};
    TILESCOPE_FRAGMENT(s, 0, left, CuteCoordinates(last_row));
    TILESCOPE_FRAGMENT(s, 0, rolled(right), CuteCoordinates(last_row, 0, 2));
}
