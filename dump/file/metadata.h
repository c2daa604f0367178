#pragma once

// The attributes that describe a recording: format, origin, problem and units.

#include "dump/file/check.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Errors: Error for a file of another format or of a newer version, for one that was not completed, and for
/// one that requires what this program does not know.
void check_format(const InputFile& file);

/// Whether the file holds a declared kernel, and not a recording of attention. Errors: Error where it holds both.
bool is_of_program(const InputFile& file);

/// Errors: Error for a missing, wrong or contradicting attribute.
Provenance read_provenance(const InputFile& file);
Problem read_problem(const InputFile& file);

/// Units that /problem holds; those of the stages are added by read_stage_units.
Units read_common_units(const InputFile& file);
void read_stage_units(hid_t dataset, const std::string& where, Stage stage, Units& units);

/// The attribute `dtype` of a dataset, if there is one, must name `dtype`.
void check_dtype(hid_t dataset, const std::string& where, Dtype dtype);

/// Each writes the same attributes. Errors: Failure. `complete` is written on its own, last.
void write_format(hid_t file, const Provenance& provenance);
void write_complete(hid_t file);
void write_problem(hid_t group, const Problem& problem, const Units& units);
void write_stage_units(hid_t dataset, Stage stage, const Units& units);
void write_dtype(hid_t dataset, Dtype dtype);

}  // namespace tilescope::hdf5
