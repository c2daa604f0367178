# tilescope_recording_static: what tilescope_recording holds as an archive, and of HDF5 what it uses, for programs that run where
# none of HDF5's libraries is. Not there where HDF5 has no archive, or one that needs more than compression.
get_filename_component(folder_of_hdf5 "${HDF5_C_LIBRARY_hdf5}" DIRECTORY)
find_library(TILESCOPE_HDF5_ARCHIVE libhdf5.a PATHS ${folder_of_hdf5} NO_DEFAULT_PATH DOC "HDF5 for libtilescope.a")
foreach(name sz aec z)
  string(TOUPPER ${name} upper)
  find_library(TILESCOPE_${upper}_ARCHIVE lib${name}.a DOC "${name} for libtilescope.a")
  if(TILESCOPE_${upper}_ARCHIVE)
    list(APPEND archives_of_hdf5 ${TILESCOPE_${upper}_ARCHIVE})
  endif()
endforeach()
if(TILESCOPE_HDF5_ARCHIVE AND CMAKE_NM AND CMAKE_OBJCOPY)
  list(INSERT archives_of_hdf5 0 ${TILESCOPE_HDF5_ARCHIVE})
  include(CheckCSourceCompiles)
  include(CMakePushCheckState)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_LIBRARIES ${archives_of_hdf5} pthread dl m)
  file(READ file/without_s3.c source)
  check_c_source_compiles("${source}\nint main(void) { return H5open() + (H5Fcreate(\"\", 0, 0, 0) < 0); }" TILESCOPE_HDF5_ARCHIVE_LINKS)
  cmake_pop_check_state()
endif()
if(NOT TILESCOPE_HDF5_ARCHIVE_LINKS)
  message(STATUS "HDF5 has no archive that links with sz, aec and z alone: building without libtilescope.a")
  return()
endif()

add_library(tilescope_without_s3 OBJECT file/without_s3.c)
target_include_directories(tilescope_without_s3 SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
set(merged ${CMAKE_CURRENT_BINARY_DIR}/tilescope_static.o)
add_custom_command(OUTPUT ${merged}
  COMMAND ${CMAKE_COMMAND} -D LINKER=${CMAKE_LINKER} -D NM=${CMAKE_NM} -D OBJCOPY=${CMAKE_OBJCOPY} -D OUTPUT=${merged}
    "-DWHOLE=$<TARGET_FILE:tilescope_file>;$<TARGET_FILE:tilescope_dump>" "-DOBJECTS=$<TARGET_OBJECTS:tilescope_without_s3>"
    "-DUSED=${archives_of_hdf5}" -P ${CMAKE_CURRENT_SOURCE_DIR}/merge_archives.cmake
  DEPENDS tilescope_file tilescope_dump $<TARGET_OBJECTS:tilescope_without_s3> merge_archives.cmake VERBATIM)
add_library(tilescope_recording_static STATIC ${merged})
set_source_files_properties(${merged} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(tilescope_recording_static PROPERTIES OUTPUT_NAME tilescope LINKER_LANGUAGE CXX)
target_link_libraries(tilescope_recording_static PUBLIC tilescope_flags INTERFACE pthread dl m)
