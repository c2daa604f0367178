# Which machine code and PTX kernels are compiled to: cmake -D ROOT=... -P architectures_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${ROOT}/kernels/architectures.cmake)

function(expect rule given expected)
  cmake_language(CALL ${rule} found ${given})
  if(NOT found STREQUAL expected)
    message(SEND_ERROR "${rule}(${given}): ${found}, not ${expected}")
  endif()
endfunction()

# A GPU of 8.x runs the machine code of 8.0, one of 9.0 its own, and a newer one compiles the PTX of 9.0.
expect(tilescope_with_needed_ptx "80;89;90" "80-real;89-real;90")
expect(tilescope_with_needed_ptx "90;80" "80-real;90")
expect(tilescope_with_needed_ptx "90" "90")
# Nothing else is for 9.0.
expect(tilescope_with_needed_ptx "80;100" "80;100")
# Nor for 10.0, whose machine code that of 9.0 is not.
expect(tilescope_with_needed_ptx "90;103" "90;103")
expect(tilescope_with_needed_ptx "80;86;103" "80-real;86;103")
# What CMake or the caller spells out.
expect(tilescope_with_needed_ptx "native" "native")
expect(tilescope_with_needed_ptx "80-real;90-virtual" "80-real;90-virtual")

expect(tilescope_oldest_architectures "80;89;90" "80;90")
expect(tilescope_oldest_architectures "100;89;86;90" "86;90;100")
expect(tilescope_oldest_architectures "89" "89")
expect(tilescope_oldest_architectures "native" "native")
