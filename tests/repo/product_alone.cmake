# Configures what SOURCE holds besides tests/ in a tree of its own below SCRATCH, without CUDA.
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH}/source)
file(GLOB parts RELATIVE ${SOURCE} ${SOURCE}/CMakeLists.txt ${SOURCE}/*/CMakeLists.txt)
list(REMOVE_ITEM parts tests/CMakeLists.txt)
foreach(part ${parts})
  string(REGEX REPLACE "/CMakeLists.txt$" "" part ${part})
  file(CREATE_LINK ${SOURCE}/${part} ${SCRATCH}/source/${part} SYMBOLIC)
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SCRATCH}/source -B ${SCRATCH}/build -G ${GENERATOR}
  -D TILESCOPE_CUDA=OFF -D TILESCOPE_TESTS=OFF COMMAND_ERROR_IS_FATAL ANY)
