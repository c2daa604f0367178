# What TILESCOPE_QUICK does besides what it leaves out of device code. The product is configured before, and without the
# tests it is compiled as it is shipped.

# tilescope_precompiled(TARGET [headers...])
# What most sources of a target include from elsewhere is read once. Every source still includes what it uses: what is
# shipped is compiled without.
function(tilescope_precompiled target)
  if(TARGET ${target} AND TILESCOPE_QUICK)
    # Where it optimises much, GCC 12 warns of its own std::string once that is precompiled.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex>
      <numbers> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <tuple> <utility> <variant> <vector>
      ${ARGN})
  endif()
endfunction()

# tilescope_not_optimised(TARGET SOURCE)
# What runs once and is made of many templates.
function(tilescope_not_optimised target source)
  if(NOT TARGET ${target} OR NOT TILESCOPE_QUICK)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  if(NOT source IN_LIST sources)
    message(FATAL_ERROR "${source}: is no source of ${target}; correct its row in tests/cmake/tilescope_quick.cmake")
  endif()
  get_target_property(folder ${target} SOURCE_DIR)
  set_source_files_properties(${folder}/${source} TARGET_DIRECTORY ${target}
    PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
endfunction()

tilescope_precompiled(tilescope_dump)
tilescope_precompiled(tilescope_file)
tilescope_precompiled(tilescope_oracle <Eigen/Core> <fmt/format.h>)
tilescope_precompiled(tilescope_kernels <fmt/format.h>)
tilescope_precompiled(tilescope_viewer <Eigen/Core> <fmt/format.h> <imgui.h>)

tilescope_not_optimised(tilescope_command_line program/command_line.cpp)
tilescope_not_optimised(tile-diff tile_diff.cpp)
tilescope_not_optimised(tilescope_kernels run/commands/option_groups.cpp)
tilescope_not_optimised(tilescope_gate gate_options.cpp)
tilescope_not_optimised(tile-view tile_view.cpp)
foreach(source checks flight list record recover sweep watch)
  tilescope_not_optimised(tile-run run/commands/${source}.cpp)
endforeach()
tilescope_not_optimised(tile-run run/tile_run.cpp)
