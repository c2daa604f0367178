# What ./dev package makes of the installed components: Debian packages, by CPack. arrange.cmake moves what Debian's policy wants
# elsewhere than an install tree has it.
cmake_host_system_information(RESULT system QUERY DISTRIB_INFO)
string(REGEX REPLACE "^debian" "deb" distribution "${system_ID}")
# Older than the same version of a distribution would be; it runs on the one that it was compiled on.
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION}~${distribution}${system_VERSION_ID})
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
if(DEFINED ENV{DEBEMAIL})
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Tilescope authors <authors@tilescope.invalid>")
endif()
set(CPACK_PACKAGE_CONTACT ${CPACK_DEBIAN_PACKAGE_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/arrange.cmake)
# For the script, which knows nothing of the project.
set(CPACK_TILESCOPE_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_TILESCOPE_LIBDIR ${CMAKE_INSTALL_LIBDIR})

# tilescope_package(COMPONENT NAME SECTION SUMMARY TEXT)
function(tilescope_package component name section summary text)
  string(TOUPPER ${component} upper)
  set(about "Tilescope says which stage of a fused attention kernel computes the first\n"
    "wrong number, where, by how much, and which mistake explains it.\n")
  string(CONCAT description "${summary}\n" ${about} "${text}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()

set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_COMPONENTS_ALL)
tilescope_package(library libtilescope${soversion} libs "recordings of attention kernels - libraries"
  "These are the libraries that write, read and judge recordings.")
tilescope_package(capture libtilescope-dev libdevel "recordings of attention kernels - development files"
  "These are the hooks for kernels, and what a project needs to record and to\njudge them with CMake or pkg-config.")
tilescope_package(tools tilescope-tools devel "numerical debugger for attention kernels - programs"
  "tile-diff judges recordings, tile-run makes them, and tile-gate compares\nlatencies.")
if(TARGET tile-view)
  tilescope_package(viewer tilescope-view devel "numerical debugger for attention kernels - viewer"
    "tile-view shows a recording at its first divergence.")
endif()
set(CPACK_DEBIAN_CAPTURE_PACKAGE_DEPENDS "libtilescope${soversion} (= ${CPACK_DEBIAN_PACKAGE_VERSION}), "
  "tilescope-tools (= ${CPACK_DEBIAN_PACKAGE_VERSION})")
string(CONCAT CPACK_DEBIAN_CAPTURE_PACKAGE_DEPENDS ${CPACK_DEBIAN_CAPTURE_PACKAGE_DEPENDS})

# What CPack writes of shared libraries runs ldconfig by itself, which Debian leaves to a trigger.
set(control ${CMAKE_CURRENT_BINARY_DIR}/package)
file(CONFIGURE OUTPUT ${control}/triggers CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT ${control}/shlibs CONTENT "libtilescope ${soversion} libtilescope${soversion} (>= ${PROJECT_VERSION}~)
libtilescope-oracle ${soversion} libtilescope${soversion} (>= ${PROJECT_VERSION}~)\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs)
include(CPack)
