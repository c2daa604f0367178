# Installs what PROGRAM says of itself for man and for shells, below SHARE.
cmake_policy(VERSION 3.25)
get_filename_component(name ${PROGRAM} NAME)
foreach(file man/man1/${name}.1 bash-completion/completions/${name} zsh/site-functions/_${name} fish/vendor_completions.d/${name}.fish)
  string(REGEX MATCH "^[a-z]+" format ${file})
  execute_process(COMMAND ${PROGRAM} --describe ${format} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${SHARE}/${file} "${text}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${SHARE}/${file})
endforeach()
