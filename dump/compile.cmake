# How the sources are compiled, by everyone alike: demo, wheel, developers, packages and tests.

option(TILESCOPE_TOGETHER "Compile sources of a folder together, after precompiled headers; OFF: each alone, as clang-tidy needs it" ON)

# What a profile shows is optimised as far as it goes; the rest, most of the code, runs a few times in a process.
set(TILESCOPE_HOT -O3)
set(TILESCOPE_COLD -O1)

# tilescope_sources(TARGET [LEVEL hot|cold|own] SOURCES...)
# Adds sources of a folder. Up to 24 are compiled as one: what they include and make of templates is read and made once.
# So what a source keeps to itself needs a name of its own in the folder, and each still includes what it uses.
# They are cold where nothing is said; own: optimised as the target says.
function(tilescope_sources target)
  cmake_parse_arguments(arg "" "LEVEL" "" ${ARGN})
  set(sources ${arg_UNPARSED_ARGUMENTS})
  set_property(TARGET ${target} APPEND PROPERTY TILESCOPE_SOURCES ${sources})
  set(compiled ${sources})
  if(TILESCOPE_TOGETHER)
    tilescope_batches(compiled ${target} ${sources})
  endif()
  target_sources(${target} PRIVATE ${compiled})
  if(NOT arg_LEVEL STREQUAL "own")
    set(level ${TILESCOPE_COLD})
    if(arg_LEVEL STREQUAL "hot")
      set(level ${TILESCOPE_HOT})
    endif()
    set_property(SOURCE ${compiled} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:${level}>)
  endif()
  # GCC 13 and newer take what was precompiled at the same level alone.
  if(arg_LEVEL STREQUAL "hot")
    set_property(SOURCE ${compiled} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# Writes what includes the sources, 24 at most in each, and gives its names.
function(tilescope_batches out target)
  list(LENGTH ARGN count)
  math(EXPR batches "(${count} + 23) / 24")
  set(index 0)
  foreach(source ${ARGN})
    math(EXPR batch "${index} * ${batches} / ${count}")
    math(EXPR index "${index} + 1")
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    string(APPEND content_${batch} "#include \"${path}\"\n")
  endforeach()
  list(GET ARGN 0 first)
  get_filename_component(folder "${first}" DIRECTORY)
  string(MAKE_C_IDENTIFIER "${target}_${folder}" name)
  math(EXPR last "${batches} - 1")
  set(files)
  foreach(batch RANGE ${last})
    get_property(number TARGET ${target} PROPERTY TILESCOPE_BATCHES)
    math(EXPR number "0${number} + 1")
    set_property(TARGET ${target} PROPERTY TILESCOPE_BATCHES ${number})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/together/${name}_${number}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${content_${batch}}")
    list(APPEND files ${file})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# tilescope_precompiled(NAME [LEVEL cold|own] LIBS targets... HEADERS headers...)
# What most sources include from elsewhere, read once for all targets that take it and are compiled with the same definitions:
# as cold sources are, or as the libraries say where that is their own affair.
function(tilescope_precompiled name)
  cmake_parse_arguments(arg "" "LEVEL" "LIBS;HEADERS" ${ARGN})
  if(NOT TILESCOPE_TOGETHER)
    return()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/together/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  if(NOT arg_LEVEL STREQUAL "own")
    set_target_properties(${name} PROPERTIES TILESCOPE_COLD ON)
    tilescope_cold(${name})
  endif()
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex>
    <numbers> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <tuple> <utility> <variant> <vector>
    ${arg_HEADERS})
endfunction()

# tilescope_takes_precompiled(NAME TARGETS...)
# Every source of the targets is as cold as what was precompiled, unless tilescope_sources() says that it is hot.
function(tilescope_takes_precompiled name)
  if(NOT TARGET ${name})
    return()
  endif()
  get_target_property(is_cold ${name} TILESCOPE_COLD)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${name})
    if(is_cold)
      tilescope_cold(${target})
    endif()
  endforeach()
endfunction()

function(tilescope_cold target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${TILESCOPE_COLD}>)
endfunction()
