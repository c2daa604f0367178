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

# tilescope_together(TARGET [EXCEPT folders...])
# Eight sources of a folder are compiled as one: what they include and make of templates is read and made once. So what they
# keep to themselves needs a name of its own in the folder.
function(tilescope_together target)
  cmake_parse_arguments(arg "" "" "EXCEPT" ${ARGN})
  if(NOT TARGET ${target} OR NOT TILESCOPE_QUICK)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(root ${target} SOURCE_DIR)
  foreach(source ${sources})
    get_filename_component(folder "${source}" DIRECTORY)
    if(NOT source MATCHES "\\.cpp$" OR folder IN_LIST arg_EXCEPT)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "_${folder}" room)
    list(APPEND sources_of${room} ${source})
    list(LENGTH sources_of${room} count)
    math(EXPR batch "(${count} - 1) / 8")
    set_source_files_properties(${root}/${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP together${room}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
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
tilescope_not_optimised(tilescope_judging program/main.cpp)
tilescope_not_optimised(tilescope_kernels run/commands/option_groups.cpp)
tilescope_not_optimised(tilescope_gate gate_options.cpp)
tilescope_not_optimised(tile-view tile_view.cpp)
if(TARGET tile-run AND TILESCOPE_QUICK)
  target_compile_options(tile-run PRIVATE -O0)
endif()

tilescope_together(tilescope_dump)
tilescope_together(tilescope_file)
tilescope_together(tilescope_oracle EXCEPT formula replay)
tilescope_together(tilescope_kernels EXCEPT attention)
tilescope_together(tilescope_gate)
tilescope_together(tilescope_viewer)
tilescope_together(tile-run)
