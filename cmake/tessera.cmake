# tessera_module(name [TORCH] [COLD] DEPS ... TESTS ...): a library from the sources in tessera/<name>/, which may include the modules in
# DEPS. Its tests lie beside the sources and may also include the modules in TESTS. A name may have two parts: `program/check`
# is the library tessera_program_check; `families/*` is a module for each folder there. Modules in a folder testing hold
# what only tests use; no other module may name them in DEPS. A COLD module does its work once a run or once a command; it is
# compiled with -O1, which takes two thirds of the time of -O2.
# The tests of all modules below one folder, such as program/, are one executable labelled `fast`. Its *_process_test.cpp are
# another, and each file of them is one test labelled `process`; what needs root is in *_root_process_test.cpp, labelled `root` as
# well. Each *_slow_test.cpp is an executable labelled `slow`.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(-fPIC)  # programs too: with -fPIE they could not use the precompiled header
add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
# Presets for whole builds compile the sources of a module together, up to so many in one unit: headers are read once. Names in
# unnamed namespaces are therefore unique within a module, and within the tests of a top folder. The preset `dev` compiles each alone.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-subobject-linkage)  # no source is the main file of its unit
endif()
option(TESSERA_WERROR "Warnings are errors" ON)
if(TESSERA_WERROR)
  add_compile_options(-Werror)
