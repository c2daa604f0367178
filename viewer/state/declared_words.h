#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "viewer/state/declared.h"

namespace tilescope::viewer {

/// What a declared kernel computes in place of a formula, in words.
struct MistakeWords {
    int stage = -1;          ///< whose formula it is
    std::string declared{};  ///< "acc = acc + sum(k: a * w)"
    std::string instead{};
    std::string says{};     ///< "leaves out terms of its sum"; empty where only its places are known
    std::string look_at{};  ///< the same
    std::string evidence{};
    bool is_perhaps = false;  ///< of much that it says nobody knows
};
/// The best first; none before they were searched.
std::vector<MistakeWords> mistakes_of(const Document& document);
/// In their place: why there are none; empty where there are.
std::string why_no_mistakes(const App& app);

/// "acc[n, m] over k: f32".
std::string heading_of(const Program& program, int stage);
/// "acc + sum(k: a * w) in tensor_core_f32", and what a state starts from.
std::string formula_of(const Program& program, int stage);
/// "n 96 by 32  m 60 by 32  k 160 by 64".
std::string extents_text(const ProgramCall& call);

/// What is known of the recording in one sentence: which stage is wrong and why, or how close to their tolerances all stages came.
std::string declared_headline(const App& app);

/// What the sheet on screen is of: "acc at b 1, after block 2 of k".
std::string sheet_text(const App& app);

/// A stage's word in the chain, and what it means.
struct DeclaredWord {
    std::string_view word;
    std::string_view says;
};
DeclaredWord word_of(DeclaredState state);
/// The same; of one that inherited, from which: "from acc".
std::string word_in_chain(const DeclaredKernel& kernel, int stage);

}  // namespace tilescope::viewer
