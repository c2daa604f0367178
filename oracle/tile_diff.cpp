#include "oracle/cli/main.h"

int main(int argc, char** argv) {
    return tilescope::tile_diff_main(argc, argv, nullptr);
}
