# Installs BUILD below SCRATCH, then configures, builds and runs the consumer project in SOURCE against it, on a machine
# that has nothing of HDF5 for CMake.
file(REMOVE_RECURSE ${SCRATCH})
foreach(step
    "--install;${BUILD};--prefix;${SCRATCH}/prefix;--component;capture"
    "-S;${SOURCE};-B;${SCRATCH}/build;-G;${GENERATOR};-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix;-DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON"
    "--build;${SCRATCH}/build")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${SCRATCH}/build/consumer WORKING_DIRECTORY ${SCRATCH} COMMAND_ERROR_IS_FATAL ANY)

# Neither do the installed targets name it.
file(GLOB targets ${SCRATCH}/prefix/lib/cmake/tilescope/*.cmake)
foreach(file ${targets})
  file(STRINGS ${file} named REGEX "[hH][dD][fF]5")
  if(named)
    message(FATAL_ERROR "${file} asks for HDF5: ${named}")
  endif()
endforeach()
