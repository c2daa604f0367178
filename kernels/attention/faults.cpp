#include "kernels/attention/faults.h"

#include <algorithm>
#include <iterator>

namespace tilescope {

const FaultInfo* find_fault(std::string_view name) {
    const auto* row = std::ranges::find(all_faults, name, &FaultInfo::name);
    return row == std::end(all_faults) ? nullptr : row;
}

const FaultInfo& fault_info(Fault fault) {
    return *std::ranges::find(all_faults, fault, &FaultInfo::fault);
}

}  // namespace tilescope
