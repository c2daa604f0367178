# Installs BUILD below SCRATCH, then configures, builds and runs the consumer project in SOURCE against it, on a machine
# that has nothing of HDF5 for CMake; and links its objects by what pkg-config says, with COMPILER. Where BUILD has HDF5 as an
# archive, which STATIC says, so are programs that need no library of HDF5.
file(REMOVE_RECURSE ${SCRATCH})
foreach(step
    "--install;${BUILD};--prefix;${SCRATCH}/prefix;--component;capture"
    "-S;${SOURCE};-B;${SCRATCH}/build;-G;${GENERATOR};-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix;-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON"
    "--build;${SCRATCH}/build")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# pkg_config(OUT OPTIONS...)
find_program(PKG_CONFIG pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${SCRATCH}/prefix/lib/pkgconfig)
function(pkg_config out)
  execute_process(COMMAND ${PKG_CONFIG} ${ARGN} OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(said UNIX_COMMAND "${said}")
  set(${out} ${said} PARENT_SCOPE)
endfunction()

# The hooked function is compiled anew; the other objects are those that CMake made.
file(GLOB objects ${SCRATCH}/build/CMakeFiles/*/main.cpp.o ${SCRATCH}/build/CMakeFiles/fragments.dir/*.o
  ${SCRATCH}/build/CMakeFiles/plain.dir/*.o)
function(link_by_pkg_config package program)
  pkg_config(flags --cflags ${package})
  pkg_config(libraries --libs ${package})
  execute_process(COMMAND ${COMPILER} -std=c++17 -DDEBUG_DUMP ${flags} ${SOURCE}/scale_rows.cpp ${objects} ${libraries} -o ${program}
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(programs ${SCRATCH}/build/consumer ${SCRATCH}/by_pkg_config)
link_by_pkg_config(tilescope ${SCRATCH}/by_pkg_config)
if(STATIC)
  list(APPEND programs ${SCRATCH}/build/consumer_static ${SCRATCH}/static_by_pkg_config)
  link_by_pkg_config(tilescope-static ${SCRATCH}/static_by_pkg_config)
  # A program may link another HDF5 beside it.
  execute_process(COMMAND nm --extern-only --defined-only --format=posix ${SCRATCH}/prefix/lib/libtilescope.a OUTPUT_VARIABLE names
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT names MATCHES "tilescope" OR names MATCHES "\n((H5|SZ_|aec_|inflate|deflate)[^\n]*)")
    message(FATAL_ERROR "libtilescope.a: ${CMAKE_MATCH_1} is a name that others may have")
  endif()
endif()
foreach(program IN LISTS programs)
  execute_process(COMMAND ${program} WORKING_DIRECTORY ${SCRATCH} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ldd ${program} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
  if(program MATCHES "static")
    string(REGEX MATCH "lib(tilescope|hdf5|sz|aec|z|curl|crypto|ssl|krb5|ldap|gssapi_krb5)[.-][^\n]*" unwanted "${needed}")
    if(unwanted)
      message(FATAL_ERROR "${program}: needs ${unwanted}")
    endif()
  elseif(NOT needed MATCHES "libtilescope\\.so")
    message(FATAL_ERROR "${program}: needs no libtilescope.so: ${needed}")
  endif()
endforeach()

# Neither do the installed targets name HDF5.
file(GLOB targets ${SCRATCH}/prefix/lib/cmake/tilescope/*.cmake)
foreach(file ${targets})
  file(STRINGS ${file} named REGEX "[hH][dD][fF]5")
  if(named)
    message(FATAL_ERROR "${file} asks for HDF5: ${named}")
  endif()
endforeach()
