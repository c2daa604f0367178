include(GoogleTest)

# Threads that spin while they wait take the processor from the test beside theirs.
set(TILESCOPE_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)
if(TILESCOPE_SANITIZE)
  list(APPEND TILESCOPE_TEST_ENVIRONMENT
    LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks.supp:print_suppressions=0)
endif()

# Compiling the tests takes longer than running them.
add_library(tilescope_test_flags INTERFACE)
target_compile_options(tilescope_test_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:$<IF:$<BOOL:${TILESCOPE_QUICK}>,-O0,-O1>>)
if(TILESCOPE_QUICK)
  # What is precompiled asks for the same definitions everywhere.
  target_compile_definitions(tilescope_test_flags INTERFACE EIGEN_DONT_PARALLELIZE)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp CONTENT "")
  add_library(tilescope_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(tilescope_test_headers PRIVATE tilescope_flags tilescope_test_flags Eigen3::Eigen GTest::gtest)
  tilescope_precompiled(tilescope_test_headers <gtest/gtest.h> <Eigen/Core>)
endif()

# tilescope_test(NAME LABEL cpu|gpu|view SOURCES ... LIBS ...)
# A GoogleTest program whose tests carry the label. A test that calls GTEST_SKIP is shown as skipped.
# Programs that need a GPU are named *_gpu_test: ./dev gpu finds them by that where CMake is missing.
# With sanitizers a line of CTest is a program: starting one for each test would take a fifth of the time.
function(tilescope_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;LIBS" ${ARGN})
  if(arg_LABEL STREQUAL "gpu" AND NOT name MATCHES "_gpu_test$")
    message(FATAL_ERROR "${name}: tests with the label gpu are in a program named *_gpu_test; rename it")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} tilescope_test_flags GTest::gtest_main)
  if(TILESCOPE_QUICK)
    target_precompile_headers(${name} REUSE_FROM tilescope_test_headers)
  endif()
  if(TILESCOPE_SANITIZE)
    add_test(NAME ${name} COMMAND ${name})
    # A pattern of skipped tests hides failed ones: it is the end of what is printed where no test ran.
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 900 COST 100
      ENVIRONMENT "${TILESCOPE_TEST_ENVIRONMENT}"
      SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS ${arg_LABEL} TIMEOUT 300 ENVIRONMENT "${TILESCOPE_TEST_ENVIRONMENT}"
      SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] ")
  endif()
endfunction()

# tilescope_script_test(NAME LABEL cpu|gpu|view [TIMEOUT seconds] COMMAND ...)
# A script; exit 77 means skipped.
function(tilescope_script_test name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} SKIP_RETURN_CODE 77
    ENVIRONMENT "${TILESCOPE_TEST_ENVIRONMENT}")
  if(arg_TIMEOUT)
    # Those that may take long begin first, so that none is left alone at the end.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT})
  endif()
endfunction()
