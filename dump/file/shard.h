#pragma once

#include <vector>

#include "dump/file/hdf5.h"
#include "dump/schema.h"

namespace tilescope::hdf5 {

/// Names of the attributes of /problem that say which part of a call on several ranks the recording is.
std::vector<const char*> shard_attributes();

/// Errors: Error for attributes that cannot be understood; what they say is not validated.
Shard read_shard(hid_t problem_group, const std::string& where);
void write_shard(hid_t problem_group, const Shard& shard);

/// Those without which its tiles cannot be judged.
std::vector<const char*> required_of_shard(const Shard& shard);

}  // namespace tilescope::hdf5
