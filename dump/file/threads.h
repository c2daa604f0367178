#pragma once

// Which threads own a stage's elements: attributes of its dataset, and the fragments that a file gives.

#include <span>
#include <string>

#include "dump/file/check.h"
#include "dump/schema/thread_layout.h"

namespace tilescope::hdf5 {

/// Reads what the stage's dataset declares, and the fragment that it names where the file gives it.
/// Errors: Error for attributes of another type, a damaged fragment, and those of ThreadMap.
void read_stage_threads(const InputFile& file, hid_t dataset, const std::string& where,
                        const Problem& problem, Stage stage, ThreadLayouts& threads);

/// Each writes the same. Errors: Failure.
void write_stage_threads(hid_t dataset, const ThreadLayout& declared);
void write_fragments(hid_t file, std::span<const Fragment> fragments);

}  // namespace tilescope::hdf5
