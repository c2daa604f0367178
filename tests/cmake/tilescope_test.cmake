# Threads that spin while they wait take the processor from the test beside theirs.
set(TILESCOPE_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)
if(TILESCOPE_TEST_EVERYTHING)
  list(APPEND TILESCOPE_TEST_ENVIRONMENT TILESCOPE_ALL_SEEDS=1)
endif()
if(TILESCOPE_SANITIZE)
  list(APPEND TILESCOPE_TEST_ENVIRONMENT
    LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks.supp:print_suppressions=0)
endif()

# tilescope_test_ends(LINE SECONDS)
# Limits are for what hangs, not for what is slow: sanitizers cost several times the time, and so does work beside a test.
function(tilescope_test_ends line seconds)
  if(TILESCOPE_SANITIZE)
    math(EXPR seconds "5 * ${seconds}")
  endif()
  set_tests_properties(${line} PROPERTIES TIMEOUT ${seconds})
endfunction()

# Compiling the tests takes longer than running them.
add_library(tilescope_test_flags INTERFACE)
target_compile_options(tilescope_test_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:$<IF:$<BOOL:${TILESCOPE_QUICK}>,-O0,-O1>>)
# What is precompiled asks for the same definitions and libraries everywhere.
target_compile_definitions(tilescope_test_flags INTERFACE EIGEN_DONT_PARALLELIZE)
target_link_libraries(tilescope_test_flags INTERFACE Eigen3::Eigen)
tilescope_precompiled(tilescope_test_headers LEVEL own LIBS tilescope_flags tilescope_test_flags Eigen3::Eigen GTest::gtest
  HEADERS <gtest/gtest.h> <Eigen/Core>)

add_library(tilescope_test_main STATIC ${CMAKE_CURRENT_LIST_DIR}/../support/test_main.cpp)
target_link_libraries(tilescope_test_main PUBLIC GTest::gtest PRIVATE tilescope_flags tilescope_test_flags)

# tilescope_test_is_here(OUT NAME IN)
# Every test says in which build it runs where each thing is tested once: plain, sanitized or both. The tests of this build
# and those that it leaves to the other are listed for ./dev test, which holds the lists of two builds against each other.
function(tilescope_test_is_here out name in)
  if(NOT in MATCHES "^(plain|sanitized|both)$")
    message(FATAL_ERROR "${name}: IN ${in}; say plain, sanitized or both")
  endif()
  set(this plain)
  if(TILESCOPE_SANITIZE)
    set(this sanitized)
  endif()
  if(TILESCOPE_TEST_EVERYTHING OR in STREQUAL this OR in STREQUAL "both")
    set(here ON)
    set(list TILESCOPE_TESTS_HERE)
  else()
    set(here OFF)
    set(list TILESCOPE_TESTS_ELSEWHERE)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY ${list} "${name}\n")
  set(${out} ${here} PARENT_SCOPE)
endfunction()

# What must be compiled before a test of CTest can run: ./dev test PATTERN compiles no more.
function(tilescope_test_needs name)
  list(JOIN ARGN " " targets)
  set_property(GLOBAL APPEND_STRING PROPERTY TILESCOPE_TESTS_NEED "${name} ${targets}\n")
endfunction()

# After the last test.
function(tilescope_list_tests)
  foreach(list HERE ELSEWHERE NEED)
    get_property(tests GLOBAL PROPERTY TILESCOPE_TESTS_${list})
    string(TOLOWER ${list} file)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tests_${file}.txt CONTENT "${tests}")
  endforeach()
endfunction()

# tilescope_test_program(NAME IN LABEL SOURCES... LIBS...)
# Left to the other build, a program is compiled when it is asked for by name. Programs that need a GPU are named
# *_gpu_test: ./dev gpu finds them by that where CMake is missing.
function(tilescope_test_program name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;LIBS" ${ARGN})
  if(arg_LABEL STREQUAL "gpu" AND NOT name MATCHES "_gpu_test$")
    message(FATAL_ERROR "${name}: tests with the label gpu are in a program named *_gpu_test; rename it")
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} tilescope_test_flags tilescope_test_main)
  tilescope_takes_precompiled(tilescope_test_headers ${name})
endfunction()

