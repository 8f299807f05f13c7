# Writes OUTPUT, the source of kernels/region/version.h's function, from the
# hash of SOURCES (a list with commas) below ROOT. Run as a script by the build.
string(REPLACE "," ";" sources "${SOURCES}")
set(hashes "")
foreach(source IN LISTS sources)
  file(SHA256 "${ROOT}/${source}" hash)
  string(APPEND hashes "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING "${hash}" 0 16 hash)
file(WRITE "${OUTPUT}" "#include \"kernels/region/version.h\"

const char* mica::region::EmitterVersion() { return \"${hash}\"; }
")
