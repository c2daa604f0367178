# Installs BUILD below SCRATCH, then configures, builds and runs the consumer project in SOURCE against it.
file(REMOVE_RECURSE ${SCRATCH})
foreach(step
    "--install;${BUILD};--prefix;${SCRATCH}/prefix"
    "-S;${SOURCE};-B;${SCRATCH}/build;-G;${GENERATOR};-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix"
    "--build;${SCRATCH}/build")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${SCRATCH}/build/consumer WORKING_DIRECTORY ${SCRATCH} COMMAND_ERROR_IS_FATAL ANY)