# tilescope_test_line(NAME PROGRAM LABEL cpu|gpu|view [SHARDS n SHARD i] [ARGUMENTS ...])
# A line is shown as skipped where all its tests call GTEST_SKIP; ./dev test names every one.
function(tilescope_test_line line program)
  cmake_parse_arguments(arg "" "LABEL;SHARDS;SHARD" "ARGUMENTS" ${ARGN})
  add_test(NAME ${line} COMMAND ${program} ${arg_ARGUMENTS})
  math(EXPR cost "100 * ${arg_SHARDS}")
  # A pattern of skipped tests hides failed ones: it is the end of what is printed where no test ran.
  set_tests_properties(${line} PROPERTIES LABELS ${arg_LABEL} COST ${cost}
    ENVIRONMENT "${TILESCOPE_TEST_ENVIRONMENT};GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${arg_SHARD}"
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
  tilescope_test_ends(${line} 900)
  tilescope_test_needs(${line} ${program})
endfunction()

# tilescope_test(NAME LABEL cpu|gpu|view [IN plain|sanitized|both] [SHARDS n] SOURCES ... LIBS ...)
# A GoogleTest program, whose run is a line of CTest, or n lines where it takes long: starting a process for each of its
# tests costs more than many of them.
function(tilescope_test name)
  cmake_parse_arguments(arg "" "LABEL;IN;SHARDS" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_IN)
    set(arg_IN plain)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  tilescope_test_program(${name} LABEL ${arg_LABEL} SOURCES ${arg_SOURCES} LIBS ${arg_LIBS})
  tilescope_test_is_here(here ${name} ${arg_IN})
  if(NOT here)
    return()
  endif()
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL OFF)
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(line ${name})
    if(arg_SHARDS GREATER 1)
      set(line ${name}_${shard}_of_${arg_SHARDS})
    endif()
    math(EXPR index "${shard} - 1")
    tilescope_test_line(${line} ${name} LABEL ${arg_LABEL} SHARDS ${arg_SHARDS} SHARD ${index})
  endforeach()
endfunction()

# tilescope_tests(PROGRAM [PREFIX ...] [IN plain|sanitized|both] TESTS ... LIBS ...)
# One program of many sources, which costs less to compile and to link than a program of each: TEST_test.cpp is the line
# PREFIX_TEST_test of CTest, in a process of its own.
function(tilescope_tests program)
  cmake_parse_arguments(arg "" "PREFIX;IN" "TESTS;LIBS" ${ARGN})
  if(NOT arg_IN)
    set(arg_IN plain)
  endif()
  list(TRANSFORM arg_TESTS APPEND _test.cpp OUTPUT_VARIABLE sources)
  tilescope_test_program(${program} LABEL cpu LIBS ${arg_LIBS})
  tilescope_sources(${program} LEVEL own ${sources})
  foreach(test ${arg_TESTS})
    tilescope_test_is_here(here ${arg_PREFIX}${test}_test ${arg_IN})
    if(here)
      set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL OFF)
      tilescope_test_line(${arg_PREFIX}${test}_test ${program} LABEL cpu SHARDS 1 SHARD 0 ARGUMENTS --source ${test}_test.cpp)
    endif()
  endforeach()
endfunction()

# tilescope_gpu_tests(PROGRAM TESTS ... LIBS ...)
# One program of one source, which includes TEST_gpu_test.cu: nvcc reads GoogleTest and the hooks three times for each source.
function(tilescope_gpu_tests program)
  cmake_parse_arguments(arg "" "" "TESTS;LIBS" ${ARGN})
  set(includes)
  foreach(test ${arg_TESTS})
    string(APPEND includes "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${test}_gpu_test.cu\"\n")
    tilescope_test_is_here(here ${test}_gpu_test plain)
    tilescope_test_line(${test}_gpu_test ${program} LABEL gpu SHARDS 1 SHARD 0 ARGUMENTS --source ${test}_gpu_test.cu)
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${program}.cu)
  file(CONFIGURE OUTPUT ${source} CONTENT "${includes}")
  tilescope_test_program(${program} LABEL gpu SOURCES ${source} LIBS ${arg_LIBS})
  set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL OFF)
endfunction()

# tilescope_alone_on_the_gpu(LINES...)
# What fills the memory of every multiprocessor and reads it in its next launch, which another program may come between.
function(tilescope_alone_on_the_gpu)
  foreach(line ${ARGN})
    if(TEST ${line})
      set_tests_properties(${line} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
endfunction()

# tilescope_script_test(NAME LABEL cpu|gpu|view [TIMEOUT seconds] [PROPERTIES ...] [NEEDS targets...] COMMAND ...)
# A script; exit 77 means skipped. Where each thing is tested once, none runs sanitized programs. NEEDS names the targets
# that it runs and that COMMAND does not name.
function(tilescope_script_test name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "COMMAND;NEEDS;PROPERTIES" ${ARGN})
  tilescope_test_is_here(here ${name} plain)
  if(NOT here)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} SKIP_RETURN_CODE 77
    ENVIRONMENT "${TILESCOPE_TEST_ENVIRONMENT}")
  if(arg_TIMEOUT)
    # Those that may take long begin first, so that none is left alone at the end.
    set_tests_properties(${name} PROPERTIES COST ${arg_TIMEOUT})
    tilescope_test_ends(${name} ${arg_TIMEOUT})
  endif()
  if(arg_PROPERTIES)
    set_tests_properties(${name} PROPERTIES ${arg_PROPERTIES})
  endif()
  list(TRANSFORM arg_COMMAND REPLACE "^\\$<TARGET_[A-Z]+:([^>]+)>$" "\\1")
  foreach(word ${arg_COMMAND})
    if(TARGET ${word})
      list(APPEND arg_NEEDS ${word})
    endif()
  endforeach()
  tilescope_test_needs(${name} ${arg_NEEDS})
endfunction()
