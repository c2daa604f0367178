#pragma once

#include <span>
#include <string>

namespace tilescope {

/// Whether both paths lead to one file: by another name of it, or through links. Of files that are not there
/// yet, whether they would be one.
bool same_file(const std::string& a, const std::string& b);

/// Empty paths stand for files that are not asked for. Errors: Error when an output is an input.
void spare_inputs(std::span<const std::string> inputs, std::span<const std::string> outputs);

}  // namespace tilescope
