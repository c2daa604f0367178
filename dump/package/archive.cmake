# Installs what is in BUILD but the viewer below ARCHIVE, with the libraries of this system that it needs, and packs it as
# ARCHIVE.tar.gz: it runs from any folder, on any system whose C library is as new.
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/notices.cmake)
file(REMOVE_RECURSE ${ARCHIVE})
foreach(component capture tools)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${ARCHIVE} --strip --component ${component}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()

file(GLOB programs ${ARCHIVE}/bin/*)
file(GLOB libraries ${ARCHIVE}/lib/*.so.*.*)
find_libraries(needed owners PROGRAMS ${programs} LIBRARIES ${libraries})
foreach(library IN LISTS needed)
  file(REAL_PATH ${library} file)
  get_filename_component(name ${library} NAME)
  file(COPY_FILE ${file} ${ARCHIVE}/lib/${name})
  list(APPEND libraries ${ARCHIVE}/lib/${name})
endforeach()
copy_notices(${ARCHIVE}/share/doc/tilescope/notices ${compiled_in_tools} ${owners})

foreach(file IN LISTS programs)
  execute_process(COMMAND patchelf --set-rpath $ORIGIN/../lib ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(file IN LISTS libraries)
  execute_process(COMMAND patchelf --set-rpath $ORIGIN ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

get_filename_component(folder ${ARCHIVE} DIRECTORY)
get_filename_component(name ${ARCHIVE} NAME)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${ARCHIVE}.tar.gz ${name} WORKING_DIRECTORY ${folder} COMMAND_ERROR_IS_FATAL ANY)
