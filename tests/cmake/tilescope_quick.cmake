# What TILESCOPE_QUICK does besides what it leaves out of device code.

# tilescope_precompiled(TARGET [headers...])
# What most sources of a target include from elsewhere is read once. Every source still includes what it uses: what is
# shipped is compiled without.
function(tilescope_precompiled target)
  # Where it optimises much, GCC 12 warns of its own std::string once that is precompiled.
  if(TILESCOPE_QUICK AND (TILESCOPE_SANITIZE OR target STREQUAL tilescope_test_headers))
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex>
      <numbers> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <tuple> <utility> <variant> <vector>
      ${ARGN})
  endif()
endfunction()

# tilescope_not_optimised(SOURCES...)
# Of the folder that calls: what runs once and is made of many templates.
function(tilescope_not_optimised)
  if(TILESCOPE_QUICK)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()
