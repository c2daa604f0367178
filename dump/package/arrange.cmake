# Run by CPack before it makes packages of the folders that the components were installed to.
cmake_policy(VERSION 3.25)
set(staged ${CPACK_TEMPORARY_DIRECTORY})
set(libraries usr/${CPACK_TILESCOPE_LIBDIR})

# Shared libraries have a package of their own, so that two versions can be installed; what compilers look for is in another.
file(GLOB shared ${staged}/capture/${libraries}/*.so.* ${staged}/tools/${libraries}/*.so.*)
file(COPY ${shared} DESTINATION ${staged}/library/${libraries})
file(REMOVE ${shared})
foreach(folder ${libraries} usr/include)
  get_filename_component(parent ${folder} DIRECTORY)
  file(COPY ${staged}/tools/${folder} DESTINATION ${staged}/capture/${parent})
endforeach()
file(REMOVE_RECURSE ${staged}/tools/usr/lib ${staged}/tools/usr/include)

# Where Debian's zsh looks.
file(GLOB functions ${staged}/*/usr/share/zsh)
foreach(folder IN LISTS functions)
  file(RENAME ${folder}/site-functions ${folder}/vendor-completions)
endforeach()

# The licence as text in a control file, where a line of a dot is an empty one.
file(READ ${CPACK_TILESCOPE_SOURCE}/LICENSE licence)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]+)\n\n(.*)" licence "${licence}")
set(copyright ${CMAKE_MATCH_1})
string(REGEX REPLACE "\n(.)" "\n \\1" licence " ${CMAKE_MATCH_2}")
string(REPLACE "\n\n" "\n .\n" licence "${licence}")

include(${CMAKE_CURRENT_LIST_DIR}/notices.cmake)
if(EXISTS ${staged}/capture/${libraries}/libtilescope.a)
  set(compiled_in_capture ${compiled_in_static})
endif()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(share ${staged}/${component}/usr/share)
  set(documents ${share}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  if(EXISTS ${share}/doc/tilescope)
    file(RENAME ${share}/doc/tilescope ${documents})
    file(REMOVE ${documents}/LICENSE)
  endif()
  set(comment)
  if(compiled_in_${component})
    copy_notices(${documents}/notices ${compiled_in_${component}})
    set(comment "Comment: What is compiled in of other projects has its notices in the folder notices.\n")
  endif()
  file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Tilescope
${comment}
Files: *
Copyright: ${copyright}
License: Expat
${licence}")
  file(WRITE ${documents}/changelog "tilescope (${CPACK_DEBIAN_PACKAGE_VERSION}) unstable; urgency=medium

  * Compiled from ${CPACK_PACKAGE_VERSION}, whose CHANGELOG.md says what is new.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
  file(GLOB pages ${share}/man/man1/*.1)
  # Without a time, so that the same source makes the same file.
  execute_process(COMMAND gzip -9nf ${documents}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# CPack 3.25 cannot be told otherwise.
set(name ${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME})
file(WRITE ${staged}/library/usr/share/lintian/overrides/${name} "# CPack writes them beside the trigger.
${name}: maintscript-calls-ldconfig
")
