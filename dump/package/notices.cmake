# Of which packages something is compiled into programs and libraries, a component each; what is linked to is a package of its own.
set(compiled_in_library libcli11-dev libeigen3-dev libboost-dev nlohmann-json3-dev)
set(compiled_in_tools ${compiled_in_library})
set(compiled_in_viewer ${compiled_in_library} libimgui-dev)

# copy_notices(FOLDER PACKAGES...)
function(copy_notices folder)
  foreach(package IN LISTS ARGN)
    configure_file(/usr/share/doc/${package}/copyright ${folder}/${package} COPYONLY)
  endforeach()
endfunction()
