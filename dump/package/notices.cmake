# Of which packages something is compiled into programs and libraries, a component each; what is linked to is a package of its own.
set(compiled_in_library libcli11-dev libeigen3-dev libboost-dev nlohmann-json3-dev)
set(compiled_in_tools ${compiled_in_library})
set(compiled_in_viewer ${compiled_in_library} libimgui-dev)
# libtilescope.a, where it was built.
set(compiled_in_static libhdf5-dev libaec-dev zlib1g-dev)

# copy_notices(FOLDER PACKAGES...)
function(copy_notices folder)
  foreach(package IN LISTS ARGN)
    configure_file(/usr/share/doc/${package}/copyright ${folder}/${package} COPYONLY)
  endforeach()
endfunction()

# find_libraries(NEEDED OWNERS [PROGRAMS FILE...] [LIBRARIES FILE...]): the libraries of this system that they need, but the C
# library, which belongs to the system as does what loads it; and the packages that they come from.
function(find_libraries needed_variable owners_variable)
  cmake_parse_arguments(PARSE_ARGV 2 of "" "" "PROGRAMS;LIBRARIES")
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${of_PROGRAMS} LIBRARIES ${of_LIBRARIES} RESOLVED_DEPENDENCIES_VAR needed
    PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|resolv|util|anl|nss_[a-z]+)\\.so" "^ld-linux" "^libtilescope")
  set(owners)
  foreach(library IN LISTS needed)
    get_filename_component(name ${library} NAME)
    # Of a library below /lib, which is a link, the package knows the one below /usr or the other way round.
    execute_process(COMMAND dpkg-query --search *${name} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "^[^:]+" package "${owner}")
    list(APPEND owners ${package})
  endforeach()
  list(REMOVE_DUPLICATES owners)
  set(${needed_variable} ${needed} PARENT_SCOPE)
  set(${owners_variable} ${owners} PARENT_SCOPE)
endfunction()
