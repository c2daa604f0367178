#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump/recording/program_recording.h"
#include "oracle/program/judge_program.h"

namespace tilescope {

/// How a declared kernel that was kept in a file came out.
struct JudgedProgram {
    std::string recording{};  ///< its file
    Provenance provenance{};
    std::string program_text{};
    std::vector<std::string> declared{};  ///< formulas that the file does not have: it is judged as if it did
    Program program{};
    std::map<std::string, std::int64_t> sizes{};  ///< all of them, those that shapes tell among them
    ProgramReport report{};
    FoundMistakes found{};
    bool searched = false;                     ///< for mistakes
    std::vector<std::string> search_failed{};  ///< why
    double confidence = 0;
    std::size_t top = 0;  ///< worst elements that are shown
    std::string text{};   ///< report_text()
};

/// A recorded kernel with what it was called with and what it stored, as the judge takes them. The recording must outlive it.
struct RecordedCall {
    /// Errors: Error for arrays and sizes that are not what the text asks for.
    explicit RecordedCall(const ProgramRecording& recording);
    RecordedCall(const RecordedCall&) = delete;
    RecordedCall& operator=(const RecordedCall&) = delete;

    const Program program;
    const ProgramCall call;
    const StoredArrays stored;
};

/// The tiles of another one, with a function that is called for each: what that throws ends what reads them.
class CheckedTiles final : public StoredTiles {
 public:
    CheckedTiles(const StoredTiles& tiles, std::function<void()> check)
        : tiles_(tiles), check_(std::move(check)) {}

    bool has(int stage) const override { return tiles_.has(stage); }
    void read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const override {
        check_();
        tiles_.read(tile, out, known);
    }
    std::int64_t conflicts(int stage) const override { return tiles_.conflicts(stage); }
    std::vector<SourceLine> hooks(int stage) const override { return tiles_.hooks(stage); }

 private:
    const StoredTiles& tiles_;
    std::function<void()> check_;
};

struct ProgramJudging {
    bool causes = true;                   ///< whether to look for a mistake where something diverges
    std::size_t top = 5;                  ///< worst elements to show, of those that are kept
    std::vector<std::string> declared{};  ///< with_formula(), which the text of the recording has already
    std::string died = {};                ///< how a search of the same ended before, in place of another
    std::function<void()> check = [] {};  ///< called all the time, from any thread
};

/// Judges what is in the file `name`.
/// Errors: Error naming it, for arrays and sizes that are not what the text asks for, and where nothing can be told.
JudgedProgram judge_program_recording(const std::string& name, const ProgramRecording& recording,
                                      const ProgramJudging& how = {});

}  // namespace tilescope