endif()

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TESSERA_CCACHE})  # clones share what they compiled
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
find_program(TESSERA_MOLD mold)
if(TESSERA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Off in the preset `user`: only the binary, without GoogleTest and what else only tests and benchmarks need.
option(TESSERA_TESTS "Build tests, trials and benchmarks" ON)

find_package(Threads REQUIRED)
if(TESSERA_TESTS)
  find_package(GTest REQUIRED)
endif()
find_package(Protobuf REQUIRED)
enable_testing()
if(TESSERA_TESTS)
  add_test(NAME scripts_test COMMAND ${PROJECT_SOURCE_DIR}/scripts/test-scripts)
  set_tests_properties(scripts_test PROPERTIES LABELS fast PROCESSORS 2)
endif()

# What only `.ci/long` needs is left out of `all`, and built by the target `long`: slow tests, exhaustive trials, benchmarks.
add_custom_target(long)
function(tessera_long)
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(long ${target})
  endforeach()
endfunction()

# PROCESSORS counts halves of a core: 1 for a test that mostly waits, 2 for one that computes on one core, 3 for one whose ranks
# compute on several. `ctest -j` is given twice the number of cores, so that waiting tests run next to computing ones.
set(TESSERA_WAITING 1)
set(TESSERA_ONE_CORE 2)
set(TESSERA_MANY_CORES 3)

# LibTorch is a plain imported target: include folders as SYSTEM, two libraries, no configure-time script of its own.
if(TESSERA_RUN_STOREY)
  set(TESSERA_TORCH_DIR "" CACHE PATH "Folder of the torch package (holds include/ and lib/)")
  # Looked for again while it is absent, or where scripts/bootstrap once put it: build folders configured before repair themselves.
  set(bootstrapped ${PROJECT_SOURCE_DIR}/.libtorch/torch)
  if(EXISTS ${bootstrapped} AND
     (NOT EXISTS "${TESSERA_TORCH_DIR}/include/ATen/core/Tensor.h" OR TESSERA_TORCH_DIR MATCHES "^${PROJECT_SOURCE_DIR}/\\.venv/"))
    message(STATUS "LibTorch: ${bootstrapped}")
    set(TESSERA_TORCH_DIR "${bootstrapped}" CACHE PATH "Folder of the torch package (holds include/ and lib/)" FORCE)
  endif()
  if(NOT EXISTS "${TESSERA_TORCH_DIR}/include/ATen/core/Tensor.h")
    message(FATAL_ERROR "No LibTorch in '${TESSERA_TORCH_DIR}'. Run scripts/bootstrap, or pass -DTESSERA_TORCH_DIR=<folder of the torch package>.")
  endif()
  # On GPUs, older ones refuse a product of 16-bit values that is added to a 32-bit gradient.
  set(version_header "${TESSERA_TORCH_DIR}/include/torch/headeronly/version.h")
  set(torch_version "")
  if(EXISTS "${version_header}")
    file(STRINGS "${version_header}" lines REGEX "^#define TORCH_VERSION_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
    list(JOIN lines "." torch_version)
  endif()
  if(NOT torch_version VERSION_GREATER_EQUAL 2.10)
    message(FATAL_ERROR "LibTorch ${torch_version} in '${TESSERA_TORCH_DIR}' is too old: Tessera needs 2.10 or newer. Run scripts/bootstrap.")
  endif()
  option(TESSERA_CUDA "Build for GPUs: TESSERA_TORCH_DIR is a CUDA build of torch, NVIDIA's packages lie beside it" OFF)
  add_library(torch_engine INTERFACE)
  target_include_directories(torch_engine SYSTEM INTERFACE
    ${TESSERA_TORCH_DIR}/include ${TESSERA_TORCH_DIR}/include/torch/csrc/api/include)
  # NDEBUG as in the wheel's own build: some of its structs (RecordFunction) have other members without it.
  target_compile_definitions(torch_engine INTERFACE USE_DISTRIBUTED NDEBUG)
  target_link_libraries(torch_engine INTERFACE
    ${TESSERA_TORCH_DIR}/lib/libtorch_cpu.so ${TESSERA_TORCH_DIR}/lib/libc10.so)
  target_link_options(torch_engine INTERFACE -Wl,-rpath,${TESSERA_TORCH_DIR}/lib -Wl,--allow-shlib-undefined)
  if(TESSERA_CUDA)
    file(GLOB nvidia_includes ${TESSERA_TORCH_DIR}/../nvidia/*/include)
    file(GLOB nvidia_libs ${TESSERA_TORCH_DIR}/../nvidia/*/lib)
    target_include_directories(torch_engine SYSTEM INTERFACE ${nvidia_includes})
    target_compile_definitions(torch_engine INTERFACE USE_C10D_NCCL)
    # Kept although no symbol of it may be used: loading it is what makes LibTorch know the GPU.
    target_link_libraries(torch_engine INTERFACE -Wl,--no-as-needed
      ${TESSERA_TORCH_DIR}/lib/libtorch_cuda.so ${TESSERA_TORCH_DIR}/lib/libc10_cuda.so)
    foreach(folder IN LISTS nvidia_libs)
      target_link_options(torch_engine INTERFACE -Wl,-rpath,${folder})
    endforeach()
  endif()
endif()

# tessera_fuzzer(name module...): the libFuzzer program tests/fuzz/<name>.cpp, in the preset `asan` only.
option(TESSERA_FUZZ "Build the fuzzers (clang)" OFF)
if(TESSERA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
function(tessera_fuzzer name)
  if(TESSERA_FUZZ)
    add_executable(fuzz_${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}.cpp)
    list(TRANSFORM ARGN PREPEND tessera_ OUTPUT_VARIABLE modules)
    list(TRANSFORM modules REPLACE "/" "_")
    target_link_libraries(fuzz_${name} PRIVATE ${modules})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    tessera_long(fuzz_${name})
  endif()
endfunction()

set(TESSERA_FAST_SECONDS 20 CACHE STRING "Seconds of CPU time that a test labelled fast may take")

set(tessera_test_environment "TESSERA_BINARY=${PROJECT_BINARY_DIR}/tessera;OMP_NUM_THREADS=1")

# Tests are compiled without optimisation, which for the macros of GoogleTest takes longer than to run them; what they test is not.
function(tessera_test target)
  add_executable(${target} ${ARGN})
  target_compile_options(${target} PRIVATE -O0)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
endfunction()

function(tessera_add_test name labels)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 1200 PROCESSORS ${TESSERA_ONE_CORE}
    ENVIRONMENT "${tessera_test_environment}")
endfunction()

# Sets `launcher` and `labels` of a process test. What root may do hides what others may not, so a process test runs as an
# ordinary user where the tests are started by root: label `user`. Exceptions are *_root_process_test (label `root`) and the
# tests that tessera_once named before: what they test does not depend on who runs them, or they write into the tree.
function(tessera_process_launcher name launcher labels)
  get_property(once GLOBAL PROPERTY tessera_once)
  if(name MATCHES "_root_process_test$")
    set(${labels} "process;root" PARENT_SCOPE)
  elseif(name IN_LIST once)
    set(${labels} "process;once" PARENT_SCOPE)
  else()
    set(${labels} "process;user" PARENT_SCOPE)
    set(${launcher} ${PROJECT_SOURCE_DIR}/scripts/as-user --if-root PARENT_SCOPE)
  endif()
endfunction()

# tessera_process_test(name command...)
function(tessera_process_test name)
  tessera_process_launcher(${name} launcher labels)
  tessera_add_test(${name} "${labels}" ${launcher} ${ARGN})
endfunction()

# One test for each *_process_test.cpp, all of which are compiled into `target`: it runs the tests that the file contains.
function(tessera_process_tests top target)
  foreach(file IN LISTS ARGN)
    file(STRINGS ${file} lines REGEX "^ *(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
    list(TRANSFORM lines REPLACE "^ *TEST(_F)?\\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\\).*" "\\2.\\3")
    list(TRANSFORM lines REPLACE "^ *TEST_P\\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\\).*" "*/\\1.\\2/*")
    if(NOT lines OR "${lines}" MATCHES "\\(")
      message(FATAL_ERROR "CMake can't read the names of the tests in ${file}: one line each, TEST, TEST_F or TEST_P")
    endif()
    list(JOIN lines ":" filter)
    get_filename_component(stem ${file} NAME_WE)
    tessera_process_test(${top}_${stem} $<TARGET_FILE:${target}> --gtest_filter=${filter})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
endfunction()

# tessera_shards(test count): a fast test that would take too long runs as so many, test, test_2 and so on, each with its share of
# the cases.
function(tessera_shards test count)
  if(NOT TEST ${test})
    return()
  endif()
  set(common "${tessera_test_environment};GTEST_TOTAL_SHARDS=${count}")
  set_tests_properties(${test} PROPERTIES ENVIRONMENT "${common};GTEST_SHARD_INDEX=0")
  foreach(shard RANGE 2 ${count})
    math(EXPR index "${shard} - 1")
    tessera_add_test(${test}_${shard} fast ${PROJECT_SOURCE_DIR}/scripts/within ${TESSERA_FAST_SECONDS} $<TARGET_FILE:${test}>)
    set_tests_properties(${test}_${shard} PROPERTIES ENVIRONMENT "${common};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# The folders of names with a *, such as families/*.
function(tessera_folders result)
  set(found "")
  foreach(name IN LISTS ARGN)
    if(name MATCHES "\\*")
      file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/tessera
        ${PROJECT_SOURCE_DIR}/tessera/${name})
      list(APPEND found ${folders})
    else()
      list(APPEND found ${name})
    endif()
  endforeach()
  list(FILTER found EXCLUDE REGEX "\\.(cpp|hpp|def)$")
  set(${result} ${found} PARENT_SCOPE)
endfunction()

function(tessera_module name)
  if(name MATCHES "\\*")
    tessera_folders(folders ${name})
    foreach(folder IN LISTS folders)
      tessera_module(${folder} ${ARGN})
    endforeach()
    return()
  endif()
  cmake_parse_arguments(ARG "TORCH;COLD" "" "DEPS;TESTS" ${ARGN})
  tessera_folders(ARG_DEPS ${ARG_DEPS})
  if(ARG_TORCH AND NOT TESSERA_RUN_STOREY)
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/tessera/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  # x_stub.cpp stands in for x_torch.cpp where there is no CUDA.
  foreach(stub IN LISTS sources)
    if(stub MATCHES "_stub\\.cpp$")
      string(REPLACE "_stub.cpp" "_torch.cpp" real ${stub})
      if(TESSERA_CUDA)
        list(REMOVE_ITEM sources ${stub})
      else()
        list(REMOVE_ITEM sources ${real})
      endif()
    endif()
  endforeach()
  string(REPLACE "/" "_" target tessera_${name})
  list(TRANSFORM ARG_DEPS REPLACE "/" "_")
  list(TRANSFORM ARG_DEPS PREPEND tessera_)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
  foreach(dep IN LISTS ARG_DEPS)
    if(TARGET ${dep})
      target_link_libraries(${target} ${scope} ${dep})
    endif()
  endforeach()
  target_link_libraries(${target} ${scope} Threads::Threads)
  if(ARG_COLD AND sources)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(ARG_TORCH)
    target_link_libraries(${target} ${scope} torch_engine)
    if(sources)
      tessera_lean_header(${target} lean_header ${sources})
    endif()
  endif()

  string(REGEX REPLACE "/.*" "" top ${name})
  list(TRANSFORM ARG_TESTS REPLACE "/" "_")
  list(TRANSFORM ARG_TESTS PREPEND tessera_)
  set_property(GLOBAL APPEND PROPERTY tessera_tops ${top})
  set_property(GLOBAL APPEND PROPERTY tessera_tests_${top} ${tests})
  set_property(GLOBAL APPEND PROPERTY tessera_test_libraries_${top} ${target} ${ARG_TESTS})
  if(ARG_TORCH)
    set_property(GLOBAL PROPERTY tessera_torch_${top} ON)
  endif()
endfunction()

# tessera_kernels(module): the kernels tessera/<module>/*.cu become part of the module's library, in a build for GPUs. Compiled for
# three generations, and as text that drivers of later ones compile; a kernel that spills registers is an error. Products and sums
# are rounded one by one (-fmad=false), as on a CPU.
function(tessera_kernels name)
  if(NOT TESSERA_CUDA)
    return()
  endif()
  file(GLOB nvidia_programs ${TESSERA_TORCH_DIR}/../nvidia/*/bin)
  file(GLOB cudart ${TESSERA_TORCH_DIR}/../nvidia/*/lib/libcudart.so.*)
  find_program(TESSERA_NVCC nvcc HINTS ${nvidia_programs})
  if(NOT TESSERA_NVCC OR NOT cudart)
    message(FATAL_ERROR "No nvcc or no libcudart beside '${TESSERA_TORCH_DIR}'. scripts/cuda-wheels.txt lists the packages.")
  endif()
  string(REPLACE "/" "_" target tessera_${name})
  set(folder ${PROJECT_BINARY_DIR}/kernels/${name})
  file(MAKE_DIRECTORY ${folder})
  file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tessera/${name}/*.cu)
  foreach(kernel IN LISTS kernels)
    get_filename_component(stem ${kernel} NAME_WE)
    add_custom_command(OUTPUT ${folder}/${stem}.o BYPRODUCTS ${folder}/${stem}.txt
      COMMAND ${PROJECT_SOURCE_DIR}/scripts/nvcc-without-spills ${folder}/${stem}.txt ${TESSERA_NVCC}
        -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 -fmad=false -Xcompiler -fPIC,-Wall,-Wextra,-Werror
        -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
        -gencode "arch=compute_100,code=[sm_100,compute_100]"
        -I ${PROJECT_SOURCE_DIR} -MD -MF ${folder}/${stem}.d -c ${kernel} -o ${folder}/${stem}.o
      DEPENDS ${kernel} ${PROJECT_SOURCE_DIR}/scripts/nvcc-without-spills DEPFILE ${folder}/${stem}.d VERBATIM)
    set_source_files_properties(${folder}/${stem}.o PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE ${folder}/${stem}.o)
  endforeach()
  target_link_libraries(${target} PUBLIC ${cudart})
endfunction()

# One test of the modules below `top`, with all of their libraries.
function(tessera_test_of top name)
  tessera_test(${name} ${ARGN})
  get_property(libraries GLOBAL PROPERTY tessera_test_libraries_${top})
  list(REMOVE_DUPLICATES libraries)
  target_link_libraries(${name} PRIVATE ${libraries})
  get_property(torch GLOBAL PROPERTY tessera_torch_${top})
  if(torch)
    tessera_lean_header(${name} lean_test_header ${ARGN})
  else()
    target_precompile_headers(${name} REUSE_FROM test_header)
  endif()
endfunction()

# The tests of all modules. Comes after the last of them: tests include what lies above their module.
function(tessera_tests)
  if(NOT TESSERA_TESTS)
    return()
  endif()
  get_property(tops GLOBAL PROPERTY tessera_tops)
  list(REMOVE_DUPLICATES tops)
  foreach(top IN LISTS tops)
    get_property(tests GLOBAL PROPERTY tessera_tests_${top})
    foreach(kind slow process)
      set(${kind} ${tests})
      list(FILTER ${kind} INCLUDE REGEX "_${kind}_test\\.cpp$")
    endforeach()
    set(fast ${tests})
    list(FILTER fast EXCLUDE REGEX "_(slow|process)_test\\.cpp$")
    if(fast)
      tessera_test_of(${top} ${top}_test ${fast})
      tessera_add_test(${top}_test fast ${PROJECT_SOURCE_DIR}/scripts/within ${TESSERA_FAST_SECONDS} $<TARGET_FILE:${top}_test>)
    endif()
    if(process)
      tessera_test_of(${top} ${top}_process_test ${process})
      tessera_process_tests(${top} ${top}_process_test ${process})
      set_property(GLOBAL APPEND PROPERTY tessera_process_programs ${top}_process_test)
    endif()
    foreach(file IN LISTS slow)
      get_filename_component(stem ${file} NAME_WE)
      tessera_test_of(${top} ${top}_${stem} ${file})
      tessera_add_test(${top}_${stem} slow $<TARGET_FILE:${top}_${stem}>)
      tessera_long(${top}_${stem})
    endforeach()
  endforeach()
endfunction()

# tessera_messages(module file.proto): C++ of the messages, for the sources of that module; included as
# "tessera/<module>/<file>.pb.h". Never in a module with TORCH: its include folder has other protobuf headers.
function(tessera_messages name proto)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  string(REGEX REPLACE "\\.proto$" "" stem ${proto})
  add_custom_command(OUTPUT ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h
    COMMAND protobuf::protoc --cpp_out ${generated} ${proto}
    DEPENDS ${PROJECT_SOURCE_DIR}/${proto} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
  string(REPLACE "/" "_" name ${name})
  target_sources(tessera_${name} PRIVATE ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h)
  set_source_files_properties(${generated}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS -w)  # not our code
  target_include_directories(tessera_${name} SYSTEM PRIVATE ${generated})
  # LibTorch brings another protobuf under the same names. So ours is linked in, and shows none of them to others.
  find_library(TESSERA_PROTOBUF_LITE libprotobuf-lite.a REQUIRED)
  target_link_libraries(tessera_${name} PRIVATE ${TESSERA_PROTOBUF_LITE})
  target_link_options(tessera_${name} INTERFACE -Wl,--exclude-libs,libprotobuf-lite.a)
endfunction()

# Precompiled headers, each made once: the lean one of what uses LibTorch, GoogleTest's for tests, and both. Heavy files
# (*_torch.cpp) gain nothing from the lean one.
function(tessera_header name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp.in "")
  configure_file(${PROJECT_BINARY_DIR}/${name}.cpp.in ${PROJECT_BINARY_DIR}/${name}.cpp)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
if(TESSERA_TESTS)
  tessera_header(test_header LINK GTest::gtest GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
  target_compile_options(test_header PRIVATE -O0)
endif()
if(TESSERA_RUN_STOREY)
  set(lean ${PROJECT_SOURCE_DIR}/tessera/tensor/tensor.hpp)
  tessera_header(lean_header LINK torch_engine HEADERS ${lean})
  if(TESSERA_TESTS)
    tessera_header(lean_test_header LINK torch_engine GTest::gtest GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h> ${lean})
    target_compile_options(lean_test_header PRIVATE -O0)
  endif()
endif()

function(tessera_lean_header target header)
  target_precompile_headers(${target} REUSE_FROM ${header})
  set(heavy ${ARGN})
  list(FILTER heavy INCLUDE REGEX "_torch(_test)?\\.cpp$")
  if(heavy)
    set_source_files_properties(${heavy} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# tessera_trial(name arguments...): the program tests/<name>/<name>.cpp, and one short run of it as a test; said again with
# other arguments, one more run.
function(tessera_trial name)
  if(NOT TARGET tessera_cli)
    return()
  endif()
  set(test ${name}_trial)
  if(TARGET ${name})
    set(test ${name}_${ARGV1}_trial)
  else()
    tessera_trial_program(${name})
  endif()
  tessera_process_test(${test} $<TARGET_FILE:${name}> ${ARGN})
endfunction()

# tessera_long_trial(name): the program alone; only `.ci/long` runs it.
function(tessera_long_trial name)
  if(TARGET tessera_cli)
    tessera_trial_program(${name})
    tessera_long(${name})
  endif()
endfunction()

function(tessera_trial_program name)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/${name}/${name}.cpp)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE tessera_cli tessera_program_testing tessera_train_testing tessera_testing_async_device GTest::gtest)
  target_compile_options(${name} PRIVATE -O0)
  tessera_lean_header(${name} lean_test_header)
endfunction()

# tessera_slow(tests...): tests that `.ci/run` leaves out; `.ci/long slow` runs them.
function(tessera_slow)
  foreach(test IN LISTS ARGN)
    if(TEST ${test})
      get_property(labels TEST ${test} PROPERTY LABELS)
      set_tests_properties(${test} PROPERTIES LABELS "${labels};slow")
    endif()
  endforeach()
endfunction()

# tessera_threads(tests...): fast tests that also run under the thread sanitizer (preset `tsan`).
add_custom_target(tsan_tests)
function(tessera_threads)
  foreach(test IN LISTS ARGN)
    if(TEST ${test})
      set_tests_properties(${test} PROPERTIES LABELS "fast;tsan")
      add_dependencies(tsan_tests ${test})
    endif()
  endforeach()
endfunction()

# tessera_processors(count tests...): with all of their shards.
function(tessera_processors count)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    string(REGEX REPLACE "_test_[0-9]+$" "_test" whole ${test})
    if(whole IN_LIST ARGN)
      set_tests_properties(${test} PROPERTIES PROCESSORS ${count})
    endif()
  endforeach()
endfunction()

# tessera_once(tests...): process tests that run as whoever started them. Comes before the first test.
function(tessera_once)
  set_property(GLOBAL APPEND PROPERTY tessera_once ${ARGN})
endfunction()

# tessera_layouts_test(family ranks count binary arguments...): so many of all layouts on up to so many ranks, as examples/layouts-<family>.toml
# has them.
function(tessera_layouts_test family ranks count binary)
  if(TARGET ${binary})
    tessera_process_test(layouts_${family}_trial $<TARGET_FILE:${binary}> verify examples/layouts-${family}.toml
      --all-layouts ${ranks} --sample ${count} ${ARGN})
  endif()
endfunction()

# The binary: cli with a main of its own. Comes after all modules, so that the tests that start it can wait for it.
function(tessera_program)
  if(TARGET tessera_cli)
    add_executable(tessera_binary ${PROJECT_SOURCE_DIR}/tessera/main.cpp)
    set_target_properties(tessera_binary PROPERTIES OUTPUT_NAME tessera)
    target_link_libraries(tessera_binary PRIVATE tessera_cli)
    get_property(programs GLOBAL PROPERTY tessera_process_programs)
    foreach(program IN LISTS programs)
      add_dependencies(${program} tessera_binary)
    endforeach()
    if(TESSERA_TESTS)
      # The pictures of docs/ and the tables of docs/schedules.md are what the binary says.
      tessera_process_test(drawn_docs_test ${PROJECT_SOURCE_DIR}/scripts/draw-docs --check --binary $<TARGET_FILE:tessera_binary>)
      if(PROJECT_BINARY_DIR STREQUAL "${PROJECT_SOURCE_DIR}/build/release")
        tessera_process_test(readme_test ${PROJECT_SOURCE_DIR}/scripts/check-readme --preset release)
        tessera_process_test(notice_test ${PROJECT_SOURCE_DIR}/scripts/check-notice $<TARGET_FILE:tessera_binary>)
      endif()
    endif()
  endif()
endfunction()
