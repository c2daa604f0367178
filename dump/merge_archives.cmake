# OUTPUT, one object: all of WHOLE, the OBJECTS, and of the archives in USED what these use, whose names are then known to nobody
# else. A program may link another HDF5 beside it.
cmake_policy(VERSION 3.25)
execute_process(COMMAND ${LINKER} -r -o ${OUTPUT} --whole-archive ${WHOLE} --no-whole-archive ${OBJECTS} ${USED}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${OBJECTS} ${USED} OUTPUT_VARIABLE listed
  ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)  # it tells of objects without names
string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]* [A-Z]" names "${listed}")
list(TRANSFORM names REPLACE " .*" "")
list(REMOVE_DUPLICATES names)
list(JOIN names "\n" names)
file(WRITE ${OUTPUT}.names "${names}\n")
execute_process(COMMAND ${OBJCOPY} --localize-symbols=${OUTPUT}.names ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${OUTPUT}.names)
