# Of what a wheel holds that others wrote: MODULE's libraries, which auditwheel puts into it, and what is compiled into it, of which
# NANOBIND is a package of Python. Below FOLDER; where there are no packages of Debian, the wheel is for this system alone.
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/notices.cmake)
find_program(dpkg_query dpkg-query)
if(dpkg_query)
  find_libraries(needed owners LIBRARIES ${MODULE})
  copy_notices(${FOLDER} ${compiled_in_library} ${owners})
endif()
file(GLOB licence ${NANOBIND}/../../nanobind-*.dist-info/licenses/LICENSE)
if(licence)
  configure_file(${licence} ${FOLDER}/nanobind COPYONLY)
endif()
