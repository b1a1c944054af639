# How this project's libraries, programs, tests and fuzz targets are declared. Sources are listed one by one, never globbed.
#
#   ilmare_folders(DIR…)                                   add_subdirectory for each
#   ilmare_library(TARGET SOURCES a.c b.c LIBS t…)         a static library; TARGET is the whole name: ilmare_proto
#   ilmare_program(TARGET SOURCES main.c LIBS t… [MAN])    an executable that is installed; MAN: its man page comes from --print-man
#   ilmare_install(…)                                      install(…), but nothing in a build for fuzzing
#   ilmare_test(NAME LIBS t… [SOURCES more.c…] [WRAP f…])  tests/unit/test_NAME.c with cmocka, run by ctest as NAME;
#                                                          WRAP: calls of f go to __wrap_f (ld --wrap). The target "unit_tests" builds all
#   ilmare_fuzz(NAME LIBS t…)                              tests/fuzz/fuzz_NAME.c, seeds in tests/fuzz/corpus/NAME; nothing
#                                                          without ILMARE_FUZZ. The target "fuzz" builds all, into BUILD/fuzz/
#
# Libraries of the system: see IlmareLibraries.cmake.
include_guard(GLOBAL)
include(CheckCSourceCompiles)

check_c_source_compiles("
#include <stddef.h>
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
int main(void) { return __libc_realloc(__libc_malloc(1), 2) == __libc_calloc(1, 1); }" ILMARE_LIBC_MALLOC)

function(ilmare_folders)
	foreach(dir IN LISTS ARGN)
		add_subdirectory("${dir}")
	endforeach()
endfunction()

function(ilmare_library target)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
	add_library(${target} STATIC ${arg_SOURCES})
	target_link_libraries(${target} PUBLIC ${arg_LIBS})
endfunction()

# install(), save where the programs are not what is built.
function(ilmare_install)
	if(NOT ILMARE_FUZZ)
		install(${ARGN})
	endif()
endfunction()

function(ilmare_program target)
	cmake_parse_arguments(PARSE_ARGV 1 arg "MAN" "" "SOURCES;LIBS")
	add_executable(${target} ${arg_SOURCES})
	# Where the C library has its allocator under a second name, also memory that libraries ask for is never refused: common/mem_guard.c.
	if(ILMARE_LIBC_MALLOC AND NOT ILMARE_SANITIZE AND NOT ILMARE_FUZZ)
		target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/common/mem_guard.c")
	endif()
	target_link_libraries(${target} PRIVATE ${arg_LIBS})
	set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
	ilmare_install(TARGETS ${target} RUNTIME DESTINATION "${CMAKE_INSTALL_SBINDIR}")
	if(arg_MAN)
		# A part of building the program, so that whatever built it can install all of it.
		set(page "${PROJECT_BINARY_DIR}/man/${target}.8")
		add_custom_command(TARGET ${target} POST_BUILD
			COMMAND ${CMAKE_COMMAND} -E make_directory "${PROJECT_BINARY_DIR}/man"
			COMMAND ${target} --print-man > "${page}"
			BYPRODUCTS "${page}"
			VERBATIM)
		ilmare_install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man8")
	endif()
endfunction()

function(ilmare_test name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS;WRAP")
	add_executable(test_${name} "test_${name}.c" ${arg_SOURCES})
	target_link_libraries(test_${name} PRIVATE ${arg_LIBS} PkgConfig::CMOCKA)
	foreach(f IN LISTS arg_WRAP)
		target_link_options(test_${name} PRIVATE "-Wl,--wrap=${f}")
	endforeach()
	add_test(NAME ${name} COMMAND test_${name})
	set(patience 60)
	if(CMAKE_CROSSCOMPILING) # an emulated processor is ten times slower
		set(patience 600)
	endif()
	set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${patience})
	if(NOT TARGET unit_tests)
		add_custom_target(unit_tests)
	endif()
	add_dependencies(unit_tests test_${name})
endfunction()

function(ilmare_fuzz name)
	if(NOT ILMARE_FUZZ)
		return()
	endif()
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
	if(NOT TARGET fuzz)
		add_custom_target(fuzz)
	endif()
	add_executable(fuzz_${name} EXCLUDE_FROM_ALL "fuzz_${name}.c")
	target_link_libraries(fuzz_${name} PRIVATE ${arg_LIBS})
	target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
	set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
	add_dependencies(fuzz fuzz_${name})
endfunction()
