// Saves what it reads, as a hooked program saves what it computed.
//
// usage: copy_recordings [--expect SELECTION] [--without-inputs] [FILE...]

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "dump/reader.h"
#include "dump/recording/recorded_call.h"
#include "dump/writer.h"

int main(int argc, char** argv) try {
    bool with_inputs = true;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--expect") {
            const char* const select = std::getenv("TILESCOPE_SELECT");
            if (select == nullptr || select != std::string(argv[++i])) return 3;
        } else if (argument == "--without-inputs") {
            with_inputs = false;
        } else {
            const auto recording = tilescope::open_recording(argument);
            const tilescope::RecordedCall nothing(recording->problem(), recording->units(), {}, {});
            const tilescope::Recording& saved = *recording;
            tilescope::save_recording("run.h5", with_inputs ? saved : nothing);
        }
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
}
