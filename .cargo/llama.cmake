# Read by llama.cpp's build (CMAKE_PROJECT_INCLUDE), right after it has named itself.

# Command line arguments, chat templates, HTTP downloads, JSON grammars: a third of the compile time, and nothing here
# calls them. llama-cpp-2 leaves them out without its feature `common`, but cannot tell llama-cpp-sys-2 so.
set(LLAMA_BUILD_COMMON OFF)

# What is not arithmetic: reading model files, building graphs, tokenising, sampling. -O1 halves its compile time.
# ggml, whose arithmetic stays as it is, is a project of its own and reads this file, too. Without DEFER (CMake before
# 3.19) all of it stays as it is.
if(PROJECT_NAME STREQUAL "llama.cpp" AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.19)
  cmake_language(DEFER CALL target_compile_options llama PRIVATE -O1)
endif()
