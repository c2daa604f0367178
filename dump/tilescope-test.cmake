# tilescope_add_test(NAME name COMMAND program [arguments...] [SELECT selection] [TILE_DIFF options...] [KEEP])
# A test that runs a hooked program and has tile-diff judge every recording that it saves; the component tools is needed.
# The recordings lie in tilescope/NAME of the build folder, and stay there unless all of them match, or in any case with KEEP. The log
# ends with "diverged", "cannot be judged" or what else was wrong. SELECT is TILESCOPE_SELECT, and TILE_DIFF what tile-diff is told
# beside the recordings: --baseline and --report junit=FILE are of all of them.
function(tilescope_add_test)
  cmake_parse_arguments(arg "KEEP" "NAME;SELECT" "COMMAND;TILE_DIFF" ${ARGN})
  if(NOT arg_NAME OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tilescope_add_test: say NAME name COMMAND program [arguments...] [SELECT selection] "
      "[TILE_DIFF options...] [KEEP]")
  endif()
  if(NOT TARGET tilescope::tile-diff)
    message(FATAL_ERROR "tilescope_add_test: tile-diff is not installed; cmake --install BUILD --component tools installs it")
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${CMAKE_COMMAND} -D NAME=${arg_NAME} -D SELECT=${arg_SELECT} -D KEEP=${arg_KEEP}
    -D FOLDER=${CMAKE_CURRENT_BINARY_DIR}/tilescope/${arg_NAME} -D TILE_DIFF=$<TARGET_FILE:tilescope::tile-diff>
    -D "OPTIONS=${arg_TILE_DIFF}" -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/tilescope-judge.cmake -- ${program} ${arg_COMMAND})
endfunction()
